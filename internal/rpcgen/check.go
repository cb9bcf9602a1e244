package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"math"
	"slices"
	"strconv"
)

// checker gives names their meaning, and finds what the grammar cannot forbid.
type checker struct {
	*faults
	spec  *specification
	scope map[string]any // *constantDef, *definition or *program
}

// States of what is looked at recursively.
const (
	untouched = iota
	underWay
	finished
)

func check(f *faults, spec *specification) {
	c := &checker{faults: f, spec: spec, scope: map[string]any{}}
	c.declare()
	for _, d := range spec.constants {
		c.constant(d)
	}
	for _, def := range spec.types {
		if def.whole {
			c.typeNames(def)
		}
	}
	for _, p := range spec.programs {
		c.program(p)
	}
	if f.list != nil {
		return // what follows relies on it
	}
	c.sizes()
	if !c.recursion() {
		return
	}
	for _, def := range spec.types {
		if def.kind == defUnion {
			c.union(def)
		}
	}
	c.oversized()
	markRecursive(spec.types)
}

// declare enters all names into the one name space that constants, types and programs
// share (RFC 4506 section 6.4, RFC 5531 section 12.3). What is declared a second time alike is
// left out, as C has it.
func (c *checker) declare() {
	c.spec.constants = slices.DeleteFunc(c.spec.constants, func(d *constantDef) bool {
		before, ok := c.scope[d.name].(*constantDef)
		if ok && before.alike(d) {
			return true
		}
		c.enter(d.name, d.at, d)
		return false
	})
	c.spec.types = slices.DeleteFunc(c.spec.types, func(def *definition) bool {
		before, ok := c.scope[def.name].(*definition)
		if ok && !def.nested && before.alike(def) {
			return true
		}
		if !def.nested {
			c.enter(def.name, def.at, def)
		}
		for _, member := range def.enum {
			c.enter(member.name, member.at, member)
		}
		return false
	})
	for _, p := range c.spec.programs {
		c.enter(p.name, p.at, p)
	}
}

// alike reports whether two constants have the same value as it is written.
func (d *constantDef) alike(other *constantDef) bool {
	if d.text == nil || other.text == nil {
		return d.text == other.text && d.str == other.str
	}
	return d.text.alike(other.text)
}

// alike reports whether two values are the same number, or the same name.
func (v *value) alike(other *value) bool {
	switch {
	case v == nil || other == nil:
		return v == other
	case v.known != nil && other.known != nil:
		return constant.Compare(v.known, gotoken.EQL, other.known)
	}
	return v.text == other.text
}

// alike reports whether two typedefs give the same name to the same declaration.
func (def *definition) alike(other *definition) bool {
	if def.kind != defTypedef || other.kind != defTypedef || def.decl == nil || other.decl == nil {
		return false
	}
	a, b := def.decl, other.decl
	return a.typ.def == nil && b.typ.def == nil && a.typ.kind == b.typ.kind && a.typ.name == b.typ.name && a.shape == b.shape && a.size.alike(b.size)
}

func (c *checker) enter(name string, at pos, what any) {
	var before pos
	switch old := c.scope[name].(type) {
	case nil:
		c.scope[name] = what
		return
	case *constantDef:
		before = old.at
	case *definition:
		before = old.at
	case *program:
		before = old.at
	}
	c.add(at, "%s is declared already, at %s:%d:%d", name, before.file, before.line, before.col)
}

// constant finds the value of a constant or of a name of an enumeration.
func (c *checker) constant(d *constantDef) constant.Value {
	switch d.state {
	case underWay:
		c.add(d.at, "the value of %s depends on itself", d.name)
		return nil
	case finished:
		return d.known
	}
	d.state = underWay
	switch {
	case d.text != nil:
		d.known = c.value(d.text)
	case d.str != "":
		if _, err := strconv.Unquote(d.str); err != nil {
			c.add(d.at, "the text %s has an escape that Go does not know", d.str)
		}
	case d.after == nil:
		d.known = constant.MakeInt64(0)
	default:
		if before := c.constant(d.after); before != nil {
			d.known = constant.BinaryOp(before, gotoken.ADD, constant.MakeInt64(1))
		}
	}
	d.state = finished
	return d.known
}

// value finds the value of a number or name; nil if it has none, which has been recorded.
func (c *checker) value(v *value) constant.Value {
	if v.known != nil {
		return v.known
	}
	switch d := c.scope[v.text].(type) {
	case *constantDef:
		v.def = d
		if d.str != "" {
			c.add(v.at, "the constant %s is a text, no number", v.text)
			return nil
		}
		v.known = c.constant(d)
	case nil:
		if b, ok := booleans[v.text]; ok {
			v.known = constant.MakeInt64(b)
			return v.known
		}
		c.add(v.at, "undefined constant %s: if a C header has it, give it a value, as by -D %s=1024", v.text, v.text)
	default:
		c.add(v.at, "%s is no constant", v.text)
	}
	return v.known
}

// booleans are the names of the values of bool (RFC 4506 section 4.4).
var booleans = map[string]int64{"FALSE": 0, "TRUE": 1}

