package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"math"
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
	sized // of a type: finished, and its size is known
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
	if f.list != nil || !c.recursion() {
		return // what follows relies on it
	}
	for _, def := range spec.types {
		if def.kind == defUnion {
			c.union(def)
		}
	}
	for _, def := range spec.types {
		c.size(def)
	}
}

// declare enters all names into the one name space that constants, types and programs
// share (RFC 4506 section 6.4, RFC 5531 section 12.3).
func (c *checker) declare() {
	for _, d := range c.spec.constants {
		c.enter(d.name, d.at, d)
	}
	for _, def := range c.spec.types {
		if !def.nested {
			c.enter(def.name, def.at, def)
		}
		for _, member := range def.enum {
			c.enter(member.name, member.at, member)
		}
	}
	for _, p := range c.spec.programs {
		c.enter(p.name, p.at, p)
	}
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
		c.add(v.at, "undefined constant %s", v.text)
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
		list := []*declaration{def.union.disc}
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
		c.add(t.at, "undefined type %s", t.name)
	default:
		c.add(t.at, "%s is no type", t.name)
	}
}

// enumeration checks the values of an enumeration (RFC 4506 section 4.3).
func (c *checker) enumeration(def *definition) {
	seen := map[string]*constantDef{}
	for _, member := range def.enum {
		v := &value{at: member.at, known: c.constant(member)}
		if v.known == nil || !c.within(v, math.MinInt32, math.MaxInt32, member.name) {
			continue
		}
		number := v.known.ExactString()
		if before := seen[number]; before != nil {
			c.add(v.at, "%s has the value %s of %s", member.name, number, before.name)
			continue
		}
		seen[number] = member
	}
}

// program checks the numbers and names in a program, and what its procedures name (RFC
// 5531 section 12.3).
func (c *checker) program(p *program) {
	for _, other := range c.spec.programs {
		if other == p {
			break
		}
		c.sameNumber("program", p.number, other.number, other.name)
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
	a, b := c.value(v), c.value(other)
	if a != nil && b != nil && constant.Compare(a, gotoken.EQL, b) {
		c.add(v.at, "%s %s has the number %v, too", what, name, a)
	}
}
