package xdr_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// chain is struct chain { int value; chain *next; };
type chain struct {
	Value int32
	Next  *chain
}

func encodeChain(c *chain, e *xdr.Encoder) { e.Int(c.Value) }
func decodeChain(c *chain, d *xdr.Decoder) { c.Value = d.Int() }
func linkChain(c *chain) **chain           { return &c.Next }

// TestList: a list may be longer than types may be nested, and is the optional data that
// RFC 4506 makes lists of.
func TestList(t *testing.T) {
	const elements = 5 * xdr.DefaultMaxDepth
	var first *chain
	for i := range elements {
		first = &chain{int32(elements - i), first}
	}
	var e xdr.Encoder
	xdr.EncodeList(&e, first, encodeChain, linkChain)
	if e.Err() != nil || e.Len() != 8*elements {
		t.Fatalf("%d bytes, %v", e.Len(), e.Err())
	}
	for _, got := range []*chain{{}, {Next: &chain{7, &chain{}}}} {
		var d xdr.Decoder
		d.Reset(e.Bytes())
		xdr.DecodeList(&d, got, 8, decodeChain, linkChain)
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		n := int32(0)
		for c := got; c != nil; c = c.Next {
			if n++; c.Value != n {
				t.Fatalf("element %d has the value %d", n, c.Value)
			}
		}
		if n != elements {
			t.Fatalf("%d elements, want %d", n, elements)
		}
	}
	var short xdr.Decoder
	short.Reset(unhex("00000001 00000000"))
	got := &chain{1, first}
	xdr.DecodeList(&short, got, 8, decodeChain, linkChain)
	if got.Next != nil || short.End() != nil {
		t.Errorf("a list of one element goes on: %v", short.Err())
	}

	var d xdr.Decoder
	list := new(list)
	d.Reset(e.Bytes())
	d.MaxDepth = elements + 1
	list.UnmarshalXDR(&d)
	if err := d.End(); err != nil || list.Next.Next.Value != 3 {
		t.Errorf("as optional data: %v", err)
	}
}

// TestEndlessList: a list that comes back to itself, wherever, is an error.
func TestEndlessList(t *testing.T) {
	for before := range 5 {
		for round := 1; round < 6; round++ {
			last := &chain{}
			first := last
			for i := 1; i < round; i++ {
				first = &chain{Next: first}
			}
			last.Next = first
			for range before {
				first = &chain{Next: first}
			}
			var e xdr.Encoder
			xdr.EncodeList(&e, first, encodeChain, linkChain)
			wantError(t, e.Err(), xdr.ErrCycle, "links back to one of its own elements")
		}
	}
	var e xdr.Encoder
	e.MaxSize = 16
	xdr.EncodeList(&e, &chain{Next: &chain{Next: &chain{}}}, encodeChain, linkChain)
	wantError(t, e.Err(), xdr.ErrFull, "20 bytes long, the limit is 16")
}

// TestNeed: optional data and elements of lists that a message cannot hold take no memory.
func TestNeed(t *testing.T) {
	type huge struct {
		_ [1 << 24]byte
		_ *huge
	}
	none := func(*huge, *xdr.Decoder) { t.Error("decoded what is not there") }
	for name, decode := range map[string]func(d *xdr.Decoder){
		"optional data": func(d *xdr.Decoder) {
			if xdr.DecodeOptional(d, nil, 1<<24, none) != nil {
				t.Error("optional data that are not there")
			}
		},
		"linked list": func(d *xdr.Decoder) {
			var p *huge
			link := func(*huge) **huge { return &p }
			xdr.DecodeList(d, nil, 1<<24, func(*huge, *xdr.Decoder) {}, link)
			if p != nil {
				t.Error("an element that is not there")
			}
		},
		"arm": func(d *xdr.Decoder) {
			if d.Uint(); d.Need("arm", 1<<24) {
				t.Error("an arm that is not there")
			}
		},
	} {
		var d xdr.Decoder
		d.Reset(unhex("00000001 00000000 00000000"))
		if n := allocated(func() { decode(&d) }); n > 1<<20 {
			t.Errorf("%s: %d bytes of memory for a message of 12", name, n)
		}
		wantError(t, d.Err(), xdr.ErrShort, name+" at byte 4: needs 16777216 bytes, has 8")
	}
	// Bytes of the elements to come do not count.
	var d xdr.Decoder
	d.Reset(unhex("00000002 00000000 00000000"))
	xdr.DecodeArray(&d, nil, 2, 4, func(p *point, d *xdr.Decoder) {
		if d.Need("element", 5) {
			t.Error("the first element takes bytes of the second")
		}
	})
	wantError(t, d.Err(), xdr.ErrShort, "element at byte 4: needs 5 bytes, has 4")
}

// TestNil: the error of a value that is missing says which.
func TestNil(t *testing.T) {
	var e xdr.Encoder
	e.Uint(1)
	e.Nil("union choice, arm")
	wantError(t, e.Err(), xdr.ErrNil, "union choice, arm at byte 4: the pointer to it is nil")
}
