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

// recursion reports whether each type has values that end: one that contains itself does so behind
// a pointer or a counted array, or in some arms of a union (RFC 4506 section 4.19). And no
// pointer is only to itself.
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

// contains follows what is part of each value of a type that has no end.
func (c *checker) contains(def *definition) {
	if def.state == underWay {
		c.add(def.at, "%v contains itself: make it optional (*) or a counted array (<>) on the way, or give a union an arm without it", def)
	}
	if def.state != untouched || def.least != endless {
		return
	}
	def.state = underWay
	for _, d := range def.parts() {
		if d.within() {
			c.contains(d.typ.def)
		}
	}
	def.state = finished
}

// within reports whether what is declared contains a value of another definition, not behind a
// pointer or a count.
func (d *declaration) within() bool {
	return (d.shape == plain || d.shape == fixed) && d.typ.def != nil
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
