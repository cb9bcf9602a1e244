package xdr

import (
	"errors"
	"math/big"
)

// Quadruple is a quadruple-precision floating-point number (section 4.8): the sixteen bytes of IEEE
// 754 binary128 in network order. They consist of a sign bit, 15 bits of exponent plus 16383, and
// 112 bits of fraction. An exponent of 32767 stands for infinity (fraction 0) or NaN, and one of 0
// for zero and subnormal numbers. The bytes are kept unchanged. Conversions are exact, or rounded
// to nearest, ties to even. The zero value is 0.
type Quadruple [16]byte

// errNaN is the error of a Quadruple that is not a number, for which big.Float has no value.
var errNaN = errors.New("xdr: the quadruple is not a number")

const (
	quadFraction = 112                    // bits of the fraction
	quadBias     = 16383                  // what the exponent field adds; the greatest exponent
	quadSpecial  = 2*quadBias + 1         // the exponent field of infinity and NaN
	quadMin      = 1 - quadBias           // the least exponent of a normal number
	quadUnit     = quadMin - quadFraction // the exponent of the least subnormal number
)

// QuadrupleOf returns the Quadruple nearest to x, and whether it is below or above x. Beyond the
// range of Quadruple the result is an infinity.
func QuadrupleOf(x *big.Float) (q Quadruple, acc big.Accuracy) {
	switch {
	case x.IsInf():
		return quadBits(x.Signbit(), quadSpecial, new(big.Int)), big.Exact
	case x.Sign() == 0:
		return quadBits(x.Signbit(), 0, new(big.Int)), big.Exact
	}
	// x lies in [2^exp, 2^(exp+1)), and numbers in this range have this many bits:
	exp := x.MantExp(nil) - 1
	bits := quadFraction + 1
	if exp < quadMin {
		bits = exp - quadUnit + 1
	}
	if bits < 1 {
		return quadTiny(x, bits)
	}
	y := new(big.Float).SetPrec(uint(bits)).SetMode(big.ToNearestEven).Set(x)
	acc = y.Acc()
	if exp = y.MantExp(nil) - 1; exp > quadBias {
		if x.Signbit() {
			return quadBits(true, quadSpecial, new(big.Int)), big.Below
		}
		return quadBits(false, quadSpecial, new(big.Int)), big.Above
	}
	// As an integer of units, the leading bit of a normal number adds 1 to its exponent field.
	field := max(exp, quadMin) - quadMin
	units, _ := y.SetMantExp(y, -field-quadUnit).Int(nil)
	return quadBits(x.Signbit(), field, units.Abs(units)), acc
}

// quadTiny rounds a number that is less than the least subnormal number. If it is more
// than half of the least subnormal number, which is possible only if bits is 0, it is
// rounded to that number, and otherwise to zero.
func quadTiny(x *big.Float, bits int) (Quadruple, big.Accuracy) {
	negative := x.Signbit()
	half := new(big.Float).SetMantExp(big.NewFloat(1), quadUnit-1)
	if bits == 0 && new(big.Float).Abs(x).Cmp(half) > 0 {
		return quadBits(negative, 0, big.NewInt(1)), away(negative)
	}
	return quadBits(negative, 0, new(big.Int)), -away(negative)
}

// away is the accuracy of a result that is farther from zero than the exact value.
func away(negative bool) big.Accuracy {
	if negative {
		return big.Below
	}
	return big.Above
}

// quadBits combines the fields; units may carry into the exponent.
func quadBits(negative bool, field int, units *big.Int) (q Quadruple) {
	all := new(big.Int).Lsh(big.NewInt(int64(field)), quadFraction)
	all.Add(all, units).FillBytes(q[:])
	if negative {
		q[0] |= 0x80
	}
	return q
}

// fields splits the number into its fields.
func (q Quadruple) fields() (negative bool, field int, fraction *big.Int) {
	fraction = new(big.Int).SetBytes(q[2:])
	return q[0]&0x80 != 0, int(q[0]&0x7f)<<8 | int(q[1]), fraction
}

// IsNaN reports whether q is not a number.
func (q Quadruple) IsNaN() bool {
	_, field, fraction := q.fields()
	return field == quadSpecial && fraction.Sign() != 0
}

// Float returns the number as a big.Float of 113 bits, exactly, or an error if it is not a number.
func (q Quadruple) Float() (*big.Float, error) {
	if q.IsNaN() {
		return nil, errNaN
	}
	negative, field, units := q.fields()
	x := new(big.Float).SetPrec(quadFraction + 1)
	switch {
	case field == quadSpecial:
		x.SetInf(false)
	default:
		if field > 0 {
			units.SetBit(units, quadFraction, 1)
			field--
		}
		x.SetInt(units)
		x.SetMantExp(x, field+quadUnit)
	}
	if negative {
		x.Neg(x)
	}
	return x, nil
}
