package splitc

import (
	"hash/fnv"
	"reflect"
)

// Integer are the types that the bitwise operations are for.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Number are the types that the arithmetic operations are for.
type Number interface {
	Integer | ~float32 | ~float64
}

// Op is an associative operation of reductions and scans. It need not be commutative:
// values are combined in the order of processes. How they are grouped depends on the
// number of processes and on nothing else, so that a sum of floating-point numbers is
// the same in each run, over each layer, and wherever the processes are.
type Op[T any] struct {
	id    uint32
	f     func(a, b T) T
	exact bool // the result does not depend on the order of values, nor on how they are grouped
}

// OpFunc returns an operation. All processes give it the same name, of which their calls
// are compared.
func OpFunc[T any](name string, f func(a, b T) T) Op[T] {
	h := fnv.New32a()
	h.Write([]byte(name + "/" + reflect.TypeFor[T]().String()))
	return Op[T]{id: max(1, h.Sum32()), f: f}
}

// exactly returns an operation that is exact, if that is so.
func exactly[T any](is bool, name string, f func(a, b T) T) Op[T] {
	op := OpFunc(name, f)
	op.exact = is
	return op
}

// whole reports whether a T is an integer.
func whole[T Number]() bool {
	one := T(1)
	return one/2 == 0
}

// Add returns a + b.
func Add[T Number]() Op[T] { return exactly(whole[T](), "add", func(a, b T) T { return a + b }) }

// Mul returns a * b.
func Mul[T Number]() Op[T] { return exactly(whole[T](), "mul", func(a, b T) T { return a * b }) }

// Min returns the smaller one; a NaN if there is one.
func Min[T Number]() Op[T] { return exactly(true, "min", func(a, b T) T { return min(a, b) }) }

// Max returns the greater one; a NaN if there is one.
func Max[T Number]() Op[T] { return exactly(true, "max", func(a, b T) T { return max(a, b) }) }

// And returns a & b.
func And[T Integer]() Op[T] { return exactly(true, "and", func(a, b T) T { return a & b }) }

// Or returns a | b.
func Or[T Integer]() Op[T] { return exactly(true, "or", func(a, b T) T { return a | b }) }

// Xor returns a ^ b.
func Xor[T Integer]() Op[T] { return exactly(true, "xor", func(a, b T) T { return a ^ b }) }
