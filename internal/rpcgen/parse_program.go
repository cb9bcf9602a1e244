package rpcgen

import (
	"fmt"
	"go/constant"
	"strconv"
)

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