// within reports whether the value is known, and lies between the bounds.
func (c *checker) within(v *value, least, most int64, what string) bool {
	n := c.value(v)
	if n == nil {
		return false
	}
	if constant.Compare(n, gotoken.LSS, constant.MakeInt64(least)) || constant.Compare(n, gotoken.GTR, constant.MakeInt64(most)) {
		c.add(v.at, "%s is %v, but must lie between %d and %d", what, n, least, most)
		return false
	}
	return true
}

// typeNames looks up what the declarations of a type name, and checks their names and
// lengths.
func (c *checker) typeNames(def *definition) {
	switch def.kind {
	case defTypedef:
		c.declaration(def.decl)
	case defStruct:
		c.distinct(def, def.members)
	case defUnion:
		c.declaration(def.union.disc) // it may have the name of an arm: arms are a scope of their own
		var list []*declaration
		for _, a := range def.union.all() {
			if a.decl != nil {
				list = append(list, a.decl)
			}
			for _, v := range a.cases {
				c.value(v)
			}
		}
		c.distinct(def, list)
	case defEnum:
		c.enumeration(def)
	}
}

// all returns the arms, the default one last.
func (u *unionBody) all() []*arm {
	if u.fallback == nil {
		return u.arms
	}
	return append(u.arms[:len(u.arms):len(u.arms)], u.fallback)
}

// distinct checks declarations that share a scope.
func (c *checker) distinct(def *definition, list []*declaration) {
	seen := map[string]pos{}
	for _, d := range list {
		c.declaration(d)
		if before, ok := seen[d.name]; ok {
			c.add(d.at, "%s is declared already in %v, in line %d", d.name, def, before.line)
		}
		seen[d.name] = d.at
	}
}

func (c *checker) declaration(d *declaration) {
	c.typeName(&d.typ)
	if d.size == nil {
		return
	}
	what := "the bound of " + d.name
	if d.shape == fixed {
		what = "the length of " + d.name
	}
	c.within(d.size, 0, math.MaxUint32, what)
}

func (c *checker) typeName(t *typeSpec) {
	if t.kind != kindNamed || t.def != nil {
		return
	}
	switch d := c.scope[t.name].(type) {
	case *definition:
		t.def = d
		if t.tag != "" && d.kind != defTypedef && d.kind.String() != t.tag {
			c.add(t.at, "%s is no %s but the %v of %s:%d:%d", t.name, t.tag, d.kind, d.at.file, d.at.line, d.at.col)
		}
	case nil:
		if k, ok := predefined[t.name]; ok && t.tag == "" {
			t.kind = k
			return
		}
		c.undefinedType(t)
	default:
		c.add(t.at, "%s is no type", t.name)
	}
}

// enumeration checks the values of an enumeration (RFC 4506 section 4.3). Two names may have
// one value, as in C.
func (c *checker) enumeration(def *definition) {
	for _, member := range def.enum {
		v := &value{at: member.at, known: c.constant(member)}
		if v.known != nil {
			c.within(v, math.MinInt32, math.MaxInt32, member.name)
		}
	}
}

// program checks the numbers and names in a program, and what its procedures name (RFC
// 5531 section 12.3). Two programs may have one number if their versions differ.
func (c *checker) program(p *program) {
	for _, other := range c.spec.programs {
		if other == p {
			break
		}
		if c.equal(p.number, other.number) {
			c.sameVersions(p, other)
		}
	}
	c.within(p.number, 0, math.MaxUint32, "the number of "+p.name)
	for i, v := range p.versions {
		for _, other := range p.versions[:i] {
			c.sameName("version", v.name, v.at, other.name, other.at)
			c.sameNumber("version", v.number, other.number, other.name)
		}
		c.within(v.number, 0, math.MaxUint32, "the number of "+v.name)
		c.procedures(v)
	}
}

func (c *checker) procedures(v *version) {
	for i, proc := range v.procedures {
		for _, other := range v.procedures[:i] {
			c.sameName("procedure", proc.name, proc.at, other.name, other.at)
			c.sameNumber("procedure", proc.number, other.number, other.name)
		}
		c.within(proc.number, 0, math.MaxUint32, "the number of "+proc.name)
		if proc.result != nil {
			c.declaration(proc.result)
		}
		seen := map[string]bool{}
		for _, arg := range proc.args {
			c.declaration(arg)
			if seen[arg.name] {
				c.add(arg.at, "procedure %s has two arguments %s", proc.name, arg.name)
			}
			seen[arg.name] = true
		}
	}
}

func (c *checker) sameName(what, name string, at pos, other string, before pos) {
	if name == other {
		c.add(at, "%s %s is declared already, in line %d", what, name, before.line)
	}
}

func (c *checker) sameNumber(what string, v, other *value, name string) {
	if c.equal(v, other) {
		c.add(v.at, "%s %s has the number %v, too", what, name, v.known)
	}
}

// sameVersions refuses versions of a program that another program of its number has.
func (c *checker) sameVersions(p, other *program) {
	for _, v := range p.versions {
		for _, w := range other.versions {
			if c.equal(v.number, w.number) {
				c.add(v.number.at, "version %s of program %s, which has the same number, has the number %v, too", w.name, other.name, v.number.known)
			}
		}
	}
}

func (c *checker) equal(v, other *value) bool {
	a, b := c.value(v), c.value(other)
	return a != nil && b != nil && constant.Compare(a, gotoken.EQL, b)
}
