package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completed returns the values that a shell offers after some words, and the directive for the shell.
func completed(t *testing.T, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, diagnosis bytes.Buffer
	root := newRootCmd()
	root.SetOut(&out)
	root.SetErr(&diagnosis)
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
	if err := root.Execute(); err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// TestCompletions: for each flag with a fixed set of values a shell offers all of these, and help
// names them; no help names such a set of a flag that offers none.
func TestCompletions(t *testing.T) {
	sets := map[string][]string{}
	allFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		if value, ok := flag.Value.(hinted); ok && value.hints().words != nil {
			sets[verbPath(cmd)+" --"+flag.Name] = value.hints().words
		}
	})
	sets["map --fabric"] = readyFabrics
	allFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		name := verbPath(cmd) + " --" + flag.Name
		if flag.Value.Type() == "bool" || flag.Value.Type() == "count" {
			return
		}
		got, directive := completed(t, append(strings.Fields(verbPath(cmd)), "--"+flag.Name, "")...)
		if flag.NoOptDefVal != "" { // a value has to follow the sign =
			got, directive = completed(t, append(strings.Fields(verbPath(cmd)), "--"+flag.Name+"=")...)
		}
		want := sets[name]
		if want != nil && !slices.Equal(got, want) && name != "map --fabric" {
			t.Errorf("%s offers %q, want %q", name, got, want)
		}
		files := flag.Value.(hinted).hints().files
		if files != (directive == ":0") {
			t.Errorf("%s: directive %s, and files are its values: %v", name, directive, files)
		}
		for of, set := range sets {
			if mentions(flag.Usage, set) && !slices.Equal(got, set) && want == nil {
				t.Errorf("the help of %s lists %v, as that of %s does, but %q are offered", name, set, of, got)
			}
		}
		if want != nil && !cmd.Hidden && !mentions(flag.Usage, want) && !strings.Contains(flag.Usage, "`some`") {
			t.Errorf("the help of %s does not list its values %v: %s", name, want, flag.Usage)
		}
	})
}

// mentions reports whether a text has each of the words.
func mentions(text string, words []string) bool {
	has := strings.FieldsFunc(text, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') })
	for _, word := range words {
		if !slices.Contains(has, word) {
			return false
		}
	}
	return true
}

// TestCompletionOfLists: of a list the last word is completed.
func TestCompletionOfLists(t *testing.T) {
	if got, _ := completed(t, "perf", "--stacks", "raw,v"); !slices.Equal(got, []string{"raw,vipl", "raw,vmmc", "raw,vrpc"}) {
		t.Errorf("offered %q", got)
	}
	if got, _ := completed(t, "lab", "--topology", "b"); !slices.Equal(got, []string{"bridge"}) {
		t.Errorf("offered %q", got)
	}
	names := interfaceNames()
	if got, _ := completed(t, "ping", "-i", ""); !slices.Equal(got, names) {
		t.Errorf("offered %q, want %q", got, names)
	}
}

// TestManPages: each page has its sections, the first one the list of verbs, and no default that is
// only a zero of Go.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	date, err := sourceDate("1700000000")
	if err == nil {
		err = writePages(newRootCmd(), date, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 19 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} {
			if section == "OPTIONS" && f.Name() == "bobnet-key.1" {
				continue // it has none of its own but those of every verb
			}
			if !bytes.Contains(text, []byte(".SH "+section+"\n")) {
				t.Errorf("%s has no section %s", f.Name(), section)
			}
		}
		for _, zero := range []string{"default false", "default 0)", "default [])", "default 0s)", "default )", `=""`} {
			if bytes.Contains(text, []byte(zero)) {
				t.Errorf("%s: %q", f.Name(), zero)
			}
		}
	}
	root, err := os.ReadFile(dir + "/bobnet.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{".SH VERBS\n", ".B lab\n", ".B top\n", ".SH ENVIRONMENT\n", ".B BOBNET_IFACE\n", ".SH FILES\n", "/run/bobnet/agent.sock"} {
		if !strings.Contains(string(root), has) {
			t.Errorf("bobnet.1 does not have %q", has)
		}
	}
}

// TestEnvironmentNamed: the man page names each variable that Bobnet's packages read.
func TestEnvironmentNamed(t *testing.T) {
	own := []string{"BOBNET_LAB_REEXEC", "BOBNET_PERF_KEY_FILE", "BOBNET_TEST_ALL"} // between Bobnet's own processes
	literal := regexp.MustCompile(`"(BOBNET_[A-Z_]+)"`)
	for _, room := range []string{"cmd", "vipl", "job", "mplite", "endpoint", "splitc", "stream", "transport", "vmmc", "metrics", "internal/lab", "internal/launch", "internal/link", "internal/myrinet", "internal/perf", "internal/pmi", "internal/progress"} {
		err := filepath.WalkDir("../../"+room, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range literal.FindAllStringSubmatch(string(text), -1) {
				named := slices.ContainsFunc(environment, func(e entry) bool { return e.name == found[1] })
				if !named && !slices.Contains(own, found[1]) {
					t.Errorf("%s: %s is not among the variables of the man page", path, found[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
