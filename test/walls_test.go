package test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// walls says which rooms each room may import. A room is a top-level directory
// with all below it; it may always import itself, the standard library and
// libraries of others. Rooms and arrows are drawn in ARCHITECTURE.md.
var walls = map[string][]string{
	"ethertype":   {},
	"reliability": {"ethertype"},
	"transport":   {"ethertype"},
	"progress":    {"ethertype", "transport"},
	"vipl":        {"ethertype", "reliability", "transport", "progress"},
	"job":         {"ethertype", "reliability", "transport", "progress", "vipl"},
	"mplite":      {"ethertype", "reliability", "transport", "progress", "vipl", "job"},
	"endpoint":    {"ethertype", "reliability", "transport", "progress", "vipl", "job"},
	"vmmc":        {"ethertype", "reliability", "transport", "progress", "vipl", "job"},
	"splitc":      {"ethertype", "reliability", "transport", "progress", "vipl", "job", "endpoint"},
	"stream":      {"ethertype", "reliability", "transport", "progress", "vipl", "job"},
	"metrics":     {"ethertype", "reliability", "transport", "progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream"},
	"internal":    {"ethertype", "reliability", "transport", "progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream"},
	"examples":    {"ethertype", "reliability", "transport", "progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics"},
	"cmd":         {"ethertype", "reliability", "transport", "progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics", "internal", "examples"},
	"test":        {"ethertype", "reliability", "transport", "progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics", "internal", "examples", "cmd"},
}

// foundations are packages of internal that other rooms may import, but the pure ones: what all
// that serve other processes have in common. They import no other package of the house.
var foundations = []string{"internal/admission", "internal/passfd", "internal/runsocket", "internal/userfile"}

// testHelpers may be imported by the tests of every room, and by examples/internal/simjob, which
// only tests import.
var testHelpers = []string{"internal/", "transport/sim", "transport/fault", "transport/linktest"}

func TestImportWalls(t *testing.T) {
	for _, s := range sources(t) {
		room, _, _ := strings.Cut(s.dir, "/")
		ofTests := s.test || s.dir == "examples/internal/simjob"
		allowed, known := walls[room]
		if !known {
			t.Errorf("%s lies in %q, which is no room of the house", s.name, room)
			continue
		}
		for _, imp := range s.imports() {
			inside, ok := strings.CutPrefix(imp, modulePath+"/")
			if ok && !mayImport(room, inside, allowed, ofTests) {
				t.Errorf("%s: room %s must not import %s", s.name, room, inside)
			}
			if ok && slices.Contains(foundations, s.dir) && !s.test && !slices.Contains(foundations, inside) {
				t.Errorf("%s: a foundation must not import %s", s.name, inside)
			}
		}
	}
}

// innerWalls says of each package below vipl and endpoint which others of the house it
// may import. None imports the room that it belongs to; memory and the directory do not
// know each other; a connection knows neither the directory nor strangers; and of
// endpoint's providers none knows another.
var innerWalls = map[string][]string{
	"vipl/internal/code":      {},
	"vipl/internal/memory":    {"vipl/internal/code"},
	"vipl/internal/conn":      {"ethertype", "reliability", "transport", "transport/fifo", "transport/latch", "progress", "vipl/internal/batch", "vipl/internal/code", "vipl/internal/memory", "vipl/internal/pathprobe", "vipl/internal/pieces", "vipl/internal/sweep"},
	"vipl/internal/attempts":  {"transport/fifo"},
	"vipl/internal/backlog":   {"ethertype", "vipl/internal/conninfo"},
	"vipl/internal/engine":    {"ethertype", "reliability", "transport", "transport/shm", "progress", "vipl/internal/batch", "vipl/internal/code", "vipl/internal/conn", "vipl/internal/conninfo", "vipl/internal/directory", "vipl/internal/guard", "vipl/internal/handshake", "vipl/internal/timewait"},
	"vipl/internal/handshake": {"ethertype", "transport", "vipl/internal/attempts", "vipl/internal/backlog", "vipl/internal/code", "vipl/internal/conn", "vipl/internal/conninfo", "vipl/internal/guard", "vipl/internal/pathprobe"},
	"vipl/internal/batch":     {"ethertype", "transport", "transport/latch"},
	"vipl/internal/conninfo":  {"ethertype", "reliability"},
	"vipl/internal/pathprobe": {"ethertype"},
	"vipl/internal/pieces":    {"ethertype"},
	"vipl/internal/sweep":     {},
	"vipl/internal/timewait":  {"ethertype", "reliability"},
	"vipl/internal/guard":     {"ethertype"},
	"vipl/internal/directory": {"ethertype", "internal/userfile", "transport", "progress", "vipl/internal/code", "vipl/internal/guard"},
	"vipl/internal/links":     {"ethertype", "transport", "transport/agent", "transport/fault", "transport/host", "transport/myrinet/plain", "transport/myrinet/share", "transport/packet", "transport/ring", "transport/seal", "transport/shm", "transport/udp", "vipl/internal/code"},
	"vipl/internal/text":      {},

	"endpoint/internal/wire":         {"ethertype"},
	"endpoint/internal/provider":     {"ethertype", "endpoint/internal/wire"},
	"endpoint/internal/gate":         {"progress", "endpoint/internal/provider"},
	"endpoint/internal/loop":         {"endpoint/internal/wire", "endpoint/internal/provider"},
	"endpoint/internal/providertest": {"ethertype", "endpoint/internal/wire", "endpoint/internal/provider"},
	"endpoint/internal/vi":           {"ethertype", "transport", "progress", "vipl", "endpoint/internal/wire", "endpoint/internal/provider", "endpoint/internal/gate"},
}

