package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"math"
)

// base follows typedefs that only give a type another name, and returns what it is: a
// definition, or nil and an elementary kind.
func (t *typeSpec) base() (kind, *definition) {
	for t.kind == kindNamed && t.def.kind == defTypedef && t.def.decl.shape == plain {
		t = &t.def.decl.typ
	}
	return t.kind, t.def
}

// recursion reports whether each type has an end without a pointer or a counted array on
// the way to itself, and no pointer is only to itself.
func (c *checker) recursion() bool {
	before := len(c.list)
	for _, def := range c.spec.types {
		c.contains(def)
	}
	if len(c.list) > before {
		return false
	}
	for _, def := range c.spec.types {
		d := def
		for n := 0; d != nil && d.kind == defTypedef && (d.decl.shape == plain || d.decl.shape == optional); n++ {
			if n > len(c.spec.types) {
				c.add(def.at, "typedef %s is a pointer to itself: put the pointer into a struct", def.name)
				break
			}
			d = d.decl.typ.def
		}
	}
	return len(c.list) == before
}

// contains follows what is part of each value of a type.
func (c *checker) contains(def *definition) {
	if def.state == underWay {
		c.add(def.at, "%v contains itself: make it optional (*) or a counted array (<>) on the way", def)
	}
	if def.state != untouched {
		return
	}
	def.state = underWay
	for _, d := range def.parts() {
		if (d.shape == plain || d.shape == fixed) && d.typ.def != nil {
			c.contains(d.typ.def)
		}
	}
	def.state = finished
}

// parts returns the declarations that a type consists of.
func (def *definition) parts() []*declaration {
	switch def.kind {
	case defTypedef:
		return []*declaration{def.decl}
	case defStruct:
		return def.members
	case defUnion:
		list := []*declaration{def.union.disc}
		for _, a := range def.union.all() {
			if a.decl != nil {
				list = append(list, a.decl)
			}
		}
		return list
	}
	return nil
}

// union checks discriminant and cases (RFC 4506 section 6.4, note 5).
func (c *checker) union(def *definition) {
	disc := def.union.disc
	k, of := disc.typ.base()
	if disc.shape != plain || !k.discriminates() && (of == nil || of.kind != defEnum) {
		c.add(disc.at, "the discriminant %s is no int, unsigned int, bool or enum", disc.name)
		return
	}
	seen := map[string]*value{}
	for _, a := range def.union.arms {
		for _, v := range a.cases {
			if !c.legal(v, k, of) {
				continue
			}
			n := v.known.ExactString()
			if before := seen[n]; before != nil {
				c.add(v.at, "case %s: the value %s is that of the case in line %d already", v.text, n, before.at.line)
				continue
			}
			seen[n] = v
		}
	}
}

func (k kind) discriminates() bool {
	switch k {
	case kindInt, kindUint, kindBool, kindChar, kindUchar, kindShort, kindUshort:
		return true
	}
	return false
}

// ranges of the values of what can be a discriminant.
var ranges = map[kind][2]int64{
	kindInt: {math.MinInt32, math.MaxInt32}, kindUint: {0, math.MaxUint32}, kindBool: {0, 1},
	kindChar: {math.MinInt8, math.MaxInt8}, kindUchar: {0, math.MaxUint8},
	kindShort: {math.MinInt16, math.MaxInt16}, kindUshort: {0, math.MaxUint16},
}

// legal reports whether the discriminant can have the value.
func (c *checker) legal(v *value, k kind, of *definition) bool {
	if of == nil {
		r := ranges[k]
		return c.within(v, r[0], r[1], "case "+v.text)
	}
	if c.value(v) == nil {
		return false
	}
	if of.member(v.known) == nil {
		c.add(v.at, "case %s: enum %s has no such value", v.text, of.name)
		return false
	}
	return true
}

// member returns the name that an enumeration has for a value, or nil.
func (def *definition) member(v constant.Value) *constantDef {
	for _, m := range def.enum {
		if constant.Compare(m.known, gotoken.EQL, v) {
			return m
		}
	}
	return nil
}

// maxFixed is the limit of the octets of what has a fixed length.
const maxFixed = math.MaxInt32

// size finds how many octets the smallest encoding of a type has. Those of arrays and
// optional data are 4.
func (c *checker) size(def *definition) int64 {
	if def.state == sized {
		return def.least
	}
	switch def.kind {
	case defEnum:
		def.least = 4
	case defTypedef:
		def.least = c.declSize(def.decl)
	case defStruct:
		for _, d := range def.members {
			def.least = min(def.least+c.declSize(d), maxFixed)
		}
	case defUnion:
		arms := def.union.all()
		least := int64(math.MaxInt64)
		for _, a := range arms {
			n := int64(0)
			if a.decl != nil {
				n = c.declSize(a.decl)
			}
			least = min(least, n)
		}
		def.least = min(c.declSize(def.union.disc)+least, maxFixed)
	}
	def.state = sized
	return def.least
}

// declSize is the size of what is declared.
func (c *checker) declSize(d *declaration) int64 {
	switch {
	case d.shape == counted || d.shape == optional:
		return 4
	case d.shape == plain:
		return c.typeSize(&d.typ)
	}
	n, _ := constant.Int64Val(d.size.known)
	size := (n + 3) &^ 3
	if d.typ.kind != kindOpaque {
		// The product fits: both have 32 bits.
		size = n * c.typeSize(&d.typ)
	}
	if size > maxFixed {
		c.add(d.at, "%s has %d octets or more, which is over the limit of %d: give it a bound (<>) instead of a length", d.name, size, maxFixed)
		return maxFixed
	}
	return size
}

// typeSize is the size of an element.
func (c *checker) typeSize(t *typeSpec) int64 {
	switch t.kind {
	case kindNamed:
		return c.size(t.def)
	case kindHyper, kindUhyper, kindDouble:
		return 8
	case kindQuadruple:
		return 16
	}
	return 4
}
