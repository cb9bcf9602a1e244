package xdr_test

import (
	"errors"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

func quad(s string) (q xdr.Quadruple) {
	copy(q[:], unhex(s))
	return q
}

// number parses a decimal or hexadecimal number, to far more bits than a quadruple has.
func number(s string) *big.Float {
	x, _, err := big.ParseFloat(s, 0, 1000, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return x
}

// Numbers whose bytes IEEE 754 gives, or that lie where rounding turns.
func TestQuadrupleOf(t *testing.T) {
	for _, c := range []struct {
		number, want string
		acc          big.Accuracy
	}{
		{"0", "00000000 00000000 00000000 00000000", big.Exact},
		{"-0", "80000000 00000000 00000000 00000000", big.Exact},
		{"1", "3fff0000 00000000 00000000 00000000", big.Exact},
		{"-2", "c0000000 00000000 00000000 00000000", big.Exact},
		{"0.1", "3ffb9999 99999999 99999999 9999999a", big.Above},
		{"3.14159265358979323846264338327950288419716939937510", "4000921f b54442d1 8469898c c51701b8", big.Below},
		{"+Inf", "7fff0000 00000000 00000000 00000000", big.Exact},
		{"-Inf", "ffff0000 00000000 00000000 00000000", big.Exact},
		{"0x1.ffffffffffffffffffffffffffffp16383", "7ffeffff ffffffff ffffffff ffffffff", big.Exact},
		{"0x1.ffffffffffffffffffffffffffff7p16383", "7ffeffff ffffffff ffffffff ffffffff", big.Below},
		{"0x1.ffffffffffffffffffffffffffff8p16383", "7fff0000 00000000 00000000 00000000", big.Above},
		{"0x1.8p16384", "7fff0000 00000000 00000000 00000000", big.Above},
		{"-0x1p20000", "ffff0000 00000000 00000000 00000000", big.Below},
		{"0x1.0000000000000000000000000000" + "8p0", "3fff0000 00000000 00000000 00000000", big.Below}, // a tie, to even
		{"0x1.0000000000000000000000000001" + "8p0", "3fff0000 00000000 00000000 00000002", big.Above},
		{"0x1p-16382", "00010000 00000000 00000000 00000000", big.Exact}, // the least normal number
		{"0x0.ffffffffffffffffffffffffffffp-16382", "0000ffff ffffffff ffffffff ffffffff", big.Exact},
		{"0x0.ffffffffffffffffffffffffffff8p-16382", "00010000 00000000 00000000 00000000", big.Above},
		{"0x1p-16494", "00000000 00000000 00000000 00000001", big.Exact}, // the least number
		{"0x1.8p-16494", "00000000 00000000 00000000 00000002", big.Above},
		{"0x1p-16495", "00000000 00000000 00000000 00000000", big.Below}, // half of it, to even
		{"0x1.01p-16495", "00000000 00000000 00000000 00000001", big.Above},
		{"-0x1.01p-16495", "80000000 00000000 00000000 00000001", big.Below},
		{"-0x1p-20000", "80000000 00000000 00000000 00000000", big.Above},
	} {
		if q, acc := xdr.QuadrupleOf(number(c.number)); q != quad(c.want) || acc != c.acc {
			t.Errorf("%s: %x, %v, want %s, %v", c.number, q, acc, c.want, c.acc)
		}
	}
}

// TestQuadrupleFloat compares with what Go's parser makes of the fields, and converts back.
func TestQuadrupleFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		field := rapid.OneOf(rapid.IntRange(0, 2), rapid.IntRange(0, 32766)).Draw(t, "exponent")
		hi, lo := rapid.Uint64Max(1<<48-1).Draw(t, "high"), rapid.Uint64().Draw(t, "low")
		text := fmt.Sprintf("%s0x1.%012x%016xp%d", sign, hi, lo, field-16383)
		if field == 0 {
			text = fmt.Sprintf("%s0x0.%012x%016xp-16382", sign, hi, lo)
		}
		bits := field
		if sign != "" {
			bits |= 0x8000
		}
		q := quad(fmt.Sprintf("%04x%012x%016x", bits, hi, lo))
		got, err := q.Float()
		if want := number(text); err != nil || got.Cmp(want) != 0 || got.Signbit() != want.Signbit() {
			t.Fatalf("%x is %v, %v, want %v", q, got, err, want)
		}
		if back, acc := xdr.QuadrupleOf(got); back != q || acc != big.Exact {
			t.Fatalf("%x became %x, %v", q, back, acc)
		}
	})
}

// TestQuadrupleRoundsToNearest: no neighbour is nearer, and accuracy tells the side.
func TestQuadrupleRoundsToNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exp := rapid.OneOf(rapid.IntRange(-16500, -16370), rapid.IntRange(-16600, 16382)).Draw(t, "exponent")
		x := number(fmt.Sprintf("0x1.%016x%016xp%d", rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low"), exp))
		q, acc := xdr.QuadrupleOf(x)
		got, err := q.Float()
		if err != nil || big.Accuracy(got.Cmp(x)) != acc {
			t.Fatalf("%v became %v, said to be %v, %v", x, got, acc, err)
		}
		off := new(big.Float).Sub(got, x)
		n := new(big.Int).SetBytes(q[:])
		for _, step := range []int64{-1, 1} {
			var near xdr.Quadruple
			next := new(big.Int).Add(n, big.NewInt(step))
			if next.Sign() < 0 {
				continue
			}
			next.FillBytes(near[:])
			f, err := near.Float()
			if err != nil {
				t.Fatal(err)
			}
			switch d := new(big.Float).Sub(f, x); off.Abs(off).Cmp(d.Abs(d)) {
			case 1:
				t.Fatalf("%v became %x, but %x is nearer", x, q, near)
			case 0:
				if q[15]&1 != 0 {
					t.Fatalf("%v lies in the middle and became %x, which is odd", x, q)
				}
			}
		}
	})
}

func TestQuadrupleSpecial(t *testing.T) {
	nan := quad("7fff0000 00000000 00000000 00000001")
	if _, err := nan.Float(); !errors.Is(err, xdr.ErrNaN) || !nan.IsNaN() {
		t.Errorf("a NaN: %v, %v", err, nan.IsNaN())
	}
	inf := quad("ffff0000 00000000 00000000 00000000")
	if x, err := inf.Float(); err != nil || !x.IsInf() || !x.Signbit() || inf.IsNaN() {
		t.Errorf("minus infinity: %v, %v", x, err)
	}
	if x, err := quad("80000000 00000000 00000000 00000000").Float(); err != nil || x.Sign() != 0 || !x.Signbit() {
		t.Errorf("minus zero: %v, %v", x, err)
	}
}
