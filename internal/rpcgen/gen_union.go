package rpcgen

import (
	"fmt"
	"go/constant"
	"strings"
)

// union writes the type of a discriminated union: a struct of the discriminant and all arms, of
// which one is in use.
func (g *generator) union(def *definition) {
	g.head(def)
	u := def.union
	disc := u.disc
	g.printf("type %s struct {\n%s%s %s // selects one of:\n", def.goName, comment("\t", "", disc.doc), disc.goName, disc.goType())
	for _, a := range u.all() {
		if a.decl != nil {
			g.printf("%s%s %s // %s\n", comment("\t", "", a.decl.doc), a.decl.goName, a.goType(), a.label())
		}
	}
	g.printf("}\n\n")
	g.marshal(def.goName)
	g.printf("%s", g.encode(disc, "v."+disc.goName, false))
	g.arms(def, "e", func(a *arm) { g.encodeArm(def, a) })
	g.printf("}\n\n")
	g.unmarshal(def.goName)
	if u.reuses() {
		g.printf("old := *v\n")
	}
	g.printf("*v = %s{}\n%s", def.goName, g.decode(disc, "v."+disc.goName, "", ""))
	g.arms(def, "d", func(a *arm) { g.decodeArm(def, a) })
	g.printf("}\n\n")
}

// goType returns the type of the field for an arm.
func (a *arm) goType() string {
	if a.decl.large() {
		return "*" + a.decl.goType()
	}
	return a.decl.goType()
}

// label names the cases that select the arm.
func (a *arm) label() string {
	if a.cases == nil {
		return "default"
	}
	var list []string
	for _, v := range a.cases {
		list = append(list, v.text)
	}
	return "case " + strings.Join(list, ", ")
}

// reuses reports whether some arm can be decoded into the memory of its last value.
func (u *unionBody) reuses() bool {
	for _, a := range u.all() {
		if a.decl != nil && (a.decl.large() || a.decl.reuses()) {
			return true
		}
	}
	return false
}

// reuses reports whether decode uses its argument old.
func (d *declaration) reuses() bool {
	return d.typ.kind != kindString && (d.shape == counted || d.shape == optional)
}

// arms writes the switch over the arms. coder is the variable e or d, to which the generated code
// reports a discriminant without an arm.
func (g *generator) arms(def *definition, coder string, write func(*arm)) {
	u := def.union
	kind, of := u.disc.typ.base()
	missing, exhaustive := 0, kind == kindBool && of == nil
	g.printf("switch v.%s {\n", u.disc.goName)
	seen := map[int64]bool{}
	for _, a := range u.arms {
		g.printf("case ")
		for i, v := range a.cases {
			if i > 0 {
				g.printf(", ")
			}
			n, _ := constant.Int64Val(v.known)
			seen[n] = true
			g.printf("%s", caseExpr(v, kind, of))
		}
		g.printf(":\n")
		write(a)
	}
	if exhaustive && seen[0] {
		missing = 1
	}
	what := fmt.Sprintf("%q", "union "+def.name)
	switch {
	case u.fallback != nil:
		g.printf("default:\n")
		write(u.fallback)
	case exhaustive && len(seen) == 2:
	case exhaustive:
		g.printf("default:\n%s.NoArm(%s, %d)\n", coder, what, missing)
	default:
		g.printf("default:\n%s.NoArm(%s, int64(v.%s))\n", coder, what, u.disc.goName)
	}
	g.printf("}\n")
}

// caseExpr returns the Go expression for the value of a case.
func caseExpr(v *value, k kind, of *definition) string {
	if of != nil && of.kind == defEnum {
		return of.member(v.known).goName
	}
	if k == kindBool {
		return fmt.Sprint(constant.Sign(v.known) != 0)
	}
	return v.expr()
}

// label names an arm in errors.
func (def *definition) label(a *arm) string { return "union " + def.name + ", " + a.decl.name }

func (g *generator) encodeArm(def *definition, a *arm) {
	if a.decl == nil {
		return
	}
	expr := "v." + a.decl.goName
	if !a.decl.large() {
		g.printf("%s", g.encode(a.decl, expr, false))
		return
	}
	g.printf("if %s == nil {\ne.Nil(%q)\nreturn\n}\n", expr, def.label(a))
	enter, leave := def.nesting(a, "e")
	g.printf("%s%s%s", enter, g.encode(a.decl, a.deref(expr), false), leave)
}

// nesting returns the statements around the code for a large arm of a union that contains itself.
// They limit the depth of recursion.
func (def *definition) nesting(a *arm, coder string) (enter, leave string) {
	if !def.recursive {
		return "", ""
	}
	return fmt.Sprintf("if !%s.Enter(%q) {\nreturn\n}\n", coder, def.label(a)), coder + ".Leave()\n"
}

// deref returns the expression of the value to which the field of a large arm points.
func (a *arm) deref(expr string) string {
	if a.decl.shape == plain && a.decl.typ.kind == kindNamed {
		return expr // Go dereferences the pointer of a method call
	}
	if a.decl.shape == fixed {
		return expr // Go dereferences the pointer of a slice expression
	}
	return "*" + expr
}

func (g *generator) decodeArm(def *definition, a *arm) {
	if a.decl == nil {
		return
	}
	expr, old := "v."+a.decl.goName, "old."+a.decl.goName
	if !a.decl.large() {
		g.printf("%s", g.decode(a.decl, expr, old, ""))
		return
	}
	enter, leave := def.nesting(a, "d")
	g.printf("%s", enter)
	g.printf("if !d.Need(%q, %d) {\nreturn\n}\n", def.label(a), a.decl.least())
	g.printf("if %s = %s; %s == nil {\n%s = new(%s)\n}\n", expr, old, expr, expr, a.decl.goType())
	g.printf("%s%s", g.decode(a.decl, a.deref(expr), "", ""), leave)
}
