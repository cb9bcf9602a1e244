package xdr_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// TestNoAllocation: encoding into memory that suffices, and decoding into memory that
// was used before, take none; strings are looked at in place.
func TestNoAllocation(t *testing.T) {
	text := "arm"
	v := sink{E: 2, S: "", Var: make([]byte, 20), List: make([]point, 3), C: choice{Color: 3},
		Next: &sink{E: 3, C: choice{2, &text}}}
	var e xdr.Encoder
	memory := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { e.Reset(memory); v.MarshalXDR(&e) }); n != 0 || e.Err() != nil {
		t.Errorf("encoding: %v allocations, %v", n, e.Err())
	}

	v.Next = &sink{E: 3, C: choice{Color: 3}}
	e.Reset(memory)
	v.MarshalXDR(&e)
	e.String("name", 255)
	var d xdr.Decoder
	var got sink
	decode := func() {
		d.Reset(e.Bytes())
		got.UnmarshalXDR(&d)
		d.StringView(255)
	}
	if n := testing.AllocsPerRun(100, decode); n != 0 || d.End() != nil {
		t.Errorf("decoding: %v allocations, %v", n, d.End())
	}
	d.InPlace = true
	got.Var = nil
	if n := testing.AllocsPerRun(100, decode); n != 0 || d.End() != nil {
		t.Errorf("decoding in place: %v allocations, %v", n, d.End())
	}
}
