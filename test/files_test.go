package test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// docs/files.md says of each of its packages what is in which file: of every
// file, once, and of no other.
func TestFilesListed(t *testing.T) {
	const name = "docs/files.md"
	listed := map[string]int{} // by path
	dirs := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(readRoot(t, name), -1) {
		dirs[m[1]] = true
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*\.go) \|`).FindAllStringSubmatch(section(t, name, m[0]), -1) {
			for _, file := range strings.Split(row[1], ", ") {
				listed[path.Join(m[1], file)]++
			}
		}
	}
	if len(dirs) == 0 {
		t.Fatalf("%s has no packages", name)
	}
	for _, s := range sources(t) {
		if s.test || !dirs[s.dir] {
			continue
		}
		if n := listed[s.name]; n != 1 {
			t.Errorf("%s names %s %d times, want once", name, s.name, n)
		}
		delete(listed, s.name)
	}
	for file := range listed {
		t.Errorf("%s names %s, which does not exist", name, file)
	}
}
