package rpcgen

import (
	"go/constant"
	"math"
	"slices"
)

const (
	maxFixed = math.MaxInt32 // limit of the bytes of what has a fixed length
	endless  = math.MaxInt64 // the size of a type of which each value contains another one
)

// sizes finds how many bytes the smallest encoding of each type has. Those of arrays and
// optional data are 4. A type may contain itself through an arm of a union, so that sizes shrink
// from endless until none changes.
func (c *checker) sizes() {
	var order []*definition // parts come before what they are parts of, but where they are that
	seen := map[*definition]bool{}
	var visit func(def *definition)
	visit = func(def *definition) {
		if seen[def] {
			return
		}
		seen[def], def.least = true, endless
		for _, d := range def.parts() {
			if d.within() {
				visit(d.typ.def)
			}
		}
		order = append(order, def)
	}
	for _, def := range c.spec.types {
		visit(def)
	}
	for changed := true; changed; {
		changed = false
		for _, def := range order {
			if n := def.smallest(); n < def.least {
				def.least, changed = n, true
			}
		}
	}
}

// smallest returns the size of a type as the sizes of its parts have it so far.
func (def *definition) smallest() int64 {
	switch def.kind {
	case defTypedef:
		return def.decl.least()
	case defStruct:
		sum := int64(0)
		for _, d := range def.members {
			sum = both(sum, d.least())
		}
		return sum
	case defUnion:
		least := int64(endless)
		for _, a := range def.union.all() {
			n := int64(0)
			if a.decl != nil {
				n = a.decl.least()
			}
			least = min(least, n)
		}
		return both(def.union.disc.least(), least)
	}
	return 4 // an enumeration
}

// both returns the size of two things together.
func both(a, b int64) int64 {
	if a == endless || b == endless {
		return endless
	}
	return min(a+b, maxFixed)
}

// least is the size of what is declared.
func (d *declaration) least() int64 {
	n := d.exact()
	if n != endless {
		n = min(n, maxFixed)
	}
	return n
}

// exact is least without a limit.
func (d *declaration) exact() int64 {
	switch {
	case d.shape == counted || d.shape == optional:
		return 4
	case d.shape == plain:
		return d.typ.least()
	}
	n, _ := constant.Int64Val(d.size.known)
	if d.typ.kind == kindOpaque {
		return (n + 3) &^ 3
	}
	one := d.typ.least()
	if n == 0 || one == endless {
		return min(n, 1) * one
	}
	return n * one // this fits: both have 32 bits
}

// least is the size of an element.
func (t *typeSpec) least() int64 {
	switch t.kind {
	case kindNamed:
		return t.def.least
	case kindHyper, kindUhyper, kindDouble:
		return 8
	case kindQuadruple:
		return 16
	}
	return 4
}

// oversized refuses arrays of a fixed length that are too large.
func (c *checker) oversized() {
	for _, def := range c.spec.types {
		for _, d := range def.parts() {
			if size := d.exact(); d.shape == fixed && size > maxFixed {
				c.add(d.at, "%s has %d octets or more, which is over the limit of %d: give it a bound (<>) instead of a length", d.name, size, maxFixed)
			}
		}
	}
}

// markRecursive marks unions that contain themselves through one of their arms. What generated
// code does with them has to be bounded. It finds the strongly connected components of types
// by Tarjan's algorithm.
func markRecursive(types []*definition) {
	index, low := map[*definition]int{}, map[*definition]int{}
	var stack []*definition
	on := map[*definition]bool{}
	var visit func(def *definition)
	visit = func(def *definition) {
		index[def] = len(index)
		low[def] = index[def]
		stack, on[def] = append(stack, def), true
		self := false
		for _, d := range def.parts() {
			if !d.within() {
				continue
			}
			to := d.typ.def
			self = self || to == def
			if _, seen := index[to]; !seen {
				visit(to)
				low[def] = min(low[def], low[to])
			} else if on[to] {
				low[def] = min(low[def], index[to])
			}
		}
		if low[def] != index[def] {
			return
		}
		at := slices.Index(stack, def)
		for _, member := range stack[at:] {
			on[member] = false
			member.recursive = self || len(stack)-at > 1
		}
		stack = stack[:at]
	}
	for _, def := range types {
		if _, seen := index[def]; !seen {
			visit(def)
		}
	}
}
