package test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The house's limits, in lines.
const (
	maxFile     = 600
	maxFunction = 70
)

// The limits of types in vipl and the packages below it.
const (
	maxFields  = 25
	maxMethods = 60
)

// ofProvider reports whether s is product code of vipl or of a package below it.
func ofProvider(s *source) bool {
	return !s.test && (s.dir == "vipl" || strings.HasPrefix(s.dir, "vipl/internal/"))
}

func TestFileSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxFile {
			t.Errorf("%s has %d lines, more than %d: give each idea its own file", s.name, s.lines, maxFile)
		}
	}
}

// TestTypeSizes: a type of the provider's is about one thing.
func TestTypeSizes(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t) {
		if !ofProvider(s) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if name := receiver(n); name != "" {
					methods[s.dir+"."+name]++
				}
			case *ast.StructType:
				if k := n.Fields.NumFields(); k > maxFields {
					t.Errorf("%v: a struct has %d fields, more than %d", fileSet.Position(n.Pos()), k, maxFields)
				}
			}
			return true
		})
	}
	if methods["vipl.NIC"] == 0 {
		t.Fatal("no methods of vipl.NIC were found")
	}
	for name, k := range methods {
		if k > maxMethods {
			t.Errorf("%s has %d methods, more than %d", name, k, maxMethods)
		}
	}
}

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

func TestFunctionSizes(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			n := fileSet.Position(f.End()).Line - fileSet.Position(f.Pos()).Line + 1
			if n > maxFunction {
				t.Errorf("%v: %s has %d lines, more than %d", fileSet.Position(f.Pos()), f.Name.Name, n, maxFunction)
			}
		}
	}
}

// unfinished matches words that mark work as not done, and paths of the
// machines that it was done on. It is put together so that it does not match
// itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b` +
	`|(?i:\b(st` + `ub(s|bed)?|place` + `holders?|simpli` + `fied|for` + ` now|not( yet)?` + ` implemented)\b)` +
	"|(^|[\\s\"'`(=])/(wo" + `rk|fa` + `rm)/`)

// textual says which files are prose or code.
func textual(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yml", ".yaml", ".sh", ".txt", ".mod":
		return true
	}
	return path.Base(name) == "Makefile" || strings.HasPrefix(name, ".ci/")
}

func TestNothingUnfinished(t *testing.T) {
	err := walk(func(name string) error {
		if !textual(name) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word := unfinished.FindString(line); word != "" {
				t.Errorf("%s:%d: %q in: %s", name, i+1, strings.TrimSpace(word), strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
