package xdr_test

import (
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

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
