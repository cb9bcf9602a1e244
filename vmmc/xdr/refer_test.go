package xdr_test

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Where opaque data is referred to, Bytes with what Refs says in between are the octets that
// Bytes has otherwise, and lengths and bounds are the same.
func TestRefs(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 10)
	encode := func(e *xdr.Encoder) {
		e.Uint(7)
		for _, n := range []int{0, 15, 16, 17, 63, 100} {
			e.Opaque(data[:n], 100)
			e.FixedOpaque(data[:n])
			e.String("between", 10)
		}
		e.Opaque(data[:64], 100)
	}
	var plain, refers xdr.Encoder
	refers.ReferFrom = 16
	for round := range 2 { // the memory of the first is used again
		before := make([]byte, 4, 2000)
		plain.Reset(bytes.Clone(before))
		refers.Reset(before)
		encode(&plain)
		encode(&refers)
		var got []byte
		at := 0
		for _, r := range refers.Refs() {
			if len(r.Data) < 16 || &r.Data[0] != &data[0] {
				t.Fatalf("%d octets are referred to, or a copy", len(r.Data))
			}
			got = append(append(got, refers.Bytes()[at:r.At]...), r.Data...)
			at = r.At
		}
		got = append(got, refers.Bytes()[at:]...)
		if len(refers.Refs()) != 9 || !bytes.Equal(got, plain.Bytes()) || refers.Len() != plain.Len() {
			t.Errorf("round %d: %d references\n%x\nwant\n%x", round, len(refers.Refs()), got, plain.Bytes())
		}
	}
	refers.MaxSize = 100
	refers.Reset(nil)
	refers.Opaque(data[:60], 100)
	refers.Opaque(data[:60], 100)
	wantError(t, refers.Err(), xdr.ErrFull, "128")
	if len(refers.Refs()) != 1 || refers.Len() != 64 {
		t.Errorf("%d references, %d octets, of what fits", len(refers.Refs()), refers.Len())
	}
}
