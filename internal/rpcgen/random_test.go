package rpcgen_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen"
	"github.com/bobnet-go/bobnet/internal/seedtest"
)

var seeds = seedtest.Flags("internal/rpcgen", 5).Each

// TestRandomSpecifications: of any specification comes Go that compiles, however its names
// collide.
func TestRandomSpecifications(t *testing.T) {
	conf := types.Config{Importer: importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))}
	seeds(t, 300, func(seed uint64) error {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 2)), used: map[string]bool{}}
		src := w.specification()
		out, err := rpcgen.Generate("t.x", []byte(src), rpcgen.Options{Package: "p"})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, src)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "t_xdr.go", out, 0)
		if err == nil {
			_, err = conf.Check("p", fset, []*ast.File{file}, nil)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s\n%s", err, src, out)
		}
		return nil
	})
}

// exportData returns the function that finds what the compiler exports of the packages that
// generated code imports.
func exportData(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	const vmmc = "github.com/bobnet-go/bobnet/vmmc/"
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", vmmc + "xdr", vmmc + "vrpc", "context", "strconv", "sync"}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
	where := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		where[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(where[path]) }
}

// writer writes random specifications, whose names are chosen to collide.
type writer struct {
	*rand.Rand
	used      map[string]bool // of the one name space
	types     []string
	constants []string
	self      string     // the union that is being written, whose arms may be of its type
	discs     [][]string // types that can switch a union, each with the values that it can have
}

var words = strings.Fields(`foo FOO Foo foo_bar FOO_BAR fooBar bar x X v e d p xdr vrpc type func range MarshalXDR
	value client Server res ctx err args arg int32 valid names a1 _1 __ nil error c s old context sync strconv`)

var suffixes = strings.Fields("_args _ARGS 1 2 _call Client _server _program _ _elem _result")

func (w *writer) pick(list []string) string { return list[w.IntN(len(list))] }

func (w *writer) chance(percent int) bool { return w.IntN(100) < percent }

// fresh returns a name that is not used in the scope.
func (w *writer) fresh(scope map[string]bool) string {
	for {
		name := w.pick(words)
		if w.chance(50) {
			name += w.pick(suffixes)
		}
		if !scope[name] {
			scope[name] = true
			return name
		}
	}
}

func (w *writer) specification() string {
	var b strings.Builder
	for range 3 + w.IntN(12) {
		b.WriteString(w.definition() + "\n")
	}
	fmt.Fprintf(&b, "program %s {\n", w.fresh(w.used))
	scope := map[string]bool{}
	for v := range 1 + w.IntN(2) {
		fmt.Fprintf(&b, "version %s { void NUL(void) = 0;\n", w.fresh(scope))
		procedures := map[string]bool{}
		for p := range w.IntN(7) {
			fmt.Fprintf(&b, "%s = %d;\n", w.procedure(procedures), p+1)
		}
		fmt.Fprintf(&b, "} = %d;\n", v+1)
	}
	return b.String() + "} = 7;\n"
}

func (w *writer) procedure(scope map[string]bool) string {
	result, name := w.parameter(), w.fresh(scope)
	var args []string
	inner, named := map[string]bool{}, w.chance(50)
	for range w.IntN(5) {
		arg := w.parameter()
		if named {
			arg += " " + w.fresh(inner)
		}
		args = append(args, arg)
	}
	if w.chance(20) {
		result = "void"
	}
	return fmt.Sprintf("%s %s(%s)", result, name, strings.Join(args, ", "))
}

func (w *writer) parameter() string {
	if w.chance(15) {
		return "string"
	}
	t := w.elementary()
	if len(w.types) > 0 && w.chance(60) {
		t = w.pick(w.types)
	}
	if w.chance(20) {
		t += " *"
	}
	return t
}

