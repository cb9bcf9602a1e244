package xdr_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// allocated returns how many bytes of memory run takes. It is the least of several runs, because
// the runtime counts for the whole process, and allocates a few kilobytes itself now and then.
func allocated(run func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestHugeLengths: a length of 2^32-1 takes no memory but the error's, and is refused.
func TestHugeLengths(t *testing.T) {
	for name, decode := range map[string]func(d *xdr.Decoder){
		"opaque": func(d *xdr.Decoder) { d.Opaque(nil, xdr.Unbounded) },
		"string": func(d *xdr.Decoder) { d.String(xdr.Unbounded) },
		"array":  func(d *xdr.Decoder) { xdr.DecodeArray(d, nil, xdr.Unbounded, 4, (*tree).UnmarshalXDR) },
		"array of nothing": func(d *xdr.Decoder) {
			xdr.DecodeArray(d, nil, xdr.Unbounded, 0, func(*xdr.Void, *xdr.Decoder) {})
		},
	} {
		var d xdr.Decoder
		message := unhex("ffffffff 00000000 00000000")
		if n := allocated(func() { d.Reset(message); decode(&d) }); n > 4096 {
			t.Errorf("%s: %d bytes of memory for a message of 12", name, n)
		}
		wantError(t, d.Err(), xdr.ErrShort, "bytes, has 8")
	}
}

// TestNestedLengths: arrays within arrays that each claim all that is left of the message
// take memory in proportion to the message, not to its square.
func TestNestedLengths(t *testing.T) {
	const words = 2000
	var e xdr.Encoder
	for i := range words {
		e.Uint(uint32(words - 1 - i)) // the rest of the message, as children of this node
	}
	var d xdr.Decoder
	n := allocated(func() {
		var v tree
		d.Reset(e.Bytes())
		v.UnmarshalXDR(&d)
	})
	wantError(t, d.Err(), xdr.ErrShort, "array at byte 4: needs 7992 bytes, has 0")
	if limit := uint64(words) * 24 * 2; n > limit { // a tree is a slice header of 24 bytes
		t.Errorf("%d bytes of memory for a message of %d, want %d at most", n, e.Len(), limit)
	}
}

// TestOwedBytesOfValidMessages: what elements owe each other refuses no valid message.
func TestOwedBytesOfValidMessages(t *testing.T) {
	deep := tree{[]tree{{[]tree{{}, {}, {[]tree{{}}}}}, {}, {[]tree{{}}}}}
	msg, err := xdr.Append(nil, &deep)
	if err != nil {
		t.Fatal(err)
	}
	var got tree
	if err := xdr.Unmarshal(msg, &got); err != nil || len(got.Kids) != 3 || len(got.Kids[0].Kids[2].Kids) != 1 {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

// TestDepth: MaxDepth levels are encoded and decoded, one more is not, by either side.
func TestDepth(t *testing.T) {
	for _, c := range []struct{ set, limit int }{{0, xdr.DefaultMaxDepth}, {3, 3}} {
		chain := func(levels int) *list { // each link, and its absence at the end, is a level
			var l *list
			for range levels {
				l = &list{Next: l}
			}
			return l
		}
		e := xdr.Encoder{MaxDepth: c.set}
		chain(c.limit).MarshalXDR(&e)
		if e.Err() != nil {
			t.Errorf("%d levels: %v", c.limit, e.Err())
		}
		var got list
		d := xdr.Decoder{MaxDepth: c.set}
		d.Reset(e.Bytes())
		if got.UnmarshalXDR(&d); d.End() != nil {
			t.Errorf("%d levels: %v", c.limit, d.End())
		}
		e.Reset(nil)
		chain(c.limit + 1).MarshalXDR(&e)
		wantError(t, e.Err(), xdr.ErrDepth, "optional data")

		wide := xdr.Encoder{MaxDepth: c.limit + 1}
		chain(c.limit + 1).MarshalXDR(&wide)
		d.Reset(wide.Bytes())
		new(list).UnmarshalXDR(&d)
		wantError(t, d.Err(), xdr.ErrDepth, "raise MaxDepth")
	}
}

// TestCycle: a structure that contains itself ends in an error.
func TestCycle(t *testing.T) {
	l := &list{Value: 1}
	l.Next = l
	_, err := xdr.Append(nil, l)
	wantError(t, err, xdr.ErrDepth, "nested 1025 levels deep, the limit is 1024")
}

// TestDepthIsGivenBack: data side by side take no depth from each other.
func TestDepthIsGivenBack(t *testing.T) {
	e, d := xdr.Encoder{MaxDepth: 1}, xdr.Decoder{MaxDepth: 1}
	for range 5 {
		xdr.EncodeOptional(&e, &point{1, 2}, (*point).MarshalXDR)
		xdr.EncodeArray(&e, []point{{3, 4}}, 1, (*point).MarshalXDR)
	}
	d.Reset(e.Bytes())
	for range 5 {
		p := xdr.DecodeOptional(&d, nil, 8, (*point).UnmarshalXDR)
		q := xdr.DecodeArray(&d, nil, 1, 8, (*point).UnmarshalXDR)
		if p == nil || len(q) != 1 || *p != (point{1, 2}) || q[0] != (point{3, 4}) {
			t.Fatalf("decoded %v %v, %v and %v", p, q, e.Err(), d.Err())
		}
	}
	if e.Err() != nil || d.End() != nil {
		t.Errorf("%v, %v", e.Err(), d.End())
	}
}
