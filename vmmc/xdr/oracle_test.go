package xdr_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
	oracle "github.com/stellar/go-xdr/xdr3"
	"pgregory.net/rapid"
)

func genPoint() *rapid.Generator[point] {
	return rapid.Custom(func(t *rapid.T) point {
		return point{rapid.Int32().Draw(t, "x"), rapid.Int32().Draw(t, "y")}
	})
}

func genSink(depth int) *rapid.Generator[sink] {
	return rapid.Custom(func(t *rapid.T) sink {
		s := sink{
			I:  rapid.Int32().Draw(t, "int"),
			U:  rapid.Uint32().Draw(t, "unsigned"),
			E:  color(rapid.SampledFrom([]int32{2, 3, -5}).Draw(t, "enum")),
			B:  rapid.Bool().Draw(t, "bool"),
			H:  rapid.Int64().Draw(t, "hyper"),
			UH: rapid.Uint64().Draw(t, "unsigned hyper"),
			F:  rapid.Float32().Draw(t, "float"),
			D:  rapid.Float64().Draw(t, "double"),
			S:  rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00~")), 0, 10, 10).Draw(t, "string"),
		}
		draw := func(n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes") }
		copy(s.Q[:], draw(16))
		copy(s.Fixed[:], draw(5))
		s.Var = draw(rapid.IntRange(0, 20).Draw(t, "length"))
		s.Pair = [2]point{genPoint().Draw(t, "p"), genPoint().Draw(t, "q")}
		s.List = rapid.SliceOfN(genPoint(), 0, 3).Draw(t, "list")
		s.C.Color = 3
		if rapid.Bool().Draw(t, "text") {
			text := rapid.StringN(0, 9, 30).Draw(t, "arm")
			s.C = choice{2, &text}
		}
		if depth > 0 && rapid.Bool().Draw(t, "more") {
			next := genSink(depth-1).Draw(t, "next")
			s.Next = &next
		}
		return s
	})
}

// TestSameBytesAsOracle: both encode any value to the same bytes, and each decodes
// them to that value.
func TestSameBytesAsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genSink(3).Draw(t, "value")
		ours, err := xdr.Append(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		var theirs bytes.Buffer
		if _, err := oracle.Marshal(&theirs, &want); err != nil {
			t.Fatal("the oracle:", err)
		}
		if !bytes.Equal(ours, theirs.Bytes()) {
			t.Fatalf("encoded\n%x, the oracle says\n%x", ours, theirs.Bytes())
		}
		var got, other sink
		if err := xdr.Unmarshal(ours, &got); err != nil {
			t.Fatal(err)
		}
		if _, err := oracle.Unmarshal(bytes.NewReader(ours), &other); err != nil {
			t.Fatal("the oracle:", err)
		}
		for _, s := range []*sink{&got, &other, &want} {
			normalize(s)
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(other, want) {
			t.Fatalf("decoded\n%+v, the oracle\n%+v, want\n%+v", got, other, want)
		}
	})
}

// normalize makes nil what is empty, and NaNs comparable.
func normalize(s *sink) {
	if len(s.Var) == 0 {
		s.Var = nil
	}
	if len(s.List) == 0 {
		s.List = nil
	}
	if s.F != s.F {
		s.U, s.F = s.U^math.Float32bits(s.F), 0
	}
	if s.D != s.D {
		s.UH, s.D = s.UH^math.Float64bits(s.D), 0
	}
	if s.Next != nil {
		normalize(s.Next)
	}
}

// TestReusedValue: a value that is decoded into memory of another one is the same as in
// new memory.
func TestReusedValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, want := genSink(2).Draw(t, "old"), genSink(2).Draw(t, "new")
		msg, err := xdr.Append(nil, &want)
		if err == nil {
			err = xdr.Unmarshal(msg, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		normalize(&got)
		normalize(&want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded\n%+v, want\n%+v", got, want)
		}
	})
}

// TestCutShort: no beginning of a message is a message, and it is said to be too short.
func TestCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genSink(1).Draw(t, "value")
		msg, err := xdr.Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		var d xdr.Decoder
		for n := range msg {
			var got sink
			d.Reset(msg[:n])
			got.UnmarshalXDR(&d)
			wantError(t, d.End(), xdr.ErrShort, "bytes, has")
		}
		var got sink
		wantError(t, xdr.Unmarshal(append(msg, 0), &got), xdr.ErrTrailing, "1 bytes are left")
	})
}

