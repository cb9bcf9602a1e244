package xdr_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// unhex decodes hexadecimal digits, which spaces may separate.
func unhex(s string) []byte {
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return p
}

// wantError checks the kind of an error, that it is an *xdr.Error, and what it says.
func wantError(t interface {
	Helper()
	Errorf(string, ...any)
}, err, kind error, text string) {
	t.Helper()
	var e *xdr.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one of kind %v that says %q", err, kind, text)
	}
}

// The items of RFC 4506 and their bytes, encoded and decoded.
func TestWire(t *testing.T) {
	words := func(v ...int32) []int32 { return v }
	for _, c := range []struct {
		name, wire string
		encode     func(e *xdr.Encoder)
		same       func(d *xdr.Decoder) bool
	}{
		{"int", "ffffffff", func(e *xdr.Encoder) { e.Int(-1) }, func(d *xdr.Decoder) bool { return d.Int() == -1 }},
		{"unsigned", "fffffffe", func(e *xdr.Encoder) { e.Uint(1<<32 - 2) }, func(d *xdr.Decoder) bool { return d.Uint() == 1<<32-2 }},
		{"enum", "fffffffb", func(e *xdr.Encoder) { e.Enum("c", -5, isColor) }, func(d *xdr.Decoder) bool { return d.Enum("c", isColor) == -5 }},
		{"open enum", "00000009", func(e *xdr.Encoder) { e.Enum("c", 9, nil) }, func(d *xdr.Decoder) bool { return d.Enum("c", nil) == 9 }},
		{"true", "00000001", func(e *xdr.Encoder) { e.Bool(true) }, func(d *xdr.Decoder) bool { return d.Bool() }},
		{"false", "00000000", func(e *xdr.Encoder) { e.Bool(false) }, func(d *xdr.Decoder) bool { return !d.Bool() }},
		{"hyper", "8000000000000000", func(e *xdr.Encoder) { e.Hyper(math.MinInt64) }, func(d *xdr.Decoder) bool { return d.Hyper() == math.MinInt64 }},
		{"unsigned hyper", "0102030405060708", func(e *xdr.Encoder) { e.Uhyper(0x0102030405060708) }, func(d *xdr.Decoder) bool { return d.Uhyper() == 0x0102030405060708 }},
		{"float", "bfc00000", func(e *xdr.Encoder) { e.Float(-1.5) }, func(d *xdr.Decoder) bool { return d.Float() == -1.5 }},
		{"double", "3ff8000000000000", func(e *xdr.Encoder) { e.Double(1.5) }, func(d *xdr.Decoder) bool { return d.Double() == 1.5 }},
		{"quadruple", "3fff8000 00000000 00000000 00000001",
			func(e *xdr.Encoder) { e.Quadruple(xdr.Quadruple{0: 0x3f, 1: 0xff, 2: 0x80, 15: 1}) },
			func(d *xdr.Decoder) bool { return d.Quadruple() == xdr.Quadruple{0: 0x3f, 1: 0xff, 2: 0x80, 15: 1} }},
		{"opaque[5]", "6162636465 000000", func(e *xdr.Encoder) { e.FixedOpaque([]byte("abcde")) },
			func(d *xdr.Decoder) bool { return string(d.FixedOpaqueView(5)) == "abcde" }},
		{"opaque[0]", "", func(e *xdr.Encoder) { e.FixedOpaque(nil) }, func(d *xdr.Decoder) bool { return len(d.FixedOpaqueView(0)) == 0 }},
		{"opaque<>", "00000003 61626300", func(e *xdr.Encoder) { e.Opaque([]byte("abc"), 3) },
			func(d *xdr.Decoder) bool { return string(d.Opaque(nil, 3)) == "abc" }},
		{"empty opaque", "00000000", func(e *xdr.Encoder) { e.Opaque(nil, 0) }, func(d *xdr.Decoder) bool { return len(d.Opaque(nil, 0)) == 0 }},
		{"string<>", "00000004 61626364", func(e *xdr.Encoder) { e.String("abcd", xdr.Unbounded) },
			func(d *xdr.Decoder) bool { return d.String(xdr.Unbounded) == "abcd" }},
		{"array", "00000002 00000007 fffffff9",
			func(e *xdr.Encoder) {
				xdr.EncodeArray(e, words(7, -7), 2, func(v *int32, e *xdr.Encoder) { e.Int(*v) })
			},
			func(d *xdr.Decoder) bool {
				v := xdr.DecodeArray(d, nil, 2, 4, func(v *int32, d *xdr.Decoder) { *v = d.Int() })
				return len(v) == 2 && v[0] == 7 && v[1] == -7
			}},
		{"void", "", func(e *xdr.Encoder) { xdr.Void{}.MarshalXDR(e) }, func(d *xdr.Decoder) bool { xdr.Void{}.UnmarshalXDR(d); return true }},
		{"list", "00000001 00000001 00000002 00000000", (&list{1, &list{2, nil}}).MarshalXDR, func(d *xdr.Decoder) bool {
			var l list
			l.UnmarshalXDR(d)
			return l.Value == 1 && l.Next.Value == 2 && l.Next.Next == nil
		}},
	} {
		var e xdr.Encoder
		e.Reset([]byte("before"))
		c.encode(&e)
		if got := e.Bytes(); string(got[:6]) != "before" || !bytes.Equal(got[6:], unhex(c.wire)) || e.Err() != nil || e.Len() != len(got)-6 {
			t.Errorf("%s: encoded %x, %v, want %s", c.name, got[6:], e.Err(), c.wire)
		}
		var d xdr.Decoder
		d.Reset(unhex(c.wire))
		if ok := c.same(&d); !ok || d.End() != nil {
			t.Errorf("%s: decoded as the same value: %v, %v", c.name, ok, d.End())
		}
	}
}

