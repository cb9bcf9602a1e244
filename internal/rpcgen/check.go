package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"math"
	"slices"
	"strconv"
)

// checker resolves names, and finds errors that the grammar cannot exclude.
type checker struct {
	*faults
	spec  *specification
	scope map[string]any // *constantDef, *definition or *program
}

// States of a definition during recursion.
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

// declare enters all names into the one name space that constants, types and programs share (RFC
// 4506 section 6.4, RFC 5531 section 12.3). It omits repeated identical declarations, as C does.
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

// alike reports whether two constants have the same value as written.
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
		c.add(v.at, "%s is not a constant", v.text)
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

// typeNames looks up the names in the declarations of a type, and checks the members' names and
// lengths.
func (c *checker) typeNames(def *definition) {
	switch def.kind {
	case defTypedef:
		c.declaration(def.decl)
	case defStruct:
		c.distinct(def, def.members)
	case defUnion:
		c.declaration(def.union.disc) // the discriminant may have the same name as an arm, because arms are a separate scope
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
		c.add(t.at, "%s is not a type", t.name)
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

const (
	maxFixed = math.MaxInt32 // size limit of a value of fixed length, in bytes
	endless  = math.MaxInt64 // the size of a type of which each value contains another one
)

// sizes finds how many bytes the smallest encoding of each type has. Those of arrays and
// optional data are 4. A type may contain itself through an arm of a union, so that sizes shrink
// from endless until none changes.
func (c *checker) sizes() {
	var order []*definition // parts before the definitions that contain them, except in a cycle
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

// least returns the least size of a declared value.
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
				c.add(d.at, "%s has %d bytes or more, which is over the limit of %d: give it a bound (<>) instead of a length", d.name, size, maxFixed)
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

// base follows typedefs that only give a type another name, to a definition, or to an elementary
// kind with a nil definition.
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

// contains follows the parts of each value of a type to find a type that contains itself without
// end.
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

// within reports whether each declared value contains a value of another definition, not behind a
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
		c.add(disc.at, "the discriminant %s is not an int, unsigned int, bool or enum", disc.name)
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
