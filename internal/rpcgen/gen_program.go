package rpcgen

import (
	"fmt"
	"go/constant"
	"strings"
)

// call is a procedure in the generated Go code.
type call struct {
	*procedure
	prefix string // names of version and procedure, with a lower-case first letter
	params names  // parameters of the function that is being written
	list   []string
	args   carrier
	result carrier
}

// carrier is the value that is encoded for the arguments or the result of a procedure.
type carrier struct {
	goType  string         // Go type with the methods that encode it
	decls   []*declaration // the values that it carries
	wrapped bool           // it is a struct of the values, generated for this procedure
}

// version writes the interface for servers, the program for their dispatch table, and the
// client of one version.
func (g *generator) version(p *program, v *version) {
	for _, path := range []string{"context", xdrPath, vrpcPath} {
		g.use(path)
	}
	g.printf("%sconst %s = %s\n\n", comment("", fmt.Sprintf("%s is the number of version %s of program %s.", v.goName, v.name, p.name), v.doc), v.goName, v.number.expr())
	g.procedureNumbers(v)
	methods := taken("Client")
	var calls []*call
	for _, proc := range v.procedures {
		proc.goName = methods.pick(exported(proc.name))
		c := &call{procedure: proc, prefix: lower(proc.numberName)}
		c.args = g.carrier(c.prefix+"Args", proc.args)
		var results []*declaration
		if proc.result != nil {
			proc.result.name = "value"
			results = append(results, proc.result)
		}
		c.result = g.carrier(c.prefix+"Result", results)
		calls = append(calls, c)
	}
	g.server(p, v, calls)
	g.client(v, p, calls)
}

// procedureNumbers writes the constants for the numbers of procedures, whose names are in the
// package's scope.
func (g *generator) procedureNumbers(v *version) {
	g.printf("// The numbers of the procedures of version %s.\nconst (\n", v.name)
	for _, proc := range v.procedures {
		proc.numberName = g.scope.pick(v.goName + exported(proc.name))
		g.printf("%s = %s // %s\n", proc.numberName, proc.number.expr(), proc.name)
	}
	g.printf(")\n\n")
}

// carrier returns the carrier of the declarations: xdr.Void if there are none, the type of a single
// declaration if this type has the methods, or otherwise a struct, which carrier writes.
func (g *generator) carrier(name string, list []*declaration) carrier {
	if len(list) == 0 {
		return carrier{goType: "xdr.Void"}
	}
	if d := list[0]; len(list) == 1 && d.shape == plain && d.typ.kind == kindNamed && d.typ.def.pointer() == nil {
		return carrier{goType: d.typ.def.goName, decls: list}
	}
	name = g.scope.pick(name)
	fields(list)
	g.printf("type %s struct {\n", name)
	for _, d := range list {
		g.printf("%s %s\n", d.goName, d.goType())
	}
	g.printf("}\n\n")
	g.marshal(name)
	g.encodeMembers(list)
	g.printf("}\n\n")
	g.unmarshal(name)
	g.decodeMembers(list)
	g.printf("}\n\n")
	return carrier{goType: name, decls: list, wrapped: true}
}

// returned reports whether the function returns the result, instead of storing it in the caller's
// memory.
func (c *call) returned() bool { return len(c.result.decls) == 1 && !c.result.decls[0].large() }

// signature returns the parameters and results of the procedure's function, after the first one.
func (c *call) signature(first string) string {
	c.params = taken("c", "ctx", "s", "x", "res", "err", "xdr", "vrpc", "context", "sync", "strconv")
	c.list = nil
	text := first
	for _, d := range c.args.decls {
		name := c.params.parameter(d.name)
		c.list = append(c.list, name)
		text += ", " + name + " " + paramType(d)
	}
	switch {
	case c.returned():
		return fmt.Sprintf("(%s) (%s, error)", text, c.result.decls[0].goType())
	case len(c.result.decls) == 1:
		text += ", res *" + c.result.decls[0].goType()
	}
	return fmt.Sprintf("(%s) error", text)
}

func paramType(d *declaration) string {
	if d.large() {
		return "*" + d.goType()
	}
	return d.goType()
}

// null reports whether the procedure is the null procedure, which package vrpc's servers answer.
func (c *call) null() bool {
	return constant.Sign(c.number.known) == 0 && len(c.args.decls) == 0 && len(c.result.decls) == 0
}

// place returns the expression that passes a variable: its address if the value is large.
func (k *carrier) place(variable string, d *declaration) string {
	switch {
	case k.wrapped && d.large():
		return "&" + variable + "." + d.goName
	case k.wrapped:
		return variable + "." + d.goName
	case d.large():
		return variable
	}
	return "*" + variable
}

// server writes the interface and the program.
func (g *generator) server(p *program, v *version, calls []*call) {
	name := g.scope.pick(v.goName + "Server")
	g.printf("// %s has the procedures of version %s of program %s, for a server. They are called by\n", name, v.name, p.name)
	g.printf("// several goroutines at once; vrpc.Procedure says what their errors mean. Arguments are valid\n")
	g.printf("// until the procedure returns; where there is a res, it is a zero value to be filled in.\n")
	g.printf("type %s interface {\n", name)
	for _, c := range calls {
		if c.null() {
			continue
		}
		said := fmt.Sprintf("%s is procedure %s.", c.goName, c.name)
		g.printf("%s%s%s\n", comment("\t", said, c.doc), c.goName, c.signature("c *vrpc.Call"))
	}
	g.printf("}\n\n")
	fn := g.scope.pick(v.goName + "Program")
	g.printf("// %s returns version %s of program %s, carried out by s, for vrpc.Server.Register.\n", fn, v.name, p.name)
	g.printf("func %s(s %s) *vrpc.Program {\nreturn &vrpc.Program{\nNumber: %s, Version: %s, Name: %q,\nProcedures: []vrpc.Procedure{\n", fn, name, p.goName, v.goName, p.name)
	for _, c := range calls {
		if !c.null() {
			g.entry(c)
		}
	}
	g.printf("},\n}\n}\n\n")
}

// entry writes a procedure's line of the dispatch table.
func (g *generator) entry(c *call) {
	direct := len(c.args.decls) == 1 && !c.args.wrapped && c.args.decls[0].large() &&
		len(c.result.decls) == 1 && !c.result.wrapped && c.result.decls[0].large()
	g.printf("vrpc.Proc(%s, %q, ", c.numberName, c.name)
	if direct {
		g.printf("s.%s),\n", c.goName)
		return
	}
	arg, res := "arg", "res"
	if c.args.decls == nil {
		arg = "_"
	}
	if c.result.decls == nil {
		res = "_"
	}
	list := []string{"c"}
	for _, d := range c.args.decls {
		list = append(list, c.args.place("arg", d))
	}
	errResult := "error"
	if c.returned() {
		errResult = "(err error)"
	} else if len(c.result.decls) == 1 {
		list = append(list, c.result.place("res", c.result.decls[0]))
	}
	g.printf("func(c *vrpc.Call, %s *%s, %s *%s) %s {\n", arg, c.args.goType, res, c.result.goType, errResult)
	invoke := fmt.Sprintf("s.%s(%s)", c.goName, strings.Join(list, ", "))
	if c.returned() {
		g.printf("%s, err = %s\nreturn err\n}),\n", c.result.place("res", c.result.decls[0]), invoke)
		return
	}
	g.printf("return %s\n}),\n", invoke)
}
