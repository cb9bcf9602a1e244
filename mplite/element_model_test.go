package mplite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint8](), reflect.TypeFor[int16](), reflect.TypeFor[uint32](),
	reflect.TypeFor[int64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
}

// randomType returns a number, or an array or struct of random types.
func randomType(rng *rand.Rand, depth int) reflect.Type {
	switch k := rng.IntN(6); {
	case depth == 0 || k < 2:
		return leaves[rng.IntN(len(leaves))]
	case k == 2:
		return reflect.ArrayOf(rng.IntN(4), randomType(rng, depth-1))
	}
	var fields []reflect.StructField
	for i := range 1 + rng.IntN(4) {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: randomType(rng, depth-1)})
	}
	return reflect.StructOf(fields)
}

// leaf is a number in a type.
type leaf struct {
	offset int
	kind   reflect.Kind
}

// leavesOf takes a type apart as simply as possible.
func leavesOf(t reflect.Type, offset int) (all []leaf) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			all = append(all, leavesOf(t.Field(i).Type, offset+int(t.Field(i).Offset))...)
		}
	case reflect.Array:
		for i := range t.Len() {
			all = append(all, leavesOf(t.Elem(), offset+i*int(t.Elem().Size()))...)
		}
	default:
		return []leaf{{offset, t.Kind()}}
	}
	return all
}

// swapLeaves is element.swap, leaf by leaf.
func swapLeaves(b []byte, all []leaf) {
	for _, l := range all {
		e := numbers[l.kind]
		for part := b[l.offset:][:e.size]; len(part) > 0; part = part[e.unit:] {
			slices.Reverse(part[:e.unit])
		}
	}
}

// TestTypesAgainstModel: random types swap the bytes of each of their numbers, and
// of nothing else, and structs match if, and only if, they have the same numbers
// at the same places and the same size.
func TestTypesAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	bySig := map[uint32]string{}
	structs := 0
	for range 3000 {
		typ := randomType(rng, 3)
		all := leavesOf(typ, 0)
		e := compose(typ)
		if len(all) == 0 || typ.Size() == 0 {
			if e.err == nil {
				t.Fatalf("%v has no numbers and is an element", typ)
			}
			continue
		}
		if e.err != nil {
			t.Fatalf("%v: %v", typ, e.err)
		}
		b := make([]byte, 3*e.size+1) // three elements and a part of one
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want := slices.Clone(b)
		for i := range 3 {
			swapLeaves(want[i*e.size:], all)
		}
		if e.swap(b); !bytes.Equal(b[:3*e.size], want[:3*e.size]) {
			t.Fatalf("%v: swapped wrong", typ)
		}
		if e.sig&sigStruct == 0 {
			continue
		}
		structs++
		is := fmt.Sprint(e.size, all)
		if was, ok := bySig[e.sig]; ok && was != is {
			t.Fatalf("%v has the signature of another struct: %s and %s", typ, was, is)
		}
		bySig[e.sig] = is
	}
	meanings := map[string]bool{}
	for _, is := range bySig {
		if meanings[is] {
			t.Errorf("two signatures for %s", is)
		}
		meanings[is] = true
	}
	if structs < 1000 {
		t.Errorf("only %d structs were tried", structs)
	}
}
