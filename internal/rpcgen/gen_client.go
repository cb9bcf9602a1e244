package rpcgen

import "strings"

// client writes the client of a version: a method for each procedure.
func (g *generator) client(v *version, p *program, calls []*call) {
	name := g.scope.pick(v.goName + "Client")
	g.printf("// %s calls the procedures of version %s of program %s. The errors are those of\n", name, v.name, p.name)
	g.printf("// vrpc.Client.Call. Arguments are only read, until a call returns; results are decoded into\n")
	g.printf("// the memory of res. Goroutines may share it.\n")
	g.printf("type %s struct {\n// Client is for %s and %s.\nClient *vrpc.Client\n}\n\n", name, p.goName, v.goName)
	fn := g.scope.pick("New" + name)
	g.printf("// %s returns a client over t; cfg may be nil.\n", fn)
	g.printf("func %s(t vrpc.Transport, cfg *vrpc.ClientConfig) %s {\nreturn %s{vrpc.NewClient(t, %s, %s, cfg)}\n}\n\n", fn, name, name, p.goName, v.goName)
	for _, c := range calls {
		g.clientMethod(name, c)
	}
}

// byPointer reports whether the carried value is already in the caller's memory.
func (k *carrier) byPointer() bool {
	return len(k.decls) == 0 || !k.wrapped && k.decls[0].large()
}

func (g *generator) clientMethod(client string, c *call) {
	signature := c.signature("ctx context.Context")
	space := ""
	if !c.args.byPointer() || !c.result.byPointer() {
		space = g.callSpace(c)
	}
	g.printf("%sfunc (c %s) %s%s {\n", comment("", c.goName+" calls procedure "+c.name+".", c.doc), client, c.goName, signature)
	args, result := "xdr.Void{}", "&xdr.Void{}"
	if len(c.args.decls) == 1 {
		args = c.list[0]
	}
	if len(c.result.decls) == 1 {
		result = "res"
	}
	if space == "" {
		g.printf("return c.Client.Call(ctx, %s, %s, %s)\n}\n\n", c.numberName, args, result)
		return
	}
	g.printf("x := %ss.Get().(*%s)\n", space, space)
	if !c.args.byPointer() {
		args = "&x.args"
		g.printf("x.args = %s\n", c.pack())
	}
	if !c.result.byPointer() {
		result = "&x.res"
	}
	g.printf("err := c.Client.Call(ctx, %s, %s, %s)\n", c.numberName, args, result)
	switch {
	case c.returned():
		d := c.result.decls[0]
		g.printf("var res %s\nif err == nil {\nres = x.res%s\n}\n", d.goType(), c.result.member(d))
	case !c.result.byPointer():
		g.printf("if err == nil {\n*res = x.res%s\n}\n", c.result.member(c.result.decls[0]))
	}
	g.printf("*x = %s{}\n%ss.Put(x)\n", space, space)
	if c.returned() {
		g.printf("return res, err\n}\n\n")
	} else {
		g.printf("return err\n}\n\n")
	}
}

func (k *carrier) member(d *declaration) string {
	if k.wrapped {
		return "." + d.goName
	}
	return ""
}

// pack returns the code that packs the parameters into the carrier of the arguments.
func (c *call) pack() string {
	if !c.args.wrapped {
		return c.list[0]
	}
	var values []string
	for i, d := range c.args.decls {
		if d.large() {
			values = append(values, "*"+c.list[i])
		} else {
			values = append(values, c.list[i])
		}
	}
	return c.args.goType + "{" + strings.Join(values, ", ") + "}"
}

// callSpace writes a type for those values of a call that are not in the caller's memory, and
// returns the type's name. Calls reuse such memory.
func (g *generator) callSpace(c *call) string {
	g.use("sync")
	name := g.scope.pick(c.prefix + "Call")
	g.scope[name+"s"] = true
	g.printf("type %s struct {\n", name)
	if !c.args.byPointer() {
		g.printf("args %s\n", c.args.goType)
	}
	if !c.result.byPointer() {
		g.printf("res %s\n", c.result.goType)
	}
	g.printf("}\n\nvar %ss = sync.Pool{New: func() any { return new(%s) }}\n\n", name, name)
	return name
}
