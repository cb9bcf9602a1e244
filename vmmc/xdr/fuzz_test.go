package xdr_test

import (
	"bytes"
	"testing"

	oracle "github.com/stellar/go-xdr/xdr3"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// FuzzUnmarshal: what is decoded is encoded to the same bytes again, and the oracle
// accepts what we accept and nothing else.
func FuzzUnmarshal(f *testing.F) {
	text := "lisp"
	for _, s := range []sink{
		{E: 2, C: choice{2, &text}, Var: []byte("abc"), S: "de", List: []point{{1, 2}}},
		{E: 3, C: choice{Color: 3}, Next: &sink{E: -5, C: choice{Color: 3}}},
	} {
		msg, err := xdr.Append(nil, &s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var v, other sink
		err := xdr.Unmarshal(msg, &v)
		n, err2 := oracle.Unmarshal(bytes.NewReader(msg), &other)
		if accepted := err2 == nil && n == len(msg); accepted != (err == nil) {
			t.Fatalf("%x: %v, the oracle: %d bytes, %v", msg, err, n, err2)
		}
		if err != nil {
			return
		}
		if again, err := xdr.Append(nil, &v); err != nil || !bytes.Equal(again, msg) {
			t.Fatalf("%x became %x, %v", msg, again, err)
		}
	})
}

// FuzzTree: whatever the lengths say, the nodes of a tree have an byte group each.
func FuzzTree(f *testing.F) {
	f.Add(unhex("00000002 00000001 00000000 00000000"))
	f.Add(unhex("00000003 00000002 00000001 00000000"))
	var count func(t *tree) int
	count = func(t *tree) int {
		n := cap(t.Kids)
		for i := range t.Kids {
			n += count(&t.Kids[i])
		}
		return n
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var v tree
		err := xdr.Unmarshal(msg, &v)
		if n := count(&v); 4*n > len(msg) {
			t.Fatalf("%d nodes from %d bytes, %v", n, len(msg), err)
		}
		if again, err2 := xdr.Append(nil, &v); err == nil && !bytes.Equal(again, msg) {
			t.Fatalf("%x became %x, %v", msg, again, err2)
		}
	})
}

// FuzzItems takes items in any order: the offset stays in the message and on a multiple
// of four, an error stays and stops it, and views lie where the items were.
func FuzzItems(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, make([]byte, 80))
	f.Add([]byte{8, 9, 10}, unhex("00000003 61626300 00000001 61000000 61626300"))
	f.Fuzz(func(t *testing.T, items, msg []byte) {
		var d xdr.Decoder
		d.Reset(msg)
		for _, item := range items {
			offset, err := d.Offset(), d.Err()
			view := takeItem(&d, item)
			switch taken := d.Offset() - offset; {
			case taken < 0 || taken%4 != 0 || d.Offset()+len(d.Rest()) != len(msg):
				t.Fatalf("item %d: from byte %d to %d of %d", item, offset, d.Offset(), len(msg))
			case d.Err() != nil && (taken != 0 || len(view) != 0):
				t.Fatalf("item %d: %d bytes taken, %d shown after %v", item, taken, len(view), d.Err())
			case err != nil && d.Err() != err:
				t.Fatalf("item %d: %v became %v", item, err, d.Err())
			case !bytes.Contains(msg[offset:d.Offset()], view):
				t.Fatalf("item %d: a view of %x, not in %x", item, view, msg[offset:d.Offset()])
			}
		}
	})
}

// takeItem takes an item of one of the elementary types.
func takeItem(d *xdr.Decoder, item byte) []byte {
	switch item % 12 {
	case 0:
		d.Int()
	case 1:
		d.Uint()
	case 2:
		d.Enum("enum color", isColor)
	case 3:
		d.Bool()
	case 4:
		d.Hyper()
	case 5:
		d.Float()
	case 6:
		d.Double()
	case 7:
		d.Quadruple()
	case 8:
		return d.OpaqueView(uint32(item))
	case 9:
		return []byte(d.String(xdr.Unbounded))
	case 10:
		return d.FixedOpaqueView(int(item) / 12)
	case 11:
		return d.Opaque(nil, xdr.Unbounded)
	}
	return nil
}
