package roundtrip

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/example"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// TestRFCExample: the file of John's lisp program has the bytes that RFC 4506 section 7 lists.
func TestRFCExample(t *testing.T) {
	want, err := hex.DecodeString(strings.Join(strings.Fields(`
		00000009 73696c6c 7970726f 67000000 00000002 00000004
		6c697370 00000004 6a6f686e 00000006 28717569 74290000`), ""))
	if err != nil {
		t.Fatal(err)
	}
	file := example.File{
		Filename: "sillyprog", Type: example.Filetype{Kind: example.Exec, Interpretor: "lisp"},
		Owner: "john", Data: []byte("(quit)"),
	}
	got, err := xdr.Append(nil, &file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x (%v), the RFC has\n%x", got, err, want)
	}
	var back example.File
	if err := xdr.Unmarshal(want, &back); err != nil || !reflect.DeepEqual(back, file) {
		t.Errorf("decoded %+v (%v), want %+v", back, err, file)
	}
}

// pinger carries out RFC 5531's program.
type pinger struct{}

func (pinger) PingprocPingback(*vrpc.Call) (int32, error) { return -1, nil }

// TestRFCProgram: both versions of the program of RFC 5531 section 12.1 answer.
func TestRFCProgram(t *testing.T) {
	srv := vrpc.NewServer(nil)
	defer srv.Close()
	for _, p := range []*vrpc.Program{example.PingVersPingbackProgram(pinger{}), example.PingVersOrigProgram(nil)} {
		if err := srv.Register(p); err != nil {
			t.Fatal(err)
		}
	}
	transport := vrpc.Direct(t.Context(), srv)
	latest, original := example.NewPingVersPingbackClient(transport, nil), example.NewPingVersOrigClient(transport, nil)
	if n, err := latest.PingprocPingback(t.Context()); n != -1 || err != nil {
		t.Errorf("PINGBACK: %d, %v", n, err)
	}
	if err := original.PingprocNull(t.Context()); err != nil {
		t.Error("NULL:", err)
	}
	if example.PingProg != 1 || example.PingVersPingback != example.PingVers || example.PingVersOrig != 1 {
		t.Error("the numbers are not the RFC's")
	}
}
