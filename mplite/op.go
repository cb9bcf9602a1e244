package mplite

import "cmp"

// Op is a reduction operation on elements of T (MPI_Op). It must be
// associative. The zero Op is invalid.
//
// Reductions apply an Op in an order that depends on the number of ranks, the
// number of elements, their size and the root only. So results of floating-point
// reductions are the same in every run, and on every rank, to the last bit. An
// operation that is not commutative always has the operand of lower ranks on
// the left; one that is may have it on the right.
type Op[T Number] struct {
	// apply sets dst[i] to left[i] op right[i]; dst may be left or right.
	apply       func(dst, left, right []T)
	commutative bool
}

// checkOp says what is wrong with the operation of a reduction.
func checkOp[T Number](kind Collective, op Op[T]) error {
	if op.apply == nil {
		return opError(kind.String(), ErrArgument, "the zero Op is no operation: take Sum, Min or another of this package, or make one with NewOp")
	}
	return nil
}

// NewOp makes an operation from a function (MPI_Op_create). If commutative is
// false, only algorithms that keep the ranks in order are used.
func NewOp[T Number](commutative bool, f func(left, right T) T) Op[T] {
	return Op[T]{
		commutative: commutative,
		apply: func(dst, left, right []T) {
			for i := range dst {
				dst[i] = f(left[i], right[i])
			}
		},
	}
}

// Integer is every integer type.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Real is every numeric type that has an order.
type Real interface {
	Integer | ~float32 | ~float64
}

// Sum adds (MPI_SUM).
func Sum[T Number]() Op[T] { return Op[T]{apply: sum[T], commutative: true} }

// Prod multiplies (MPI_PROD).
func Prod[T Number]() Op[T] { return Op[T]{apply: prod[T], commutative: true} }

// Min takes the smaller (MPI_MIN). A NaN is smaller than everything.
func Min[T Real]() Op[T] { return Op[T]{apply: minimum[T], commutative: true} }

// Max takes the larger (MPI_MAX). A NaN is smaller than everything.
func Max[T Real]() Op[T] { return Op[T]{apply: maximum[T], commutative: true} }

// LogicalAnd is 1 where both elements are not 0, else 0 (MPI_LAND).
func LogicalAnd[T Number]() Op[T] { return Op[T]{apply: logicalAnd[T], commutative: true} }

// LogicalOr is 1 where an element is not 0, else 0 (MPI_LOR).
func LogicalOr[T Number]() Op[T] { return Op[T]{apply: logicalOr[T], commutative: true} }

// LogicalXor is 1 where exactly one element is not 0, else 0 (MPI_LXOR).
func LogicalXor[T Number]() Op[T] { return Op[T]{apply: logicalXor[T], commutative: true} }

// BitAnd is the bits that both elements have (MPI_BAND).
func BitAnd[T Integer]() Op[T] { return Op[T]{apply: bitAnd[T], commutative: true} }

// BitOr is the bits that either element has (MPI_BOR).
func BitOr[T Integer]() Op[T] { return Op[T]{apply: bitOr[T], commutative: true} }

// BitXor is the bits that exactly one element has (MPI_BXOR).
func BitXor[T Integer]() Op[T] { return Op[T]{apply: bitXor[T], commutative: true} }

func sum[T Number](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = left[i] + right[i]
	}
}

func prod[T Number](dst, left, right []T) {
	left, right = left[:len(dst)], right[:len(dst)]
	for i := range dst {
		dst[i] = left[i] * right[i]
	}
}

func minimum[T Real](dst, left, right []T) {
	for i := range dst {
		if cmp.Less(right[i], left[i]) {
			dst[i] = right[i]
		} else {
			dst[i] = left[i]
		}
	}
}

func maximum[T Real](dst, left, right []T) {
	for i := range dst {
		if cmp.Less(left[i], right[i]) {
			dst[i] = right[i]
		} else {
			dst[i] = left[i]
		}
	}
}

func truth[T Number](b bool) T {
	if b {
		return 1
	}
	return 0
}

func logicalAnd[T Number](dst, left, right []T) {
	for i := range dst {
		dst[i] = truth[T](left[i] != 0 && right[i] != 0)
	}
}

func logicalOr[T Number](dst, left, right []T) {
	for i := range dst {
		dst[i] = truth[T](left[i] != 0 || right[i] != 0)
	}
}

func logicalXor[T Number](dst, left, right []T) {
	for i := range dst {
		dst[i] = truth[T]((left[i] != 0) != (right[i] != 0))
	}
}

func bitAnd[T Integer](dst, left, right []T) {
	for i := range dst {
		dst[i] = left[i] & right[i]
	}
}

func bitOr[T Integer](dst, left, right []T) {
	for i := range dst {
		dst[i] = left[i] | right[i]
	}
}

func bitXor[T Integer](dst, left, right []T) {
	for i := range dst {
		dst[i] = left[i] ^ right[i]
	}
}
