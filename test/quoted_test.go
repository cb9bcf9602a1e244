package test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goTest matches a call of go test that names what to run. Its quotation marks are
// those of a shell.
var goTest = regexp.MustCompile("go test( [^`\n]*?)? -(run|bench|fuzz)[ =][^`\n]*")

// TestQuotedRuns: the tests and benchmarks that the documents tell to run exist.
// go test itself says PASS when there is none of such a name.
func TestQuotedRuns(t *testing.T) {
	quoted := 0
	err := walk(func(name string) error {
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for _, command := range goTest.FindAllString(string(text), -1) {
			quoted++
			checkRun(t, name, command)
		}
		return nil
	})
	if err != nil || quoted == 0 {
		t.Errorf("%d commands in the documents name what to run: %v", quoted, err)
	}
}

// checkRun compares what one command names with the functions of its packages.
func checkRun(t *testing.T, document, command string) {
	t.Helper()
	kinds := map[string][]string{"-run": {"Test", "Example", "Fuzz"}, "-bench": {"Benchmark"}, "-fuzz": {"Fuzz"}}
	words := strings.Fields(strings.NewReplacer("'", "", `"`, "", "=", " ").Replace(command))
	var dirs []string
	for _, word := range words {
		if dir, ok := strings.CutPrefix(word, "./"); ok {
			dirs = append(dirs, dir)
		}
	}
	for i, word := range words[:len(words)-1] {
		kind, pattern := kinds[word], words[i+1]
		if kind == nil || pattern == "^$" {
			continue
		}
		top, _, _ := strings.Cut(pattern, "/") // what follows names a test within a test
		want, err := regexp.Compile(top)
		if err != nil {
			t.Errorf("%s: %q: %v", document, command, err)
		} else if !someTest(t, dirs, kind, want) {
			t.Errorf("%s: %q: the packages %v have no %v whose name matches %q", document, command, dirs, kind, top)
		}
	}
}

// someTest reports whether one of the packages has a test function of these kinds
// with such a name.
func someTest(t *testing.T, dirs, kinds []string, want *regexp.Regexp) bool {
	for _, s := range sources(t) {
		if !s.test || !inPackages(s.dir, dirs) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			for _, kind := range kinds {
				if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, kind) && want.MatchString(f.Name.Name) {
					return true
				}
			}
		}
	}
	return false
}

// inPackages reports whether one of the patterns of go test, without "./", means
// the package.
func inPackages(dir string, patterns []string) bool {
	for _, p := range patterns {
		below, all := strings.CutSuffix(p, "...")
		if dir == strings.TrimSuffix(p, "/") || all && strings.HasPrefix(dir+"/", below) {
			return true
		}
	}
	return false
}
