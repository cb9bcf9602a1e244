package rpcgen

import (
	gotoken "go/token"
	"go/types"
	"strings"
	"unicode"
)

// exported converts a name in a specification to a Go name, by the rules in the package comment. It
// converts both parts of a nested name outer.member.
func exported(name string) string {
	var b strings.Builder
	for _, level := range strings.Split(name, ".") {
		capitals := level == strings.ToUpper(level)
		for _, part := range strings.Split(level, "_") {
			if part == "" {
				continue
			}
			if capitals {
				part = strings.ToLower(part)
			}
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	if s := b.String(); s != "" && !isDigit(s[0]) {
		return s
	}
	return "X" + b.String()
}

// lower returns a Go name with a lower-case first letter.
func lower(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// names are the identifiers of a scope.
type names map[string]bool

// pick returns the name with as many underscores as it needs to be new.
func (n names) pick(name string) string {
	for n[name] {
		name += "_"
	}
	n[name] = true
	return name
}

// taken returns a scope in which the names of list are in use.
func taken(list ...string) names {
	n := names{}
	for _, name := range list {
		n[name] = true
	}
	return n
}

// parameter returns a name for a parameter of a function that differs from those in n.
func (n names) parameter(name string) string {
	name = lower(exported(name))
	if gotoken.IsKeyword(name) || types.Universe.Lookup(name) != nil {
		name += "_"
	}
	return n.pick(name)
}

// assignNames assigns the Go names: first of types, then of constants, then of programs, each in
// the order of the specification.
func (g *generator) assignNames(spec *specification) {
	for _, def := range spec.types {
		def.goName = g.scope.pick(exported(def.name))
		switch def.kind {
		case defTypedef:
			g.scope[g.ptrFunc(def, "marshal")], g.scope[g.ptrFunc(def, "unmarshal")] = true, true
		case defStruct:
			fields(def.members)
		case defUnion:
			fields(def.parts())
		}
	}
	for _, c := range spec.constants {
		c.goName = g.scope.pick(exported(c.name))
	}
	for _, def := range spec.types {
		for _, member := range def.enum {
			member.goName = g.scope.pick(exported(member.name))
		}
	}
	for _, p := range spec.programs {
		p.goName = g.scope.pick(exported(p.name))
		for _, v := range p.versions {
			v.goName = g.scope.pick(exported(v.name))
		}
	}
}

// fields assigns the names of a struct's members. They must differ from the names of its methods.
func fields(list []*declaration) {
	scope := taken("MarshalXDR", "UnmarshalXDR")
	for _, d := range list {
		d.goName = scope.pick(exported(d.name))
	}
}

// comment returns a Go comment with the text said, followed by doc, the comment in the
// specification.
func comment(indent, said, doc string) string {
	var b strings.Builder
	if said != "" {
		b.WriteString(indent + "// " + said + "\n")
	}
	lines := strings.Split(strings.ToValidUTF8(doc, "?"), "\n")
	for i, line := range lines {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == '\uFEFF' {
				return ' '
			}
			return r
		}, line)
		lines[i] = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*"))
	}
	text := strings.Trim(strings.Join(lines, "\n"), "\n")
	if text == "" {
		return b.String()
	}
	if said != "" {
		b.WriteString(indent + "//\n")
	}
	for _, line := range strings.Split(text, "\n") {
		b.WriteString(strings.TrimRight(indent+"// "+line, " ") + "\n")
	}
	return b.String()
}