// innerRoom returns the room of a package that innerWalls has to know, or "".
func innerRoom(dir string) string {
	room, rest, _ := strings.Cut(dir, "/")
	if (room == "vipl" || room == "endpoint") && strings.HasPrefix(rest, "internal/") {
		return room
	}
	return ""
}

func TestInnerWalls(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if innerRoom(s.dir) == "" {
			continue
		}
		allowed, known := innerWalls[s.dir]
		if !known {
			t.Errorf("%s lies in %s, of which innerWalls says nothing", s.name, s.dir)
			continue
		}
		seen[s.dir] = true
		for _, imp := range s.imports() {
			inside, ok := strings.CutPrefix(imp, modulePath+"/")
			if ok && inside != s.dir && !slices.Contains(allowed, inside) && !s.test {
				t.Errorf("%s must not import %s", s.name, inside)
			}
		}
	}
	for dir := range innerWalls {
		if !seen[dir] {
			t.Errorf("innerWalls names %s, which does not exist", dir)
		}
	}
}

// TestLinterFoundations: the linter lets rooms import the foundations where it denies internal.
func TestLinterFoundations(t *testing.T) {
	text := readRoot(t, ".golangci.yml")
	for _, room := range []string{"transport", "vmmc", "splitc", "internal"} {
		_, rule, _ := strings.Cut(text, "\n        "+room+":\n")
		rule, _, _ = strings.Cut(rule, "\n          deny:\n")
		for _, f := range foundations {
			if !strings.Contains(rule, "\n            - "+modulePath+"/"+f+"$\n") && !strings.HasSuffix(rule, "\n            - "+modulePath+"/"+f+"$") {
				t.Errorf(".golangci.yml does not let %s import %s", room, f)
			}
		}
	}
}

// TestLinterInnerWalls: the linter holds the inner walls, too. Its rule for a package
// denies the rooms and packages that innerWalls does not list.
func TestLinterInnerWalls(t *testing.T) {
	rules := linterRules(t)
	for dir, allowed := range innerWalls {
		others := append([]string{innerRoom(dir)}, walls[innerRoom(dir)]...)
		for other := range innerWalls {
			if innerRoom(other) == innerRoom(dir) {
				others = append(others, other)
			}
		}
		for _, other := range others {
			if other == dir {
				continue
			}
			denied := slices.ContainsFunc(rules, func(r linterRule) bool {
				return strings.Contains(r.files, `"**/`+dir+`/**"`) && slices.Contains(r.deny, modulePath+"/"+other+"$")
			})
			if may := slices.Contains(allowed, other); may == denied {
				t.Errorf("%s may import %s: %v; .golangci.yml denies it: %v", dir, other, may, denied)
			}
		}
	}
}

func mayImport(room, inside string, allowed []string, test bool) bool {
	to, _, _ := strings.Cut(inside, "/")
	for _, a := range append([]string{room}, allowed...) {
		if a == to {
			return true
		}
	}
	if slices.Contains(foundations, inside) && !pure[room] {
		return true
	}
	for _, helper := range testHelpers {
		if test && strings.HasPrefix(inside, helper) {
			return true
		}
	}
	return false
}

// linterRule is a rule of depguard in .golangci.yml.
type linterRule struct {
	files string   // patterns of files, as they are written
	deny  []string // prefixes of import paths
}

// linterRules reads them line by line: a rule is a name of its own depth.
func linterRules(t *testing.T) (rules []linterRule) {
	_, text, _ := strings.Cut(readRoot(t, ".golangci.yml"), "\n    depguard:\n      rules:\n")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		word := strings.TrimSpace(line)
		switch depth := len(line) - len(strings.TrimLeft(line, " ")); {
		case depth < 8:
			return rules
		case depth == 8:
			rules = append(rules, linterRule{})
		case strings.HasPrefix(word, "files: "):
			rules[len(rules)-1].files = word
		case strings.HasPrefix(word, "- pkg: "):
			rules[len(rules)-1].deny = append(rules[len(rules)-1].deny, strings.TrimPrefix(word, "- pkg: "))
		}
	}
	return rules
}

