package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// section returns what follows the heading in a Markdown text, up to the next
// heading of the same or a higher level.
func section(t *testing.T, name, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(readRoot(t, name), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", name, heading)
	}
	level := strings.Repeat("#", strings.IndexByte(heading, ' '))
	end := regexp.MustCompile(`(?m)^#{1,` + fmt.Sprint(len(level)) + `} `).FindStringIndex(after)
	if end != nil {
		after = after[:end[0]]
	}
	return after
}

// firstColumn returns the code spans that start the rows of the tables in text.
func firstColumn(text string) map[string]bool {
	names := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(text, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			names[m[1]] = true
		}
	}
	return names
}

// ARCHITECTURE.md says why each dependency is there.
func TestArchitectureNamesDependencies(t *testing.T) {
	named := firstColumn(section(t, "ARCHITECTURE.md", "## Dependencies"))
	required := map[string]bool{}
	for _, mod := range requirements(t) {
		required[mod] = true
		if !named[mod] {
			t.Errorf("go.mod requires %s: say why in ARCHITECTURE.md, section Dependencies", mod)
		}
	}
	for mod := range named {
		if !required[mod] {
			t.Errorf("ARCHITECTURE.md, section Dependencies, names %s, which go.mod does not require", mod)
		}
	}
}

// Files that the documents link to exist.
func TestLinksInDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```")
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("docs: %v, %v", docs, err)
	}
	names := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, doc := range docs {
		names = append(names, filepath.Join("docs", filepath.Base(doc)))
	}
	for _, name := range names {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(readRoot(t, name), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}