// TestExampleOfRFC decodes and encodes the file of RFC 4506 section 7.
func TestExampleOfRFC(t *testing.T) {
	want := unhex("00000009 73696c6c 7970726f 67000000 00000002 00000004 6c697370 " +
		"00000004 6a6f686e 00000006 28717569 74290000")
	var e xdr.Encoder
	e.String("sillyprog", 255)
	e.Enum("enum filekind", 2, nil)
	e.String("lisp", 255)
	e.String("john", 32)
	e.Opaque([]byte("(quit)"), 65535)
	if !bytes.Equal(e.Bytes(), want) || e.Err() != nil {
		t.Errorf("encoded %x, %v, want %x", e.Bytes(), e.Err(), want)
	}
	var d xdr.Decoder
	d.Reset(want)
	got := []string{d.String(255), "", "", "", ""}
	if d.Enum("enum filekind", nil) == 2 {
		got = append(got[:1], d.String(255), d.String(32), string(d.Opaque(nil, 65535)))
	}
	if text := strings.Join(got, " "); text != "sillyprog lisp john (quit)" || d.End() != nil {
		t.Errorf("decoded %q, %v", text, d.End())
	}
}

// TestDecodingErrors: each says what, where, and why; it takes nothing, and stays.
func TestDecodingErrors(t *testing.T) {
	for _, c := range []struct {
		wire   string
		decode func(d *xdr.Decoder)
		kind   error
		text   string
	}{
		{"000000", func(d *xdr.Decoder) { d.Int() }, xdr.ErrShort, "int at byte 0: needs 4 bytes, has 3"},
		{"00000000000000", func(d *xdr.Decoder) { d.Double() }, xdr.ErrShort, "double at byte 0: needs 8 bytes, has 7"},
		{"00000002", func(d *xdr.Decoder) { d.Bool() }, xdr.ErrValue, "bool at byte 0: the declaration has no value 2"},
		{"ffffffff", func(d *xdr.Decoder) { d.Enum("enum color", isColor) }, xdr.ErrValue, "enum color at byte 0: the declaration has no value -1"},
		{"00000005", func(d *xdr.Decoder) { d.NoArm("union u", int64(d.Int())) }, xdr.ErrValue, "union u at byte 0: the declaration has no value 5"},
		{"00000003 61626301", func(d *xdr.Decoder) { d.String(9) }, xdr.ErrPadding, "string at byte 7: the padding is 0x1"},
		{"61000200", func(d *xdr.Decoder) { d.FixedOpaqueView(1) }, xdr.ErrPadding, "opaque at byte 2: the padding is 0x2"},
		{"00000003 616263", func(d *xdr.Decoder) { d.Opaque(nil, 9) }, xdr.ErrShort, "opaque at byte 4: needs 4 bytes, has 3"},
		{"ffffffff 61626364", func(d *xdr.Decoder) { d.Opaque(nil, xdr.Unbounded) }, xdr.ErrShort, "needs 4294967296 bytes, has 4"},
		{"0000000a 61626364", func(d *xdr.Decoder) { d.String(9) }, xdr.ErrTooLong, "string at byte 0: length 10, but the declaration allows 9"},
		{"00000003", func(d *xdr.Decoder) { xdr.DecodeArray(d, nil, 2, 4, (*list).UnmarshalXDR) }, xdr.ErrTooLong, "array at byte 0: length 3, but the declaration allows 2"},
		{"00000002 00000000", func(d *xdr.Decoder) { xdr.DecodeArray(d, nil, 9, 4, (*tree).UnmarshalXDR) }, xdr.ErrShort, "array at byte 0: needs 8 bytes, has 4"},
		{"00000002 00000000 00000000", func(d *xdr.Decoder) { xdr.DecodeArray(d, nil, 9, 8, (*point).UnmarshalXDR) }, xdr.ErrShort, "array at byte 0: needs 16 bytes, has 8"},
	} {
		var d xdr.Decoder
		d.Reset(unhex(c.wire))
		c.decode(&d)
		err := d.Err()
		wantError(t, err, c.kind, c.text)
		if d.Offset() != 0 || len(d.Rest()) != len(unhex(c.wire)) {
			t.Errorf("%s: %d bytes are taken by an item that was refused", c.text, d.Offset())
		}
		c.decode(&d)
		if zero := d.Int() == 0 && d.Hyper() == 0 && !d.Bool() && d.OpaqueView(1) == nil; d.End() != err || !zero {
			t.Errorf("%s: the error became %v, zero values %v", c.text, d.End(), zero)
		}
	}
}

