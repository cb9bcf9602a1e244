package rpcgen

import (
	"fmt"
)

// Go types for the elementary types, and the methods of package xdr that encode them.
var elementary = map[kind]struct{ goType, method string }{
	kindInt: {"int32", "Int"}, kindUint: {"uint32", "Uint"}, kindHyper: {"int64", "Hyper"}, kindUhyper: {"uint64", "Uhyper"},
	kindFloat: {"float32", "Float"}, kindDouble: {"float64", "Double"}, kindQuadruple: {"xdr.Quadruple", "Quadruple"},
	kindBool: {"bool", "Bool"}, kindChar: {"int8", "Int"}, kindUchar: {"uint8", "Uint"},
	kindShort: {"int16", "Int"}, kindUshort: {"uint16", "Uint"},
}

// wide has the types as which small integers are encoded.
var wide = map[kind]string{kindChar: "int32", kindShort: "int32", kindUchar: "uint32", kindUshort: "uint32"}

// elemType returns the Go type of an element of a declaration.
func (t *typeSpec) elemType() string {
	if t.kind == kindNamed {
		return t.def.goName
	}
	return elementary[t.kind].goType
}

// goType returns the Go type of the declaration.
func (d *declaration) goType() string {
	switch {
	case d.typ.kind == kindString:
		return "string"
	case d.typ.kind == kindOpaque && d.shape == fixed:
		return "[" + d.size.expr() + "]byte"
	case d.typ.kind == kindOpaque:
		return "[]byte"
	}
	elem := d.typ.elemType()
	switch d.shape {
	case fixed:
		return "[" + d.size.expr() + "]" + elem
	case counted:
		return "[]" + elem
	case optional:
		return "*" + elem
	}
	return elem
}

// large reports whether values of the declaration are passed by pointer: structs, unions, arrays of
// a fixed length and quadruples.
func (d *declaration) large() bool {
	if d.shape != plain {
		return d.shape == fixed
	}
	k, def := d.typ.base()
	switch {
	case def == nil:
		return k == kindQuadruple
	case def.kind == defTypedef:
		return def.decl.shape == fixed
	}
	return def.kind != defEnum
}

// alias reports whether the definition is a Go alias: a defined pointer type cannot have methods,
// and a defined type would not inherit the methods of another.
func (def *definition) alias() bool {
	return def.kind == defTypedef && (def.decl.shape == optional || def.decl.shape == plain && def.decl.typ.kind == kindNamed)
}

// pointer returns the typedef of optional data for which the definition is another name, or nil.
// The values of such a typedef have no methods.
func (def *definition) pointer() *definition {
	for def.kind == defTypedef && def.decl.shape == plain && def.decl.typ.kind == kindNamed {
		def = def.decl.typ.def
	}
	if def.kind == defTypedef && def.decl.shape == optional {
		return def
	}
	return nil
}

// head writes the comment of a type.
func (g *generator) head(def *definition) {
	g.use(xdrPath)
	said := fmt.Sprintf("%s is %v %s.", def.goName, def.kind, def.name)
	if def.nested {
		said = fmt.Sprintf("%s is the %v that %s is declared with.", def.goName, def.kind, def.name)
	}
	g.printf("%s", comment("", said, def.doc))
}

// marshal writes the beginning of a method that encodes or decodes.
func (g *generator) marshal(goName string) {
	g.printf("// MarshalXDR encodes v.\nfunc (v *%s) MarshalXDR(e *xdr.Encoder) {\n", goName)
}

func (g *generator) unmarshal(goName string) {
	g.printf("// UnmarshalXDR decodes v.\nfunc (v *%s) UnmarshalXDR(d *xdr.Decoder) {\n", goName)
}

// enum writes an enumeration.
func (g *generator) enum(def *definition) {
	g.head(def)
	g.printf("type %s int32\n\n// The values of %s.\nconst (\n", def.goName, def.goName)
	for _, m := range def.enum {
		g.printf("%s%s %s = %s // %s\n", comment("", "", m.doc), m.goName, def.goName, m.known.ExactString(), m.name)
	}
	g.printf(")\n\n")
	valid, texts := g.scope.pick("valid"+def.goName), g.scope.pick("names"+def.goName)
	values := def.values()
	g.printf("var %s = map[%s]string{\n", texts, def.goName)
	for _, m := range values {
		g.printf("%s: %q,\n", m.goName, m.name)
	}
	g.use("strconv")
	g.printf(`}

// String returns the name of the value, or its number.
func (v %s) String() string {
	if name, ok := %s[v]; ok {
		return name
	}
	return "%s(" + strconv.Itoa(int(v)) + ")"
}

func %s(v int32) bool {
	switch %s(v) {
	case `, def.goName, texts, def.name, valid, def.goName)
	for i, m := range values {
		switch {
		case i > 0 && i%4 == 0:
			g.printf(",\n")
		case i > 0:
			g.printf(", ")
		}
		g.printf("%s", m.goName)
	}
	g.printf(":\nreturn true\n}\nreturn false\n}\n\n")
	g.marshal(def.goName)
	g.printf("e.Enum(%q, int32(*v), %s)\n}\n\n", "enum "+def.name, valid)
	g.unmarshal(def.goName)
	g.printf("*v = %s(d.Enum(%q, %s))\n}\n\n", def.goName, "enum "+def.name, valid)
}

