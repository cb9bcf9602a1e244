package rpcgen

import (
	"fmt"
)

// encode returns the statement that encodes a declared value. The expression has the declaration's
// Go type or, if named is true, a type that is defined as this type.
func (g *generator) encode(d *declaration, expr string, named bool) string {
	switch {
	case d.typ.kind == kindString:
		if named {
			expr = "string(" + expr + ")"
		}
		return fmt.Sprintf("e.String(%s, %s)\n", expr, g.bound(d))
	case d.typ.kind == kindOpaque && d.shape == fixed:
		return fmt.Sprintf("e.FixedOpaque(%s[:])\n", array(expr))
	case d.typ.kind == kindOpaque:
		return fmt.Sprintf("e.Opaque(%s, %s)\n", expr, g.bound(d))
	}
	switch d.shape {
	case fixed:
		return fmt.Sprintf("xdr.EncodeFixedArray(e, %s[:], %s)\n", array(expr), g.encoder(&d.typ))
	case counted:
		return fmt.Sprintf("xdr.EncodeArray(e, %s, %s, %s)\n", expr, g.bound(d), g.encoder(&d.typ))
	case optional:
		return fmt.Sprintf("xdr.EncodeOptional(e, %s, %s)\n", expr, g.encoder(&d.typ))
	}
	return g.encodeType(&d.typ, expr, named) + "\n"
}

// array returns the expression of an array that can be sliced. Go slices a pointer to an array
// without a dereference.
func array(expr string) string {
	if expr == "*v" {
		return "v"
	}
	return expr
}

func (g *generator) encodeType(t *typeSpec, expr string, named bool) string {
	if t.kind == kindNamed {
		if p := t.def.pointer(); p != nil {
			return fmt.Sprintf("%s(&%s, e)", g.ptrFunc(p, "marshal"), expr)
		}
		return expr + ".MarshalXDR(e)"
	}
	info := elementary[t.kind]
	switch to := wide[t.kind]; {
	case to != "":
		expr = to + "(" + expr + ")"
	case named:
		expr = info.goType + "(" + expr + ")"
	}
	return fmt.Sprintf("e.%s(%s)", info.method, expr)
}

// encoder returns the function that encodes an element.
func (g *generator) encoder(t *typeSpec) string {
	if t.kind == kindNamed {
		if p := t.def.pointer(); p != nil {
			return g.ptrFunc(p, "marshal")
		}
		return "(*" + t.def.goName + ").MarshalXDR"
	}
	return fmt.Sprintf("func(p *%s, e *xdr.Encoder) { %s }", t.elemType(), g.encodeType(t, "*p", false))
}

// decode returns the statement that decodes a declared value into the expression, and reuses the
// memory of old. named is the name of the type if it is defined as that of the declaration, else
// empty.
func (g *generator) decode(d *declaration, expr, old, named string) string {
	switch {
	case d.typ.kind == kindString:
		return fmt.Sprintf("%s = %s\n", expr, convert(named, "d.String("+g.bound(d)+")"))
	case d.typ.kind == kindOpaque && d.shape == fixed:
		return fmt.Sprintf("d.FixedOpaque(%s[:])\n", array(expr))
	case d.typ.kind == kindOpaque:
		return fmt.Sprintf("%s = d.Opaque(%s, %s)\n", expr, old, g.bound(d))
	}
	switch d.shape {
	case fixed:
		return fmt.Sprintf("xdr.DecodeFixedArray(d, %s[:], %s)\n", array(expr), g.decoder(&d.typ))
	case counted:
		return fmt.Sprintf("%s = xdr.DecodeArray(d, %s, %s, %d, %s)\n", expr, old, g.bound(d), g.least(&d.typ), g.decoder(&d.typ))
	case optional:
		return fmt.Sprintf("%s = xdr.DecodeOptional(d, %s, %d, %s)\n", expr, old, g.least(&d.typ), g.decoder(&d.typ))
	}
	return g.decodeType(&d.typ, expr, named) + "\n"
}

func convert(to, expr string) string {
	if to == "" {
		return expr
	}
	return to + "(" + expr + ")"
}

func (g *generator) decodeType(t *typeSpec, expr, named string) string {
	if t.kind == kindNamed {
		if p := t.def.pointer(); p != nil {
			return fmt.Sprintf("%s(&%s, d)", g.ptrFunc(p, "unmarshal"), expr)
		}
		return expr + ".UnmarshalXDR(d)"
	}
	info := elementary[t.kind]
	value := "d." + info.method + "()"
	if wide[t.kind] != "" {
		value = fmt.Sprintf("d.Enum(%q, %s)", info.goType, g.narrowCheck(t.kind))
		if named == "" {
			named = info.goType
		}
	}
	return expr + " = " + convert(named, value)
}

// decoder returns the function that decodes an element.
func (g *generator) decoder(t *typeSpec) string {
	if t.kind == kindNamed {
		if p := t.def.pointer(); p != nil {
			return g.ptrFunc(p, "unmarshal")
		}
		return "(*" + t.def.goName + ").UnmarshalXDR"
	}
	return fmt.Sprintf("func(p *%s, d *xdr.Decoder) { %s }", t.elemType(), g.decodeType(t, "*p", ""))
}

// least returns the size of the smallest encoding of an element in bytes.
func (g *generator) least(t *typeSpec) int64 {
	return t.least()
}

// narrowCheck returns the function that reports whether a number fits in a small integer.
func (g *generator) narrowCheck(k kind) string {
	if g.narrow == nil {
		g.narrow = map[kind]string{}
	}
	if g.narrow[k] == "" {
		g.narrow[k] = g.scope.pick("fits" + exported(elementary[k].goType))
	}
	return g.narrow[k]
}

func (g *generator) narrowChecks() {
	for _, k := range []kind{kindChar, kindUchar, kindShort, kindUshort} {
		if name := g.narrow[k]; name != "" {
			g.printf("func %s(v int32) bool { return v == int32(%s(v)) }\n\n", name, elementary[k].goType)
		}
	}
}
