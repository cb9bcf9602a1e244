package roundtrip

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os/exec"
	"reflect"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// framed returns random values, each after its length, and the values' encodings.
func framed(t *testing.T, values int) (in []byte, sent [][]byte) {
	t.Helper()
	for seed := range uint64(values) {
		v, msg := randomEverything(t, seed)
		var ours all.Everything
		if err := xdr.Unmarshal(msg, &ours); err != nil || !same(reflect.ValueOf(ours), reflect.ValueOf(*v)) {
			t.Fatalf("seed %d: decoded %+v (%v), want %+v", seed, ours, err, v)
		}
		msg, err := xdr.Append(nil, &ours)
		if err != nil {
			t.Fatal(err)
		}
		in = binary.BigEndian.AppendUint32(in, uint32(len(msg)))
		in = append(in, msg...)
		sent = append(sent, msg)
	}
	return in, sent
}

// through sends the values of framed through a C program and checks that they come back.
func through(t *testing.T, values int, program string, args ...string) {
	t.Helper()
	in, sent := framed(t, values)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the C program %v: %v\n%s", args, err, stderr.String())
	}
	r := bytes.NewReader(out)
	for seed, want := range sent {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: C encoded\n%x, Go\n%x", seed, got, want)
		}
		v, _ := randomEverything(t, uint64(seed))
		var back all.Everything
		if err := xdr.Unmarshal(got, &back); err != nil || !same(reflect.ValueOf(back), reflect.ValueOf(*v)) {
			t.Fatalf("seed %d: decoded %+v (%v), want %+v", seed, back, err, v)
		}
	}
}

// patience only guards against hangs.
const patience = 2 * time.Minute

// TestSameAsC: a C program made of the same specification decodes what generated types
// encode, and encodes it to the same bytes, which they decode to the same value.
func TestSameAsC(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c"}, "../testdata/c/echo.c")
	through(t, 300, program)
}
