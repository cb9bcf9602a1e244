package rpcgen

import (
	"fmt"
)

// maxNesting is how deeply types may be declared within each other.
const maxNesting = 100

// parser makes a specification of tokens.
type parser struct {
	*lexer
	tok   token
	depth int // of braces
	spec  *specification
}

// syntaxError ends what is being parsed; it has been recorded.
type syntaxError struct{}

func parse(l *lexer) *specification {
	p := &parser{lexer: l, spec: &specification{}}
	p.advance()
	for p.tok.kind != endToken {
		p.attempt(p.definition)
	}
	p.spec.goLines = l.goLines
	return p.spec
}

// attempt parses something that ends with a semicolon, and goes on behind that if there
// is an error in it.
func (p *parser) attempt(part func()) {
	depth, start := p.depth, p.tok.at
	defer func() {
		switch r := recover().(type) {
		case nil:
		case syntaxError:
			p.resume(depth, start)
		default:
			panic(r)
		}
	}()
	part()
}

// resume passes over tokens to the next semicolon at the depth of braces, or to the brace
// that closes what is around. What begins at the start of a line with a word that begins
// definitions is one.
func (p *parser) resume(depth int, start pos) {
	for p.tok.kind != endToken {
		switch {
		case p.tok.text == ";" && p.depth <= depth:
			p.advance()
			return
		case p.tok.text == "}" && p.depth <= depth && depth > 0:
			return
		case p.tok.at.col == 1 && p.tok.at.line != start.line && definers[p.tok.text]:
			if depth > 0 {
				panic(syntaxError{})
			}
			p.depth = 0
			return
		}
		p.advance()
	}
	if depth > 0 {
		panic(syntaxError{})
	}
}

func (p *parser) advance() {
	switch p.tok.text {
	case "{":
		p.depth++
	case "}":
		p.depth = max(0, p.depth-1)
	}
	p.tok = p.lexer.next()
}

// fail records what is wrong and leaves the part.
func (p *parser) fail(at pos, format string, args ...any) {
	p.add(at, format, args...)
	panic(syntaxError{})
}

// is reports whether the current token is the word or character.
func (p *parser) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == identToken || p.tok.kind == punctToken)
}

// accept passes over the word or character if it is there.
func (p *parser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text, where string) {
	if !p.accept(text) {
		p.fail(p.tok.at, "expected '%s' %s, found %v", text, where, p.tok)
	}
}

// keywords cannot be names (RFC 4506 section 6.4, RFC 5531 section 12.3).
var keywords = map[string]bool{
	"bool": true, "case": true, "const": true, "default": true, "double": true, "quadruple": true, "enum": true,
	"float": true, "hyper": true, "int": true, "opaque": true, "string": true, "struct": true, "switch": true,
	"typedef": true, "union": true, "unsigned": true, "void": true, "program": true, "version": true,
}

// definers begin definitions.
var definers = map[string]bool{"const": true, "typedef": true, "enum": true, "struct": true, "union": true, "program": true}

// name returns the identifier that must come now, which is for what.
func (p *parser) name(what string) string {
	if p.tok.kind != identToken {
		p.fail(p.tok.at, "expected %s, found %v", what, p.tok)
	}
	if keywords[p.tok.text] {
		p.fail(p.tok.at, "expected %s, found the keyword %v: if the file uses it as a name only, -D %s=%s_ gives it another one", what, p.tok, p.tok.text, p.tok.text)
	}
	text := p.tok.text
	p.advance()
	return text
}

// value returns the number or name that must come now.
func (p *parser) value(what string) *value {
	v := &value{at: p.tok.at, text: p.tok.text}
	switch {
	case p.tok.kind == numberToken:
		if v.known = number(v.text); v.known == nil {
			p.fail(p.tok.at, "%s is no number of up to 64 bits: decimal ones may have a minus, hexadecimal ones begin with 0x, octal ones with 0", v.text)
		}
	case p.tok.kind == identToken && !keywords[v.text]:
	default:
		p.fail(p.tok.at, "expected %s, a number or the name of one, found %v", what, p.tok)
	}
	p.advance()
	return v
}

