package test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// walls lists the layers that each layer may import. A layer (here also room) is a top-level directory with all
// packages below it. internal/progress and internal/examples are layers, too. A layer may always import its own
// packages, the standard library and other modules. ARCHITECTURE.md has a diagram of the layers.
var walls = map[string][]string{
	"ethertype":         {},
	"reliability":       {"ethertype"},
	"transport":         {"ethertype"},
	"internal/progress": {"ethertype", "transport"},
	"vipl":              {"ethertype", "reliability", "transport", "internal/progress"},
	"job":               {"ethertype", "reliability", "transport", "internal/progress", "vipl"},
	"mplite":            {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job"},
	"endpoint":          {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job"},
	"vmmc":              {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job"},
	"splitc":            {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "endpoint"},
	"stream":            {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job"},
	"metrics":           {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream"},
	"internal":          {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream"},
	"internal/examples": {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics"},
	"examples":          {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics", "internal/examples"},
	"cmd":               {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics", "internal/examples"},
	"test":              {"ethertype", "reliability", "transport", "internal/progress", "vipl", "job", "mplite", "endpoint", "vmmc", "splitc", "stream", "metrics", "internal/examples", "examples", "cmd"},
}

// testHelpers lists prefixes of packages that the tests of every layer may import. internal/examples/simjob may
// import them, too, because only tests import it.
var testHelpers = []string{"internal/", "transport/sim", "transport/fault"}

// roomOf returns the layer of a package.
func roomOf(dir string) string {
	if dir == "internal/progress" {
		return dir
	}
	if strings.HasPrefix(dir, "internal/examples/") {
		return "internal/examples"
	}
	room, _, _ := strings.Cut(dir, "/")
	return room
}

// TestImportWalls checks the imports between layers. Every layer except the pure layers may import packages of the
// layer internal. Such an import counts as an import of every layer that the imported package depends on.
func TestImportWalls(t *testing.T) {
	behind := behindInternal(t)
	for _, s := range sources(t) {
		room := roomOf(s.dir)
		allowed, known := walls[room]
		if !known {
			t.Errorf("%s lies in %q, which is not a room of the module", s.name, room)
			continue
		}
		if s.dir == "internal/framing" || s.dir == "internal/myrinet/channels" {
			allowed = []string{"ethertype"}
		}
		ofTests := s.test || s.dir == "internal/examples/simjob"
		for _, imp := range s.imports() {
			inside, ok := strings.CutPrefix(imp, modulePath+"/")
			if !ok || ofTests && isTestHelper(inside) {
				continue
			}
			if roomOf(inside) == "internal" && !pure[room] {
				for _, other := range behind[inside] {
					if other != room && !slices.Contains(allowed, other) {
						t.Errorf("%s: room %s must not import %s, which imports room %s", s.name, room, inside, other)
					}
				}
			} else if roomOf(inside) != room && !slices.Contains(allowed, roomOf(inside)) {
				t.Errorf("%s: room %s must not import %s", s.name, room, inside)
			}
		}
	}
}

func isTestHelper(dir string) bool {
	return slices.ContainsFunc(testHelpers, func(helper string) bool { return strings.HasPrefix(dir, helper) })
}

// behindInternal returns, for each package of the layer internal, the other layers that the package imports,
// directly or through other packages of internal.
func behindInternal(t *testing.T) map[string][]string {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if s.test || roomOf(s.dir) != "internal" {
			continue
		}
		for _, imp := range s.imports() {
			if inside, ok := strings.CutPrefix(imp, modulePath+"/"); ok {
				imports[s.dir] = append(imports[s.dir], inside)
			}
		}
	}
	behind := map[string][]string{}
	var follow func(dir string) []string
	follow = func(dir string) []string {
		if rooms, done := behind[dir]; done {
			return rooms
		}
		var rooms []string
		for _, inside := range imports[dir] {
			if roomOf(inside) == "internal" {
				rooms = append(rooms, follow(inside)...)
			} else {
				rooms = append(rooms, roomOf(inside))
			}
		}
		slices.Sort(rooms)
		behind[dir] = slices.Compact(rooms)
		return behind[dir]
	}
	for dir := range imports {
		follow(dir)
	}
	return behind
}

// innerWalls lists the packages of this module that each package below vipl/internal and endpoint/internal may
// import. No package imports vipl or endpoint if it lies below that directory. memory and directory do not import
// each other. conn imports neither directory nor guard. No provider of endpoint imports another provider.
var innerWalls = map[string][]string{
	"vipl/internal/code":      {"internal/errclass", "transport"},
	"vipl/internal/memory":    {"vipl/internal/code"},
	"vipl/internal/conn":      {"ethertype", "internal/framing", "reliability", "transport", "internal/link/optional", "internal/fifo", "internal/latch", "internal/progress", "internal/drops", "vipl/internal/code", "vipl/internal/memory"},
	"vipl/internal/engine":    {"ethertype", "internal/framing", "reliability", "transport", "internal/link/optional", "internal/link/shm", "internal/progress", "internal/drops", "vipl/internal/code", "vipl/internal/conn", "vipl/internal/directory", "vipl/internal/guard", "vipl/internal/handshake"},
	"vipl/internal/handshake": {"ethertype", "reliability", "transport", "internal/fifo", "internal/drops", "vipl/internal/code", "vipl/internal/conn", "vipl/internal/guard"},
	"vipl/internal/guard":     {"ethertype"},
	"vipl/internal/directory": {"ethertype", "internal/errclass", "internal/userfile", "transport", "internal/progress", "vipl/internal/code", "vipl/internal/guard"},
	"vipl/internal/links":     {"ethertype", "transport", "internal/link/optional", "internal/link/agent", "transport/fault", "internal/link/host", "internal/myrinet/plain", "internal/myrinet/share", "transport/packet", "transport/ring", "transport/seal", "internal/link/shm", "internal/runsocket", "transport/udp", "vipl/internal/code"},

	"endpoint/internal/wire":         {"ethertype"},
	"endpoint/internal/provider":     {"ethertype", "internal/admission", "internal/errclass", "transport", "endpoint/internal/wire"},
	"endpoint/internal/gate":         {"internal/progress", "endpoint/internal/provider"},
	"endpoint/internal/loop":         {"endpoint/internal/wire", "endpoint/internal/provider"},
	"endpoint/internal/providertest": {"ethertype", "endpoint/internal/wire", "endpoint/internal/provider"},
	"endpoint/internal/vi":           {"ethertype", "internal/framing", "internal/seam", "transport", "internal/progress", "vipl", "endpoint/internal/wire", "endpoint/internal/provider", "endpoint/internal/gate"},
}

// innerRoom returns the layer of a package that innerWalls must list, or "" for other packages.
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

// pure is the set of pure layers, whose functions get time, randomness and bytes as arguments. Two other packages
// are pure: internal/framing, which encodes frames, and internal/myrinet/channels, a protocol between cards.
var pure = map[string]bool{"ethertype": true, "reliability": true}

func isPure(dir string) bool {
	return pure[roomOf(dir)] || dir == "internal/framing" || dir == "internal/myrinet/channels"
}

func TestPureRooms(t *testing.T) {
	banned := []string{"os", "sync", "sync/atomic", "syscall", "context", "log", "log/slog", "golang.org/x/sys/unix", "crypto/rand"}
	for _, s := range sources(t) {
		if !isPure(s.dir) || s.test {
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

// machines lists the state machines below vipl, which get time and frames as arguments.
var machines = []string{"vipl/internal/conn", "vipl/internal/engine", "vipl/internal/handshake"}

// fabric lists the packages of the emulated fabric that run in virtual time.
var fabric = []string{"transport/myrinet", "internal/myrinet/crossbar", "internal/myrinet/hardware", "internal/myrinet/topology", "internal/myrinet/mapper"}

// clockless reports whether a package must run in virtual time. Such a package must not use the wall clock or the
// global source of random numbers.
func clockless(dir string) bool {
	return isPure(dir) || slices.Contains(machines, dir) || dir == "transport/sim" || dir == "transport/fault" || slices.Contains(fabric, dir)
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

// TestUnsafeFiles checks that only files named *_unsafe.go import unsafe, and that no file uses cgo.
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

// TestSeededTests checks that random tests are repeatable: they take their seed from a flag or a constant, and never
// use the global source of random numbers.
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
