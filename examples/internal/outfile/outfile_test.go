package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", old, filepath.Join(dir, "new")} {
		if err := Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none", "x"), filepath.Join(old, "x")} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want an error that names it", name, err)
		}
	}
	if b, err := os.ReadFile(old); string(b) != "kept" {
		t.Errorf("the old file holds %q now (%v)", b, err)
	}
	if all, err := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v (%v)", all, err)
	}
}
