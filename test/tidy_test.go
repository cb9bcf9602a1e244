package test

import (
	"go/ast"
	"testing"
)

// receiver returns the name of the type of which f is a method, or "".
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// A test that sleeps is slow on a fast machine and wrong on a slow one.
func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, use := range s.qualified("time", "Sleep") {
			t.Errorf("%v: wait for the event itself, with a deadline", fileSet.Position(use.Pos()))
		}
	}
}

func TestDocComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.file.Doc != nil && !s.test {
			documented[s.dir] = true
		}
		if s.test || s.file.Name.Name == "main" {
			continue // nobody imports these
		}
		for _, d := range s.file.Decls {
			undocumented(d, func(name string, n ast.Node) {
				t.Errorf("%v: %s has no doc comment", fileSet.Position(n.Pos()), name)
			})
		}
	}
	for dir := range packages(t) {
		if !documented[dir] {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// undocumented reports the exported names that d declares without a comment. A
// comment on a group of constants or variables does for all in it.
func undocumented(d ast.Decl, report func(name string, n ast.Node)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !wellKnown[d.Name.Name] {
			report(d.Name.Name, d)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					report(spec.Name.Name, spec)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						report(name.Name, spec)
					}
				}
			}
		}
	}
}

// wellKnown methods mean the same everywhere.
var wellKnown = map[string]bool{"Error": true, "Unwrap": true, "String": true}

// exportedReceiver reports whether f is a function, or a method of an exported
// type.
func exportedReceiver(f *ast.FuncDecl) bool {
	name := receiver(f)
	return name == "" || ast.IsExported(name)
}
