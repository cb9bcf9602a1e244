package roundtrip

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/rfc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// TestRecursiveUnion: a list as RFC 4506 section 4.19 writes it first is encoded as that section
// says: a true, an item, and so on, and a false.
func TestRecursiveUnion(t *testing.T) {
	v := rfc.Stringlist{}
	for _, item := range []string{"three", "two", "one"} {
		v = rfc.Stringlist{Opted: true, Element: &rfc.StringlistElement{Item: item, Next: v}}
	}
	msg, err := xdr.Append(nil, &v)
	want := "\x00\x00\x00\x01\x00\x00\x00\x03one\x00\x00\x00\x00\x01\x00\x00\x00\x03two\x00\x00\x00\x00\x01\x00\x00\x00\x05three\x00\x00\x00\x00\x00\x00\x00"
	if err != nil || string(msg) != want {
		t.Fatalf("encoded %q (%v), want %q", msg, err, want)
	}
	var back rfc.Stringlist
	for range 2 { // the second time into the memory of the first
		if err := xdr.Unmarshal(msg, &back); err != nil {
			t.Fatal(err)
		}
		if again, err := xdr.Append(nil, &back); err != nil || !bytes.Equal(again, msg) {
			t.Errorf("%q (%v) came back", again, err)
		}
	}
	tree := rfc.Expression{Op: 1, Pair: &[2]rfc.Expression{{Op: 0, Number: 3}, {Op: 1, Pair: &[2]rfc.Expression{{}, {Op: 7}}}}}
	msg, err = xdr.Append(nil, &tree)
	var same rfc.Expression
	if err != nil || xdr.Unmarshal(msg, &same) != nil || same.Pair[0].Number != 3 || same.Pair[1].Pair[1].Op != 7 {
		t.Errorf("%v; came back as %+v", err, same)
	}
}

// TestRecursiveDepth: neither a message nor a value that contains itself makes calls go deeper
// than MaxDepth.
func TestRecursiveDepth(t *testing.T) {
	deep := bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 0, 0}, 1<<20)
	var list rfc.Stringlist
	if err := xdr.Unmarshal(deep, &list); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("decoded: %v", err)
	}
	var tree rfc.Expression
	if err := xdr.Unmarshal(bytes.Repeat([]byte{0, 0, 0, 1}, 1<<20), &tree); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("decoded: %v", err)
	}
	round := rfc.Expression{Op: 1, Pair: &[2]rfc.Expression{}}
	round.Pair[0] = round // its pair is the same memory
	if _, err := xdr.Append(nil, &round); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("encoded: %v", err)
	}
}

// TestTwoNames: two names of one value are one value, whose text is the first of them; an arm may
// be named like its discriminant.
func TestTwoNames(t *testing.T) {
	if rfc.Mismatch != rfc.RpcMismatch || rfc.Mismatch.String() != "RPC_MISMATCH" {
		t.Errorf("%d %v, %d", rfc.Mismatch, rfc.Mismatch, rfc.RpcMismatch)
	}
	v := rfc.RejectedReply{Stat: rfc.AuthError, Stat_: 5}
	msg, err := xdr.Append(nil, &v)
	if want := []byte{0, 0, 0, 1, 0, 0, 0, 5}; err != nil || !bytes.Equal(msg, want) {
		t.Errorf("encoded %x (%v), want %x", msg, err, want)
	}
}
