package test

import (
	"bufio"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the module's directory, seen from this package.
const root = ".."

const modulePath = "github.com/bobnet-go/bobnet"

// source is one parsed Go file of the module.
type source struct {
	name string // relative to the module, with slashes
	dir  string // its package's directory, likewise
	test bool   // _test.go
	file *ast.File
}

// imports returns the import paths of s.
func (s *source) imports() []string {
	var all []string
	for _, spec := range s.file.Imports {
		all = append(all, strings.Trim(spec.Path.Value, `"`))
	}
	return all
}

// qualified reports where s uses pkg.name, for example time.Sleep. It follows
// a renamed import.
func (s *source) qualified(pkg string, names ...string) []*ast.SelectorExpr {
	local := ""
	for _, spec := range s.file.Imports {
		if strings.Trim(spec.Path.Value, `"`) != pkg {
			continue
		}
		local = path.Base(strings.TrimSuffix(pkg, "/v2"))
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	var found []*ast.SelectorExpr
	if local == "" {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				for _, name := range names {
					if sel.Sel.Name == name {
						found = append(found, sel)
					}
				}
			}
		}
		return true
	})
	return found
}

var fileSet = token.NewFileSet()

// module parses every Go file of the module, once for all tests.
var module = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	err := walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fileSet, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, &source{
			name: name,
			dir:  path.Dir(name),
			test: strings.HasSuffix(name, "_test.go"),
			file: file,
		})
		return nil
	})
	if len(all) == 0 && err == nil {
		err = errors.New("the module has no Go files: is the test run in its own directory?")
	}
	return all, err
})

// tracked returns the names of the files that git knows, relative to the module, or
// nil where git does not tell: in a source archive, say.
var tracked = sync.OnceValue(func() map[string]bool { return trackedIn(root) })

func trackedIn(dir string) map[string]bool {
	out, err := exec.Command("git", "-C", dir, "ls-files", "-z").Output()
	if err != nil || len(out) == 0 {
		return nil
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		names[name] = true
	}
	return names
}

// walk calls visit with every file of the module that is kept under version
// control, by name relative to it: what a newcomer tries out in a folder beside
// the rooms is no part of the house.
func walk(visit func(name string) error) error { return walkIn(root, tracked(), visit) }

func walkIn(root string, known map[string]bool, visit func(name string) error) error {
	skip := map[string]bool{".git": true, "out": true, "testdata": true}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && skip[d.Name()] {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			name, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			if name = filepath.ToSlash(name); known == nil || known[name] {
				return visit(name)
			}
		}
		return nil
	})
}

// TestWalkVisitsTracked: a program in a folder of its own is not looked at, one that
// git knows is; without git all are.
func TestWalkVisitsTracked(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"known.go", "prog/main.go"} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte("package main\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	visited := func() (names []string) {
		if err := walkIn(dir, trackedIn(dir), func(name string) error { names = append(names, name); return nil }); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got, want := visited(), []string{"known.go", "prog/main.go"}; !slices.Equal(got, want) {
		t.Errorf("without git it visits %q, want %q", got, want)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "known.go"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if got, want := visited(), []string{"known.go"}; !slices.Equal(got, want) {
		t.Errorf("it visits %q, want %q", got, want)
	}
}

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := module()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// packages returns the directories that hold Go files other than tests.
func packages(t *testing.T) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			dirs[s.dir] = true
		}
	}
	return dirs
}

// requirements returns the modules that go.mod requires directly, and its tools.
func requirements(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	block := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == ")":
			block = false
		case len(words) == 2 && words[0] == "require" && words[1] == "(":
			block = true
		case words[0] == "tool":
			all = append(all, words[1])
		case words[0] == "require" && !strings.Contains(lines.Text(), "// indirect"):
			all = append(all, words[1])
		case block && !strings.Contains(lines.Text(), "// indirect"):
			all = append(all, words[0])
		}
	}
	return all
}

func readRoot(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
