package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmePrograms builds the programs in README.md and docs/guide.md and runs each as
// two ranks, as these say, on a wire that loses frames: what they print, and that both
// ranks end well, must not depend on luck.
func TestReadmePrograms(t *testing.T) {
	want := map[string]string{ // what some rank prints
		"MPLite":    "rank 1 of 2: the ranks add up to 1",
		"vipl":      `says "hello over Ethernet"`,
		"endpoint":  "2 4",
		"splitc":    "processor 1 of 2: its neighbour has 0.5, all together 2",
		"stream":    "hello, stream came back",
		"vmmc":      "it is there, and nobody receives",
		"vrpc":      "2 squared is 4",
		"transport": "echo",
		"sim":       "rank 7 passed the barrier at",
	}
	programs := buildReadme(t)
	for name := range want {
		if programs[name] == "" {
			t.Errorf("neither README.md nor docs/guide.md has a program %q", name)
		}
	}
	needLab(t)
	bobnet := filepath.Join(commands(t), "bobnet") // built before the clocks start
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			args := []string{"lab", "-n", "2", "--loss", "10%", "--seed", "1", "--", program}
			out, err := exec.CommandContext(ctx, bobnet, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want[name]) {
				t.Errorf("%v; it should print %q:\n%s", err, want[name], out)
			}
		})
	}
}

// buildReadme builds the programs in README.md and docs/guide.md, and returns the path of
// each by the name in front of it. They are laid over the module's tree to be built, and never
// written there.
func buildReadme(t *testing.T) map[string]string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)\n\\*\\*(\\w+)\\*\\*:[^`]*(?:`[^`]+`[^`]*)*?```go\n(.*?)```").
		FindAllStringSubmatch(readRoot(t, "README.md")+readRoot(t, filepath.Join("docs", "guide.md")), -1)
	where, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, programs := t.TempDir(), map[string]string{}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	plan := filepath.Join(dir, "overlay.json")
	args := []string{"build", noDebug, "-overlay", plan, "-o", dir + "/"}
	for i, block := range blocks {
		file := filepath.Join(dir, fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		name := "readme" + strings.ToLower(block[1])
		overlay.Replace[filepath.Join(where, "examples", name, "main.go")] = file
		programs[block[1]] = filepath.Join(dir, name)
		args = append(args, modulePath+"/examples/"+name)
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the programs in README.md and docs/guide.md do not compile: %v\n%s", err, out)
	}
	return programs
}
