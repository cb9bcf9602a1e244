package mplite

import "cmp"

// Op is a reduction operation on elements of T (MPI_Op). It must be
// associative. The zero Op is invalid.
//
// The order in which a reduction applies an Op depends only on the number of ranks, on the placement of ranks
// on hosts, on the number and size of the elements, and on the root. So floating-point reductions are
// reproducible: all ranks, and all runs with the same placement, get the same bits. If an operation is not
// commutative, the operand of the lower ranks is always on the left. If it is commutative, that operand may be
// on the right.
type Op[T any] struct {
	// apply sets dst[i] to left[i] op right[i]; dst may be left or right.
	apply       func(dst, left, right []T)
	commutative bool
	code        opCode
}

// opCode identifies an operation to other ranks.
type opCode uint8

const (
	opNone opCode = iota // that of the zero Op
	opSum
	opProd
	opMin
	opMax
	opLogicalAnd
	opLogicalOr
	opLogicalXor
	opBitAnd
	opBitOr
	opBitXor
	opMinLoc
	opMaxLoc
	opOrdered // the user's, not commutative
	opOwn     // the user's, commutative
	numOps
)

var opNames = [numOps]string{
	"no operation", "sum", "prod", "min", "max", "logical and", "logical or", "logical xor", "bit and", "bit or", "bit xor",
	"minloc", "maxloc", "an operation of the program that is not commutative", "a commutative operation of the program",
}

func (o opCode) String() string { return opNames[o] }

// NewOp returns an operation that applies f (MPI_Op_create). If commutative is false, only
// algorithms that keep the order of the ranks are used. NewOp panics if f is nil.
func NewOp[T any](commutative bool, f func(left, right T) T) Op[T] {
	if f == nil {
		panic("mplite: NewOp: the function of the operation is nil")
	}
	code := opOrdered
	if commutative {
		code = opOwn
	}
	return Op[T]{
		code:        code,
		commutative: commutative,
		apply: func(dst, left, right []T) {
			for i := range dst {
				dst[i] = f(left[i], right[i])
			}
		},
	}
}

// Integer is the constraint of all integer types.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Real is the constraint of all numeric types with an order.
type Real interface {
	Integer | ~float32 | ~float64
}

// builtin returns an operation of this package. All of them are commutative.
func builtin[T any](code opCode, apply func(dst, left, right []T)) Op[T] {
	return Op[T]{code: code, apply: apply, commutative: true}
}

// Sum adds (MPI_SUM).
func Sum[T Number]() Op[T] { return builtin(opSum, sum[T]) }

// Prod multiplies (MPI_PROD).
func Prod[T Number]() Op[T] { return builtin(opProd, prod[T]) }

// Min is the smaller element (MPI_MIN). A NaN is smaller than everything.
func Min[T Real]() Op[T] { return builtin(opMin, minimum[T]) }

// Max is the larger element (MPI_MAX). A NaN is smaller than everything.
func Max[T Real]() Op[T] { return builtin(opMax, maximum[T]) }

// LogicalAnd is 1 if both elements are not 0, else 0 (MPI_LAND).
func LogicalAnd[T Number]() Op[T] { return builtin(opLogicalAnd, logicalAnd[T]) }

// LogicalOr is 1 if an element is not 0, else 0 (MPI_LOR).
func LogicalOr[T Number]() Op[T] { return builtin(opLogicalOr, logicalOr[T]) }

// LogicalXor is 1 if exactly one element is not 0, else 0 (MPI_LXOR).
func LogicalXor[T Number]() Op[T] { return builtin(opLogicalXor, logicalXor[T]) }

// BitAnd is the bitwise and (MPI_BAND).
func BitAnd[T Integer]() Op[T] { return builtin(opBitAnd, bitAnd[T]) }

// BitOr is the bitwise or (MPI_BOR).
func BitOr[T Integer]() Op[T] { return builtin(opBitOr, bitOr[T]) }

// BitXor is the bitwise exclusive or (MPI_BXOR).
func BitXor[T Integer]() Op[T] { return builtin(opBitXor, bitXor[T]) }

// Loc is a value with its location: the element of MinLoc and MaxLoc (MPI_DOUBLE_INT and similar).
// Index may be the rank or another index that the program chooses.
type Loc[T Real] struct {
	Value T
	Index int
}

// MinLoc is the smaller value with its index, and for equal values the smaller index (MPI_MINLOC).
// A NaN is smaller than everything.
func MinLoc[T Real]() Op[Loc[T]] { return builtin(opMinLoc, minLoc[T]) }

// MaxLoc is the larger value with its index, and for equal values the smaller index (MPI_MAXLOC). A
// NaN is smaller than everything.
func MaxLoc[T Real]() Op[Loc[T]] { return builtin(opMaxLoc, maxLoc[T]) }

// checkOp returns an error if the operation is missing.
func (x *coll) checkOp(code opCode) error {
	if code == opNone {
		return x.invalid(ErrArgument, "the operation is the zero Op: use Sum or another of this package, or NewOp")
	}
	return nil
}

func minLoc[T Real](dst, left, right []Loc[T]) {
	for i := range dst {
		l, r := left[i], right[i]
		if c := cmp.Compare(r.Value, l.Value); c < 0 || c == 0 && r.Index < l.Index {
			l = r
		}
		dst[i] = l
	}
}

func maxLoc[T Real](dst, left, right []Loc[T]) {
	for i := range dst {
		l, r := left[i], right[i]
		if c := cmp.Compare(r.Value, l.Value); c > 0 || c == 0 && r.Index < l.Index {
			l = r
		}
		dst[i] = l
	}
}

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