// sink has a member of each XDR type. Its declaration would be:
//
//	struct sink {
//		int i; unsigned u; color e; bool b; hyper h; unsigned hyper uh;
//		float f; double d; quadruple q;
//		opaque fixed[5]; opaque var<20>; string s<10>;
//		point pair[2]; point list<3>; choice c; sink *next;
//	};
//
// The tags and methods beside MarshalXDR and UnmarshalXDR are for the oracle.
type sink struct {
	I     int32
	U     uint32
	E     color
	B     bool
	H     int64
	UH    uint64
	F     float32
	D     float64
	Q     xdr.Quadruple
	Fixed [5]byte
	Var   []byte `xdrmaxsize:"20"`
	S     string `xdrmaxsize:"10"`
	Pair  [2]point
	List  []point `xdrmaxsize:"3"`
	C     choice
	Next  *sink
}

type point struct{ X, Y int32 }

// color is enum color { RED = 2, GREEN = 3, BLUE = -5 };
type color int32

func (color) ValidEnum(v int32) bool { return isColor(v) }

func isColor(v int32) bool { return v == 2 || v == 3 || v == -5 }

// choice is union choice switch (color c) { case RED: string text<>; case GREEN: void; };
type choice struct {
	Color color
	Text  *string
}

func (choice) SwitchFieldName() string { return "Color" }

func (choice) ArmForSwitch(v int32) (string, bool) {
	if v == 2 {
		return "Text", true
	}
	return "", v == 3
}

func (p *point) MarshalXDR(e *xdr.Encoder)   { e.Int(p.X); e.Int(p.Y) }
func (p *point) UnmarshalXDR(d *xdr.Decoder) { p.X, p.Y = d.Int(), d.Int() }

func (c *choice) MarshalXDR(e *xdr.Encoder) {
	e.Enum("enum color", int32(c.Color), isColor)
	switch c.Color {
	case 2:
		e.String(*c.Text, xdr.Unbounded)
	case 3:
	default:
		e.NoArm("union choice", int64(c.Color))
	}
}

func (c *choice) UnmarshalXDR(d *xdr.Decoder) {
	*c = choice{Color: color(d.Enum("enum color", isColor))}
	switch c.Color {
	case 2:
		text := d.String(xdr.Unbounded)
		c.Text = &text
	case 3:
	default:
		d.NoArm("union choice", int64(c.Color))
	}
}

func (s *sink) MarshalXDR(e *xdr.Encoder) {
	e.Int(s.I)
	e.Uint(s.U)
	e.Enum("enum color", int32(s.E), isColor)
	e.Bool(s.B)
	e.Hyper(s.H)
	e.Uhyper(s.UH)
	e.Float(s.F)
	e.Double(s.D)
	e.Quadruple(s.Q)
	e.FixedOpaque(s.Fixed[:])
	e.Opaque(s.Var, 20)
	e.String(s.S, 10)
	xdr.EncodeFixedArray(e, s.Pair[:], (*point).MarshalXDR)
	xdr.EncodeArray(e, s.List, 3, (*point).MarshalXDR)
	s.C.MarshalXDR(e)
	xdr.EncodeOptional(e, s.Next, (*sink).MarshalXDR)
}

func (s *sink) UnmarshalXDR(d *xdr.Decoder) {
	s.I = d.Int()
	s.U = d.Uint()
	s.E = color(d.Enum("enum color", isColor))
	s.B = d.Bool()
	s.H = d.Hyper()
	s.UH = d.Uhyper()
	s.F = d.Float()
	s.D = d.Double()
	s.Q = d.Quadruple()
	d.FixedOpaque(s.Fixed[:])
	s.Var = d.Opaque(s.Var, 20)
	s.S = d.String(10)
	xdr.DecodeFixedArray(d, s.Pair[:], (*point).UnmarshalXDR)
	s.List = xdr.DecodeArray(d, s.List, 3, 8, (*point).UnmarshalXDR)
	s.C.UnmarshalXDR(d)
	s.Next = xdr.DecodeOptional(d, s.Next, 96, (*sink).UnmarshalXDR)
}

// tree is struct tree { tree kids<>; };
type tree struct{ Kids []tree }

func (t *tree) MarshalXDR(e *xdr.Encoder) {
	xdr.EncodeArray(e, t.Kids, xdr.Unbounded, (*tree).MarshalXDR)
}

func (t *tree) UnmarshalXDR(d *xdr.Decoder) {
	t.Kids = xdr.DecodeArray(d, t.Kids, xdr.Unbounded, 4, (*tree).UnmarshalXDR)
}

// list is struct list { int value; list *next; };
type list struct {
	Value int32
	Next  *list
}

func (l *list) MarshalXDR(e *xdr.Encoder) {
	e.Int(l.Value)
	xdr.EncodeOptional(e, l.Next, (*list).MarshalXDR)
}

func (l *list) UnmarshalXDR(d *xdr.Decoder) {
	l.Value = d.Int()
	l.Next = xdr.DecodeOptional(d, l.Next, 8, (*list).UnmarshalXDR)
}