func (w *writer) definition() string {
	name := w.fresh(w.used)
	switch n := w.IntN(10); {
	case n < 1:
		w.constants = append(w.constants, name)
		return fmt.Sprintf("const %s = %s;", name, w.pick([]string{"5", "0x10", "017"}))
	case n < 2:
		values := []string{w.fresh(w.used), w.fresh(w.used), w.fresh(w.used)}
		w.types, w.discs = append(w.types, name), append(w.discs, append([]string{name}, values...))
		third := "-4"
		if w.chance(30) { // another name of the first one's value
			third = "1"
			w.discs[len(w.discs)-1] = append([]string{name}, values[:2]...)
		}
		return fmt.Sprintf("enum %s { %s = 1, %s, %s = %s };", name, values[0], values[1], values[2], third)
	case n < 5:
		link := ""
		scope := map[string]bool{}
		body := w.members(scope, 0)
		if w.chance(60) {
			link = fmt.Sprintf(w.pick([]string{"%s *%s;", "%s %s<>;"}), name, w.fresh(scope))
		}
		w.types = append(w.types, name)
		return fmt.Sprintf("struct %s { %s %s };", name, body, link)
	case n < 7:
		w.self = name
		text := fmt.Sprintf("union %s %s;", name, w.union(0))
		w.self = ""
		w.types = append(w.types, name)
		return text
	}
	text := "typedef " + w.declaration(name, 0) + ";"
	w.types = append(w.types, name)
	if text == "typedef bool "+name+";" {
		w.discs = append(w.discs, []string{name, "TRUE", "FALSE"})
	}
	return text
}

func (w *writer) members(scope map[string]bool, depth int) string {
	text := ""
	for range 1 + w.IntN(5) {
		text += w.declaration(w.fresh(scope), depth) + "; "
	}
	return text
}

func (w *writer) elementary() string {
	return w.pick([]string{"int", "unsigned int", "hyper", "unsigned hyper", "float", "double", "quadruple", "bool",
		"short", "unsigned short", "char", "u_char", "long", "u_long", "int8_t", "uint64_t"})
}

func (w *writer) size() string {
	if len(w.constants) > 0 && w.chance(40) {
		return w.pick(w.constants)
	}
	return w.pick([]string{"1", "3", "0x4", "07"})
}

func (w *writer) declaration(name string, depth int) string {
	bound := w.pick([]string{"", w.size()})
	switch w.IntN(12) {
	case 0:
		return fmt.Sprintf("opaque %s[%s]", name, w.size())
	case 1:
		return fmt.Sprintf("opaque %s<%s>", name, bound)
	case 2:
		return fmt.Sprintf("string %s<%s>", name, bound)
	}
	t := w.typeOf(depth)
	switch w.IntN(7) {
	case 0:
		return fmt.Sprintf("%s %s[%s]", t, name, w.size())
	case 1:
		return fmt.Sprintf("%s %s<%s>", t, name, bound)
	case 2:
		return fmt.Sprintf("%s *%s", t, name)
	}
	return t + " " + name
}

func (w *writer) typeOf(depth int) string {
	n := w.IntN(10)
	switch {
	case depth < 3 && n == 0:
		return "struct { " + w.members(map[string]bool{}, depth+1) + "}"
	case depth < 3 && n == 1:
		return "union " + w.union(depth+1)
	case n == 2:
		return fmt.Sprintf("enum { %s, %s = 5 }", w.fresh(w.used), w.fresh(w.used))
	case n < 7 && len(w.types) > 0:
		return w.pick(w.types)
	}
	return w.elementary()
}

func (w *writer) union(depth int) string {
	disc := [][]string{{"int", "1", "-3", "0x7"}, {"unsigned", "0", "4294967295"}, {"bool", "TRUE", "FALSE"},
		{"char", "'a'", "3"}, {"short", "-2", "7"}, {"u_char", "255", "1"}}[w.IntN(6)]
	if len(w.discs) > 0 && w.chance(50) {
		disc = w.discs[w.IntN(len(w.discs))]
	}
	scope := map[string]bool{}
	text := fmt.Sprintf("switch (%s %s) { ", disc[0], w.fresh(map[string]bool{})) // an arm may have that name
	recursive := false
	arm := func() {
		if w.chance(40) {
			text += "void; "
			return
		}
		if w.self != "" && w.chance(30) {
			recursive = true
			form := w.pick([]string{"%s %s; ", "%s %s[2]; ", "struct { int a; %s b; } %s; "})
			text += fmt.Sprintf(form, w.self, w.fresh(scope))
			return
		}
		text += w.declaration(w.fresh(scope), depth) + "; "
	}
	for i, v := range disc[1 : 2+w.IntN(len(disc)-1)] {
		if text += "case " + v + ": "; i == len(disc)-2 || w.chance(60) {
			arm()
		}
	}
	if strings.HasSuffix(text, ": ") {
		arm()
	}
	switch {
	case recursive: // its values have to end
		text += "default: void; "
	case w.chance(50):
		text += "default: "
		arm()
	}
	return text + "}"
}
