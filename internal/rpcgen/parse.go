package rpcgen

import (
	"fmt"
	"go/constant"
	"strconv"
)

// maxNesting is the maximum depth of types that are declared within each other.
const maxNesting = 100

// parser parses tokens into a specification.
type parser struct {
	*lexer
	tok   token
	depth int // of braces
	spec  *specification
}

// syntaxError ends the part that is being parsed; the error has been recorded.
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

// attempt parses a part that ends with a semicolon. If the part has an error, parsing continues
// after the semicolon.
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

// resume skips tokens up to the next semicolon at the depth of braces, or up to the closing brace
// of the enclosing part. A line that begins with a word that begins definitions also ends the skip.
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

// fail records an error and ends the parsing of the current part.
func (p *parser) fail(at pos, format string, args ...any) {
	p.add(at, format, args...)
	panic(syntaxError{})
}

// is reports whether the current token is the word or character.
func (p *parser) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == identToken || p.tok.kind == punctToken)
}

// accept skips the current token if it is the word or character, and reports whether it was.
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

// name returns the identifier that must be the current token. what describes it in messages.
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

// value returns the number or name that must be the current token. what describes it in messages.
func (p *parser) value(what string) *value {
	v := &value{at: p.tok.at, text: p.tok.text}
	switch {
	case p.tok.kind == numberToken:
		if v.known = number(v.text); v.known == nil {
			p.fail(p.tok.at, "%s is not a number of up to 64 bits: decimal ones may have a minus, hexadecimal ones begin with 0x, octal ones with 0", v.text)
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
		p.fail(first.at, "void is not a type that can have a name")
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
		p.openBrace(def)
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

func (p *parser) openBrace(def *definition) {
	if p.depth >= maxNesting {
		p.fail(p.tok.at, "more than %d declarations within each other", maxNesting)
	}
	p.expect("{", fmt.Sprintf("to begin the %v", def.kind))
}

// checkEnd ends the parsing of a body without a closing brace.
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

// nameNested gives the types that are declared within a type names that begin with the enclosing
// type's name.
func (def *definition) nameNested() {
	for _, d := range def.parts() {
		if d.typ.def != nil {
			d.typ.def.name = def.name + "." + d.name
			d.typ.def.nameNested()
		}
	}
}

func (p *parser) enumBody(def *definition) {
	p.openBrace(def)
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
		if p.is("}") { // like the C rpcgen, accept a comma after the last name
			break
		}
	}
	p.expect("}", "or ',' after a name of the enumeration")
}

// declaration parses a declaration. It returns nil for void. what names it in messages.
func (p *parser) declaration(what string) *declaration {
	d := &declaration{doc: p.tok.doc}
	if p.accept("void") {
		return nil
	}
	d.typ = p.typeSpec()
	if p.is("*") {
		if d.typ.kind == kindOpaque || d.typ.kind == kindString {
			p.fail(p.tok.at, "opaque and string cannot be optional: put them into a typedef")
		}
		d.shape = optional
		p.advance()
	}
	d.at = p.tok.at
	d.name = p.name("the name of the " + what)
	switch {
	case d.shape == optional && (p.is("[") || p.is("<")):
		p.fail(p.tok.at, "an array cannot be optional: put it into a typedef")
	case p.accept("["):
		d.shape = fixed
		d.size = p.value("the length of the array")
		p.expect("]", "after the length")
	case p.accept("<"):
		d.shape = counted
		if !p.is(">") {
			d.size = p.value("the bound")
		}
		p.expect(">", "after the bound")
	}
	if d.typ.kind == kindOpaque && d.shape == plain {
		p.fail(d.at, "opaque %s wants a length: [n], or <n> or <>", d.name)
	}
	if d.typ.kind == kindString && d.shape != counted {
		p.fail(d.at, "string %s wants a bound: <n> or <>", d.name)
	}
	return d
}

// words of types, and words that may follow unsigned.
var (
	typeWords = map[string]kind{
		"int": kindInt, "hyper": kindHyper, "float": kindFloat, "double": kindDouble, "quadruple": kindQuadruple,
		"bool": kindBool, "opaque": kindOpaque, "string": kindString,
	}
	unsignedWords = map[string]kind{
		"int": kindUint, "hyper": kindUhyper, "char": kindUchar, "short": kindUshort, "long": kindUint,
	}
)

// predefined has types of the C rpcgen and its library that are in no RFC. A specification may
// define its own types with these names.
var predefined = map[string]kind{
	"char": kindChar, "u_char": kindUchar, "short": kindShort, "u_short": kindUshort,
	"u_int": kindUint, "long": kindInt, "u_long": kindUint, "bool_t": kindBool,
	"int8_t": kindChar, "uint8_t": kindUchar, "u_int8_t": kindUchar,
	"int16_t": kindShort, "uint16_t": kindUshort, "u_int16_t": kindUshort,
	"int32_t": kindInt, "uint32_t": kindUint, "u_int32_t": kindUint,
	"int64_t": kindHyper, "uint64_t": kindUhyper, "u_int64_t": kindUhyper,
	"quad_t": kindHyper, "u_quad_t": kindUhyper, "longlong_t": kindHyper, "u_longlong_t": kindUhyper,
}

// typeSpec parses the type of a declaration in RPC language: a word, or the body of a struct, union or enum.
func (p *parser) typeSpec() typeSpec {
	t := typeSpec{at: p.tok.at}
	if p.tok.kind != identToken {
		p.fail(p.tok.at, "expected a type, found %v", p.tok)
	}
	word := p.tok.text
	switch word {
	case "unsigned":
		p.advance()
		t.kind = kindUint
		if k, ok := unsignedWords[p.tok.text]; ok {
			t.kind = k
			p.length(p.tok.text)
		}
		return t
	case "enum", "struct", "union":
		p.advance()
		p.bodyOrName(&t, word)
		return t
	case "short", "long":
		t.kind = predefined[word]
		p.length(word)
		return t
	}
	if k, ok := typeWords[word]; ok {
		t.kind = k
		p.advance()
		return t
	}
	t.kind, t.name = kindNamed, p.name("a type")
	return t
}

// length skips a word such as long, and the word int after it.
func (p *parser) length(word string) {
	p.advance()
	if word == "short" || word == "long" {
		p.accept("int")
	}
}

// bodyOrName parses a type that is declared within a declaration, or the name of one that
// is declared elsewhere, as C and rpcgen allow.
func (p *parser) bodyOrName(t *typeSpec, word string) {
	t.kind = kindNamed
	if !p.is("{") && !p.is("switch") {
		t.tag, t.name = word, p.name("'{' or the name of a "+word)
		if p.is("{") || p.is("switch") {
			p.fail(t.at, "a %s within a declaration has no name: take %s away, or is '}' missing before?", word, t.name)
		}
		return
	}
	t.def = p.newType(t.at, "", "")
	t.def.nested = true
	p.body(t.def, word)
}

func (p *parser) unionBody(def *definition) {
	def.union = &unionBody{}
	p.expect("switch", "in the union")
	p.expect("(", "after switch")
	at := p.tok.at
	if def.union.disc = p.declaration("discriminant"); def.union.disc == nil {
		p.fail(at, "the discriminant of a union cannot be void")
	}
	p.expect(")", "after the discriminant")
	p.openBrace(def)
	for !p.is("}") {
		p.attempt(func() { p.arm(def) })
		p.checkEnd(def)
	}
	if len(def.union.arms) == 0 {
		p.add(def.at, "%v has no case", def)
	}
	p.advance()
}

func (p *parser) arm(def *definition) {
	a := &arm{at: p.tok.at}
	if p.accept("default") {
		p.expect(":", "after default")
		if def.union.fallback != nil {
			p.add(a.at, "%v has a second default", def)
		}
	} else {
		for p.is("case") {
			p.advance()
			a.cases = append(a.cases, p.caseValue())
			p.expect(":", "after the value of the case")
		}
		if a.cases == nil {
			p.fail(a.at, "expected case or default in %v, found %v", def, p.tok)
		}
	}
	a.decl = p.declaration("arm")
	if a.cases == nil {
		def.union.fallback = a
	} else {
		def.union.arms = append(def.union.arms, a)
	}
	p.expect(";", "after the arm")
}

// caseValue parses a value that may be a character, as rpcgen allows.
func (p *parser) caseValue() *value {
	if p.tok.kind != charToken {
		return p.value("the value of the case")
	}
	v := &value{at: p.tok.at, text: p.tok.text, char: true}
	if v.known = character(v.text); v.known == nil {
		p.fail(v.at, "%s is not one character", v.text)
	}
	p.advance()
	return v
}

// character returns the number of a character between single quotation marks, or nil.
func character(text string) constant.Value {
	s, err := strconv.Unquote(text)
	if err != nil || len(s) != 1 {
		return nil
	}
	return constant.MakeInt64(int64(int8(s[0])))
}

// program parses what follows the word (RFC 5531 section 12.2).
func (p *parser) program(first token) {
	prog := &program{at: p.tok.at, doc: first.doc}
	prog.name = p.name("the name of the program")
	p.expect("{", "to begin the program")
	for !p.is("}") {
		p.attempt(func() { p.version(prog) })
		if p.tok.kind == endToken {
			p.fail(prog.at, "program %s has no end: '}' is missing", prog.name)
		}
	}
	p.advance()
	if len(prog.versions) == 0 {
		p.add(prog.at, "program %s has no version", prog.name)
	}
	p.expect("=", "and the number after the program")
	prog.number = p.value("the number of the program")
	p.spec.programs = append(p.spec.programs, prog)
	p.expect(";", "after the program's number")
}

func (p *parser) version(prog *program) {
	doc := p.tok.doc
	p.expect("version", "in the program")
	v := &version{at: p.tok.at, doc: doc}
	v.name = p.name("the name of the version")
	p.expect("{", "to begin the version")
	for !p.is("}") {
		p.attempt(func() { p.procedure(v) })
		if p.tok.kind == endToken {
			p.fail(v.at, "version %s has no end: '}' is missing", v.name)
		}
	}
	p.advance()
	if len(v.procedures) == 0 {
		p.add(v.at, "version %s has no procedure", v.name)
	}
	p.expect("=", "and the number after the version")
	v.number = p.value("the number of the version")
	prog.versions = append(prog.versions, v)
	p.expect(";", "after the version's number")
}

func (p *parser) procedure(v *version) {
	proc := &procedure{doc: p.tok.doc}
	proc.result = p.parameter("the result", false)
	proc.at = p.tok.at
	proc.name = p.name("the name of the procedure")
	p.expect("(", "after the name of the procedure")
	if !p.is(")") { // rpcgen reads () as (void)
		p.arguments(proc)
	}
	p.expect(")", "or ',' after the arguments of the procedure")
	p.expect("=", "and the number after the procedure")
	proc.number = p.value("the number of the procedure")
	v.procedures = append(v.procedures, proc)
	p.expect(";", "after the procedure's number")
}

func (p *parser) arguments(proc *procedure) {
	for n := 1; ; n++ {
		at := p.tok.at
		arg := p.parameter("the argument", true)
		switch {
		case arg != nil:
			proc.args = append(proc.args, arg)
		case n > 1 || p.is(","):
			p.fail(at, "void cannot be one of several arguments")
		}
		if !p.accept(",") {
			break
		}
	}
	if len(proc.args) == 1 && proc.args[0].name == "" {
		proc.args[0].name = "arg"
	}
	for i, arg := range proc.args {
		if arg.name == "" {
			arg.name = fmt.Sprint("arg", i+1)
		}
	}
}

// parameter parses the type of an argument or result; nil is void. As with rpcgen an
// argument may have a name, be optional, and be a string with or without a bound.
func (p *parser) parameter(what string, named bool) *declaration {
	d := &declaration{at: p.tok.at}
	if p.accept("void") {
		if named && p.tok.kind == identToken && !keywords[p.tok.text] {
			p.advance()
		}
		return nil
	}
	d.typ = p.typeSpec()
	switch d.typ.kind {
	case kindOpaque:
		p.fail(d.at, "opaque cannot be %s: use a typedef", what)
	case kindString:
		d.shape = counted
	}
	if d.typ.def != nil {
		p.fail(d.at, "%s cannot declare its type: define that before", what)
	}
	if p.is("*") {
		if d.typ.kind == kindString {
			p.fail(p.tok.at, "a string cannot be optional: use a typedef in a struct")
		}
		d.shape = optional
		p.advance()
	}
	if named && p.tok.kind == identToken {
		d.at = p.tok.at
		d.name = p.name("the name of the argument")
	}
	if p.is("[") || p.is("<") {
		if d.typ.kind != kindString || p.is("[") {
			p.fail(p.tok.at, "an array cannot be %s: use a typedef", what)
		}
		p.advance()
		if !p.is(">") {
			d.size = p.value("the bound")
		}
		p.expect(">", "after the bound")
	}
	return d
}
