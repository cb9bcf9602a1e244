package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// TestRun: a run tells what fails and what is found, its table adds up, the picture
// shows the whole network again, and the same seed gives the same run.
func TestRun(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "map.svg")
	o := options{time: time.Second, seed: 3, out: svg}
	var out, again bytes.Buffer
	if err := run(o, &out); err != nil {
		t.Fatal(err)
	}
	if err := run(o, &again); err != nil || again.String() != out.String() {
		t.Errorf("the same seed gives another run: %v", err)
	}
	for _, want := range []string{`map: 8 hosts, 6 switches, 17 cables, as h\d sees them`, ` (is cut|dies)\n`, ` (is mended|returns)\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	_, table, _ := strings.Cut(out.String(), "\nfrom ")
	var sum, all [3]int
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		words := strings.Fields(line)
		for i := range sum {
			n, err := strconv.Atoi(words[len(words)-3+i])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if words[0] == "all" {
				all[i] = n
			} else {
				sum[i] += n
			}
		}
	}
	if sum != all || all[0] != all[1]+all[2] || all[1] == 0 {
		t.Errorf("the table does not add up: %v, %v\n%s", sum, all, table)
	}
	picture, err := os.ReadFile(svg)
	if err != nil || strings.Count(string(picture), "<circle") != 8 {
		t.Errorf("%v: the picture has %d hosts", err, strings.Count(string(picture), "<circle"))
	}
}

// TestOtherFabric: a network in two parts, of a file.
func TestOtherFabric(t *testing.T) {
	name := filepath.Join(t.TempDir(), "two.fabric")
	if err := os.WriteFile(name, []byte("host a b c d\nswitch s\nlink a s:0\nlink b s:5\nlink c d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(options{fabric: name, time: 300 * time.Millisecond, seed: 1}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for want, o := range map[string]options{
		"none.fabric: no such file":               {fabric: filepath.Join(dir, "none.fabric")},
		"line 1: invalid first word \"nonsense\"": {fabric: write("bad", "nonsense")},
		"want two hosts at least":                 {fabric: write("one", "host a\nswitch s\nlink a s:0")},
		filepath.Join(dir, "none", "map.svg"):     {out: filepath.Join(dir, "none", "map.svg")},
	} {
		if err := run(o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTree: the network that comes with the program is as its comment says.
func TestTree(t *testing.T) {
	f, err := topology.ParseFile(tree)
	if err != nil || len(f.Hosts) != 8 || len(f.Switches) != 6 || len(f.Cables) != 17 {
		t.Errorf("%v: %+v", err, f)
	}
}