// TestEncodingErrors: an item that cannot be encoded appends nothing.
func TestEncodingErrors(t *testing.T) {
	for _, c := range []struct {
		encode func(e *xdr.Encoder)
		kind   error
		text   string
	}{
		{func(e *xdr.Encoder) { e.String("abc", 2) }, xdr.ErrTooLong, "string at byte 4: length 3, but the declaration allows 2"},
		{func(e *xdr.Encoder) { e.Opaque(make([]byte, 9), 8) }, xdr.ErrTooLong, "opaque at byte 4: length 9"},
		{func(e *xdr.Encoder) { xdr.EncodeArray(e, make([]point, 2), 1, (*point).MarshalXDR) }, xdr.ErrTooLong, "array at byte 4: length 2"},
		{func(e *xdr.Encoder) { e.Enum("enum color", 1, isColor) }, xdr.ErrValue, "enum color at byte 4"},
		{func(e *xdr.Encoder) { e.NoArm("union u", 6) }, xdr.ErrValue, "union u at byte 4: the declaration has no value 6"},
		{func(e *xdr.Encoder) { e.Opaque(make([]byte, 13), 13) }, xdr.ErrFull, "makes the encoding 24 bytes long, the limit is 20"},
		{func(e *xdr.Encoder) { e.FixedOpaque(make([]byte, 17)) }, xdr.ErrFull, "makes the encoding 24 bytes long, the limit is 20"},
		{func(e *xdr.Encoder) { e.Quadruple(xdr.Quadruple{}); e.Int(1) }, xdr.ErrFull, "int at byte 20"},
	} {
		e := xdr.Encoder{MaxSize: 20}
		e.Reset(make([]byte, 3, 64))
		e.Int(1)
		c.encode(&e)
		n, err := e.Len(), e.Err()
		wantError(t, err, c.kind, c.text)
		e.Uint(1)
		e.String("x", 1)
		e.FixedOpaque([]byte("x"))
		xdr.EncodeOptional(&e, &point{}, (*point).MarshalXDR)
		if e.Len() != n || n%4 != 0 || e.Err() != err {
			t.Errorf("%s: after it %d bytes became %d, the error %v", c.text, n, e.Len(), e.Err())
		}
	}
}