// denies reports whether the rule keeps the code of a room from importing another.
// The pattern room/**/*.go would leave out what lies in the room itself.
func (r linterRule) denies(room, other string) bool {
	about := strings.Contains(r.files, `"**/`+room+`/**"`) || strings.Contains(r.files, `"**/*.go"`)
	for _, but := range []string{`"!**/` + room + `/**"`, `"!**/` + room + `/*.go"`} {
		about = about && !strings.Contains(r.files, but)
	}
	return about && slices.ContainsFunc(r.deny, func(p string) bool {
		return p == modulePath || p == modulePath+"/"+other
	})
}

// TestLinterWalls: the linter's walls are these, neither more nor fewer. Of cmd and
// test it need say nothing, because nothing can import a program or a test.
func TestLinterWalls(t *testing.T) {
	rules := linterRules(t)
	for room, allowed := range walls {
		for other := range walls {
			if other == room || other == "cmd" || other == "test" {
				continue
			}
			denied := slices.ContainsFunc(rules, func(r linterRule) bool { return r.denies(room, other) })
			if may := slices.Contains(allowed, other); may == denied {
				t.Errorf("room %s may import %s: %v; .golangci.yml denies it: %v", room, other, may, denied)
			}
		}
	}
}

// pure rooms get time, randomness and bytes as arguments.
var pure = map[string]bool{"ethertype": true, "reliability": true}

func TestPureRooms(t *testing.T) {
	banned := []string{"os", "sync", "sync/atomic", "syscall", "context", "log", "log/slog", "golang.org/x/sys/unix", "crypto/rand"}
	for _, s := range sources(t) {
		if room, _, _ := strings.Cut(s.dir, "/"); !pure[room] || s.test {
			continue
		}
		for _, imp := range s.imports() {
			for _, b := range banned {
				if imp == b {
					t.Errorf("%s imports %s, but its room is pure", s.name, imp)
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%v: a pure room starts no goroutine", fileSet.Position(g.Pos()))
			}
			return true
		})
	}
}

// machines are the packages below vipl that get time and frames as arguments.
var machines = []string{"vipl/internal/attempts", "vipl/internal/backlog", "vipl/internal/batch", "vipl/internal/conn", "vipl/internal/conninfo", "vipl/internal/engine", "vipl/internal/handshake", "vipl/internal/pathprobe", "vipl/internal/pieces", "vipl/internal/sweep", "vipl/internal/timewait"}

// clockless packages run under virtual time, so the wall clock and the global
// source of randomness must not reach them.
func clockless(dir string) bool {
	room, _, _ := strings.Cut(dir, "/")
	return pure[room] || slices.Contains(machines, dir) || dir == "transport/sim" || dir == "transport/fault" || dir == "transport/myrinet" || dir == "transport/myrinet/mapper"
}

func TestNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	global := []string{"Int", "IntN", "Int64", "Int64N", "Uint32", "Uint32N", "Uint64", "Uint64N", "Float64", "Perm", "Shuffle", "N"}
	for _, s := range sources(t) {
		if s.test || !clockless(s.dir) {
			continue
		}
		for _, use := range append(s.qualified("time", clock...), s.qualified("math/rand/v2", global...)...) {
			t.Errorf("%v: time and randomness are arguments here", fileSet.Position(use.Pos()))
		}
	}
}

// Unsafe code is kept where a reader looks for it: in files whose name says so.
func TestUnsafeFiles(t *testing.T) {
	for _, s := range sources(t) {
		base := strings.TrimSuffix(path.Base(s.name), ".go")
		for _, imp := range s.imports() {
			if imp == "C" {
				t.Errorf("%s: the module is built without cgo", s.name)
			}
			if imp == "unsafe" && !s.test && !strings.HasSuffix(base, "unsafe") {
				t.Errorf("%s imports unsafe: move what needs it to a file named *_unsafe.go", s.name)
			}
		}
	}
}

// Random tests must be repeatable: they take their seed from a flag or a
// constant, never from the global source.
func TestSeededTests(t *testing.T) {
	global := []string{"Int", "IntN", "Int64", "Int64N", "Uint32", "Uint64", "Float64", "Perm", "Shuffle", "N"}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, use := range s.qualified("math/rand/v2", global...) {
			t.Errorf("%v: draw from a seeded source and print the seed", fileSet.Position(use.Pos()))
		}
		for _, imp := range s.imports() {
			if imp == "math/rand" {
				t.Errorf("%s: use math/rand/v2 with a seed", s.name)
			}
		}
	}
}
