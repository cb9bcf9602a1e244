package rpcgen

// declaration parses one, which may be void: nil. what is for messages.
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

// words of types, and what follows the word unsigned.
var (
	typeWords = map[string]kind{
		"int": kindInt, "hyper": kindHyper, "float": kindFloat, "double": kindDouble, "quadruple": kindQuadruple,
		"bool": kindBool, "opaque": kindOpaque, "string": kindString,
	}
	unsignedWords = map[string]kind{
		"int": kindUint, "hyper": kindUhyper, "char": kindUchar, "short": kindUshort, "long": kindUint,
	}
)

// predefined are the types of rpcgen and of its library that no RFC has. A specification
// may give their names to types of its own.
var predefined = map[string]kind{
	"char": kindChar, "u_char": kindUchar, "short": kindShort, "u_short": kindUshort,
	"u_int": kindUint, "long": kindInt, "u_long": kindUint, "bool_t": kindBool,
	"int8_t": kindChar, "uint8_t": kindUchar, "u_int8_t": kindUchar,
	"int16_t": kindShort, "uint16_t": kindUshort, "u_int16_t": kindUshort,
	"int32_t": kindInt, "uint32_t": kindUint, "u_int32_t": kindUint,
	"int64_t": kindHyper, "uint64_t": kindUhyper, "u_int64_t": kindUhyper,
	"quad_t": kindHyper, "u_quad_t": kindUhyper, "longlong_t": kindHyper, "u_longlong_t": kindUhyper,
}

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

// length passes over a word such as long, and over the word int after it.
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
	p.open(def)
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