func (p *parser) definition() {
	first := p.tok
	switch first.text {
	case "const":
		p.advance()
		p.constant(first)
	case "typedef":
		p.advance()
		p.typedef(first)
	case "enum", "struct", "union":
		p.advance()
		at := p.tok.at
		def := p.newType(at, p.name("the name of the "+first.text), first.doc)
		p.body(def, first.text)
		def.nameNested()
		p.expect(";", "after the "+first.text)
	case "program":
		p.advance()
		p.program(first)
	case ";":
		p.fail(first.at, "a ';' without a definition before it")
	default:
		p.fail(first.at, "expected const, typedef, enum, struct, union or program, found %v%s", first, foreign(first))
	}
}

func (p *parser) newType(at pos, name, doc string) *definition {
	def := &definition{at: at, name: name, doc: doc}
	p.spec.types = append(p.spec.types, def)
	return def
}

func (p *parser) constant(first token) {
	c := &constantDef{at: p.tok.at, doc: first.doc}
	c.name = p.name("the name of the constant")
	p.expect("=", "after the name of the constant")
	if p.tok.kind == stringToken {
		c.str = p.tok.text
		p.advance()
	} else {
		c.text = p.value("the value of the constant")
	}
	p.spec.constants = append(p.spec.constants, c)
	p.expect(";", "after the constant")
}

func (p *parser) typedef(first token) {
	d := p.declaration("typedef")
	if d == nil {
		p.fail(first.at, "void is no type that can have a name")
	}
	p.expect(";", "after the typedef")
	if d.shape == plain && d.typ.def != nil { // typedef struct { ... } name
		d.typ.def.name, d.typ.def.nested, d.typ.def.at, d.typ.def.doc = d.name, false, d.at, first.doc
		d.typ.def.nameNested()
		return
	}
	if d.shape == plain && d.typ.tag != "" && d.typ.name == d.name {
		return // typedef struct name name, which C needs
	}
	def := p.newType(d.at, d.name, first.doc)
	def.decl, def.whole = d, true
	if d.typ.def != nil { // typedef struct { ... } name<>
		d.typ.def.name = d.name + ".elem"
		d.typ.def.nameNested()
	}
}

// body parses what follows the name of an enumeration, a struct or a union.
func (p *parser) body(def *definition, word string) {
	switch word {
	case "enum":
		def.kind = defEnum
		p.enumBody(def)
	case "struct":
		def.kind = defStruct
		p.open(def)
		for !p.is("}") {
			p.attempt(func() { p.member(def) })
			p.checkEnd(def)
		}
		if len(def.members) == 0 {
			p.add(def.at, "%v has no members", def)
		}
		p.advance()
	case "union":
		def.kind = defUnion
		p.unionBody(def)
	}
	def.whole = true
}

func (p *parser) open(def *definition) {
	if p.depth >= maxNesting {
		p.fail(p.tok.at, "more than %d declarations within each other", maxNesting)
	}
	p.expect("{", fmt.Sprintf("to begin the %v", def.kind))
}

// checkEnd leaves a body whose brace was never closed.
func (p *parser) checkEnd(def *definition) {
	if p.tok.kind == endToken {
		p.fail(def.at, "%v has no end: '}' is missing", def)
	}
}

func (p *parser) member(def *definition) {
	d := p.declaration("member")
	if d == nil {
		p.fail(p.tok.at, "a struct has no members of type void")
	}
	def.members = append(def.members, d)
	p.expect(";", "after the member "+d.name)
}

// nameNested names the types that are declared within a type after what they are in.
func (def *definition) nameNested() {
	for _, d := range def.parts() {
		if d.typ.def != nil {
			d.typ.def.name = def.name + "." + d.name
			d.typ.def.nameNested()
		}
	}
}

func (p *parser) enumBody(def *definition) {
	p.open(def)
	var before *constantDef
	for {
		c := &constantDef{at: p.tok.at, doc: p.tok.doc, enum: def, after: before}
		c.name = p.name("a name of the enumeration")
		if p.accept("=") {
			c.text = p.value("the value of " + c.name)
		}
		def.enum = append(def.enum, c)
		before = c
		if !p.accept(",") {
			break
		}
		if p.is("}") { // rpcgen takes a comma behind the last one, too
			break
		}
	}
	p.expect("}", "or ',' after a name of the enumeration")
}