// TestFullIsExact: MaxSize bytes fit, and in a slice of that capacity stay there.
func TestFullIsExact(t *testing.T) {
	memory := make([]byte, 2, 22)
	e := xdr.Encoder{MaxSize: 20}
	e.Reset(memory)
	e.Opaque(make([]byte, 13), 13)
	if got := e.Bytes(); e.Err() != nil || e.Len() != 20 || &got[0] != &memory[0] {
		t.Errorf("%d bytes, %v, in other memory: %v", e.Len(), e.Err(), &got[0] != &memory[0])
	}
	e.Bool(true)
	wantError(t, e.Err(), xdr.ErrFull, "bool at byte 20")
}

func TestAppendLeavesBufferAfterError(t *testing.T) {
	got, err := xdr.Append([]byte("abc"), &choice{Color: 7})
	wantError(t, err, xdr.ErrValue, "enum color")
	if string(got) != "abc" {
		t.Errorf("the buffer is %q", got)
	}
}

// TestViewsAndCopies: views lie in the message and cannot be extended into it; copies
// do not, or lie in the caller's memory.
func TestViewsAndCopies(t *testing.T) {
	msg := unhex("00000002 61620000 00000002 63640000")
	mine := make([]byte, 0, 8)
	for _, c := range []struct {
		name    string
		inPlace bool
		take    func(d *xdr.Decoder) []byte
		memory  []byte // where the result lies, or nil
	}{
		{"OpaqueView", false, func(d *xdr.Decoder) []byte { return d.OpaqueView(2) }, msg[4:]},
		{"StringView", false, func(d *xdr.Decoder) []byte { return d.StringView(2) }, msg[4:]},
		{"Opaque in place", true, func(d *xdr.Decoder) []byte { return d.Opaque(mine, 2) }, msg[4:]},
		{"Opaque", false, func(d *xdr.Decoder) []byte { return d.Opaque(mine, 2) }, mine[:1]},
		{"Opaque in new memory", false, func(d *xdr.Decoder) []byte { return d.Opaque(mine[:0:1], 2) }, nil},
	} {
		d := xdr.Decoder{InPlace: c.inPlace}
		d.Reset(msg)
		p := c.take(&d)
		switch {
		case string(p) != "ab" || d.Err() != nil || d.Offset() != 8:
			t.Errorf("%s: %q, %v, at %d", c.name, p, d.Err(), d.Offset())
		case c.memory != nil && &p[0] != &c.memory[0]:
			t.Errorf("%s lies in other memory", c.name)
		case c.memory == nil && (&p[0] == &msg[4] || &p[0] == &mine[:1][0]):
			t.Errorf("%s lies in memory that is not new", c.name)
		case c.memory != nil && &c.memory[0] == &msg[4] && cap(p) != 2:
			t.Errorf("%s has capacity %d: appending would write into the message", c.name, cap(p))
		}
	}
}

// Where opaque data is referred to, Bytes with what Refs says in between are the bytes that
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
				t.Fatalf("%d bytes are referred to, or a copy", len(r.Data))
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
		t.Errorf("%d references, %d bytes, of what fits", len(refers.Refs()), refers.Len())
	}
}

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