// values returns the first name of each value of an enumeration.
func (def *definition) values() (list []*constantDef) {
	for _, m := range def.enum {
		if def.member(m.known) == m {
			list = append(list, m)
		}
	}
	return list
}

// typedef writes the type for a typedef.
func (g *generator) typedef(def *definition) {
	g.head(def)
	if !def.alias() {
		g.printf("type %s %s\n\n", def.goName, def.decl.goType())
		g.marshal(def.goName)
		g.printf("%s}\n\n", g.encode(def.decl, "*v", true))
		g.unmarshal(def.goName)
		g.printf("%s}\n\n", g.decode(def.decl, "*v", "*v", def.goName))
		return
	}
	g.printf("type %s = %s\n\n", def.goName, def.decl.goType())
	if def.decl.shape == optional {
		g.printf("func %s(v *%s, e *xdr.Encoder) {\n%s}\n\n", g.ptrFunc(def, "marshal"), def.goName, g.encode(def.decl, "*v", false))
		g.printf("func %s(v *%s, d *xdr.Decoder) {\n%s}\n\n", g.ptrFunc(def, "unmarshal"), def.goName, g.decode(def.decl, "*v", "*v", ""))
	}
}

// ptrFunc returns the function that encodes or decodes values of a typedef of optional data.
// assignNames has kept the name for it.
func (g *generator) ptrFunc(def *definition, verb string) string {
	return verb + def.goName
}

// structType writes a struct.
func (g *generator) structType(def *definition) {
	g.head(def)
	g.printf("type %s struct {\n", def.goName)
	for _, d := range def.members {
		g.printf("%s%s %s\n", comment("\t", "", d.doc), d.goName, d.goType())
	}
	g.printf("}\n\n")
	if def.isList() {
		g.list(def)
		return
	}
	g.marshal(def.goName)
	g.encodeMembers(def.members)
	g.printf("}\n\n")
	g.unmarshal(def.goName)
	g.decodeMembers(def.members)
	g.printf("}\n\n")
}

func (g *generator) encodeMembers(list []*declaration) {
	for _, d := range list {
		g.printf("%s", g.encode(d, "v."+d.goName, false))
	}
}

func (g *generator) decodeMembers(list []*declaration) {
	for _, d := range list {
		g.printf("%s", g.decode(d, "v."+d.goName, "v."+d.goName, ""))
	}
}

// isList reports whether the last member is the link to another struct of the same type.
func (def *definition) isList() bool {
	last := def.members[len(def.members)-1]
	if last.shape == optional {
		_, to := last.typ.base()
		return to == def
	}
	if last.shape != plain || last.typ.def == nil {
		return false
	}
	p := last.typ.def.pointer()
	if p == nil {
		return false
	}
	_, to := p.decl.typ.base()
	return to == def
}

// list writes the methods of an element of a linked list. They process the list in a loop, because
// it may be longer than the maximum depth of nested types.
func (g *generator) list(def *definition) {
	n := def.goName
	item := []string{g.scope.pick("encode" + n), g.scope.pick("decode" + n), g.scope.pick("link" + n)}
	last := len(def.members) - 1
	g.marshal(n)
	g.printf("xdr.EncodeList(e, v, %s, %s)\n}\n\n", item[0], item[2])
	g.unmarshal(n)
	g.printf("xdr.DecodeList(d, v, %d, %s, %s)\n}\n\n", def.least, item[1], item[2])
	v, e, d := "v", "e", "d"
	if last == 0 { // the struct has no other member than the link
		v, e, d = "_", "_", "_"
	}
	g.printf("func %s(%s *%s, %s *xdr.Encoder) {\n", item[0], v, n, e)
	g.encodeMembers(def.members[:last])
	g.printf("}\n\nfunc %s(%s *%s, %s *xdr.Decoder) {\n", item[1], v, n, d)
	g.decodeMembers(def.members[:last])
	g.printf("}\n\nfunc %s(v *%s) **%s { return &v.%s }\n\n", item[2], n, n, def.members[last].goName)
}
