package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
)

// TestExamples runs the commands that the head comments of the examples give,
// with "go run" replaced by what it would build and the variables that they set in front,
// and checks what comes out.
func TestExamples(t *testing.T) {
	needLab(t)
	bobnet := filepath.Join(commands(t), "bobnet") // built before the clocks start
	for _, tt := range []struct {
		example string
		more    []string // arguments, to take less time
		prepare func(t *testing.T, dir string)
		check   func(t *testing.T, dir, out string)
	}{
		{"barrier", []string{"-n", "1000"}, nothing, checkBarrier},
		{"blackboard", nil, nothing, checkBoard},
		{"heat", []string{"-steps", "300"}, nothing, checkHeat},
		{"grpc", []string{"-n", "300"}, nothing, checkBeside("server: answered 1260 checks")},
		{"http", []string{"-n", "300"}, nothing, checkBeside("server: echoed 1260 bodies")},
		{"kv", nil, nothing, checkStore},
		{"notify", nil, nothing, checkNotify},
		{"pingpong", []string{"-n", "5000"}, nothing, checkPingpong},
		{"rdma", nil, nothing, checkRDMA},
		{"sort", nil, writeNumbers, checkSorted},
		{"fft3d", []string{"-n", "32", "-check"}, nothing, checkApplication("against gonum's Fourier transform")},
		{"cg", []string{"-n", "300", "-row", "20", "-check"}, nothing, checkApplication("residual, and against a serial run")},
		{"cholesky", []string{"-n", "192", "-check"}, nothing, checkApplication("L times Lᵀ against the matrix, and against a serial run, bit for bit")},
		{"em3d", []string{"-steps", "10", "-check"}, nothing, checkApplication("against a serial run, bit for bit")},
		{"raytrace", []string{"-width", "64", "-height", "48", "-check"}, nothing, checkTeapot},
	} {
		lines := headCommands(t, "examples/"+tt.example)
		if len(lines) == 0 {
			t.Errorf("the head comment of examples/%s does not say how to run it under bobnet lab", tt.example)
		}
		for i, line := range lines {
			t.Run(fmt.Sprintf("%s/%d", tt.example, i), func(t *testing.T) {
				dir := t.TempDir()
				tt.prepare(t, dir)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				variables, command, _ := strings.Cut(line, goRun)
				cmd := exec.CommandContext(ctx, bobnet, append(built(t, goRun+command), tt.more...)...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), strings.Fields(variables)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				tt.check(t, dir, string(out))
			})
		}
	}
}

// TestSplitCCards: an application the active messages of which go over cards of an emulated
// Myrinet, whose cable is the hosts' own.
func TestSplitCCards(t *testing.T) {
	needLab(t)
	dir := commands(t) // built before the clock starts
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "bobnet"), "lab", "-n", "2", "--", filepath.Join(dir, "em3d"), "-card", "-check", "-steps", "10", "-particles", "100")
	cmd.Env = append(os.Environ(), splitc.EnvLayer+"=am")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": 2 ranks over am ") || !strings.Contains(string(out), "checked: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExamplesCards: examples the endpoints and exports of which are on cards of an emulated
// Myrinet, whose cable is the hosts' own.
func TestExamplesCards(t *testing.T) {
	needLab(t)
	dir := commands(t) // built before the clocks start
	for _, x := range []struct {
		example, n string
		want       []string
	}{
		{"kv", "500", []string{"client 1: 1000 puts and gets in ", "server: 1 clients have put 500 keys\n"}},
		{"barrier", "100", []string{"2 ranks: 100 sums, all right, "}},
		{"blackboard", "200", []string{"writer 1: 200 lines, checksum ", "board: 1 writers have written 200 lines\n"}},
	} {
		t.Run(x.example, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(dir, "bobnet"), "lab", "-n", "2", "--", filepath.Join(dir, x.example), "-card", "-n", x.n)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range x.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestExampleArguments: what an example cannot do is refused, before anything is
// opened.
func TestExampleArguments(t *testing.T) {
	dir := commands(t) // built before the clocks start
	for _, tt := range []struct{ example, args, want string }{
		{"barrier", "-n 0", "-n 0: want at least one round"},
		{"barrier", "-n -1", "-n -1: want at least one round"},
		{"blackboard", "-n 0", "-n 0: want 1 to 100000 lines"},
		{"grpc", "-n 0", "-n 0: want at least one call"},
		{"http", "-n 0", "-n 0, -size 64: want at least one call"},
		{"kv", "-n -1", "-n -1: want at least one key"},
		{"notify", "-n -1", "-n -1: want at least one number"},
		{"pingpong", "-n 0", "-n 0: want sizes in 1.."},
		{"fft3d", "-n 48", "an edge of 48 points: want a power of two"},
		{"cg", "-n 0", "0 rows: want 1 to"},
		{"cholesky", "-n 100", "100 rows: want a multiple of 16"},
		{"em3d", "-remote 2", "a share 2 of remote particles: want 0 to 1"},
		{"raytrace", "-samples 0", "0 x 0 samples a pixel: want 1 to 64"},
		{"barrier", "x", `["x"]: want flags only`},
		{"blackboard", "x", `["x"]: want flags only`},
		{"kv", "x", `["x"]: want flags only`},
		{"notify", "x", `["x"]: want flags only`},
		{"pingpong", "x", `["x"]: want flags only`},
		{"rdma", "x", `["x"]: want flags only`},
		{"fft3d", "x", `["x"]: want flags only`},
		{"fft3d", "-card -mplite", "-card and -mplite: MPLite uses no card"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(dir, tt.example), strings.Fields(tt.args)...)
		cmd.Env = append(os.Environ(), "BOBNET_RANK=0", "BOBNET_SIZE=1", "BOBNET_IFACE=nothing0")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s %s: %v, want an error that says %q:\n%s", tt.example, tt.args, err, tt.want, out)
		}
	}
}

// TestExampleHelp: -help says what an example does and how to start it, and one that needs other
// ranks says so at once when it runs alone.
func TestExampleHelp(t *testing.T) {
	dir := commands(t) // built before the clocks start
	for _, tt := range []struct{ example, ranks, start string }{
		{"barrier", "", "lab -n 4 -- "},
		{"blackboard", "needs at least 2 ranks", "lab -n 4 -- "},
		{"cg", "", "lab -n 4 -- "},
		{"cholesky", "", "lab -n 4 -- "},
		{"em3d", "", "lab -n 4 -- "},
		{"fft3d", "", "lab -n 4 -- "},
		{"grpc", "needs 2 ranks", "lab -n 2 -- "},
		{"heat", "", "lab -n 4 -- "},
		{"http", "needs 2 ranks", "lab -n 2 -- "},
		{"kv", "needs at least 2 ranks", "lab -n 4 -- "},
		{"notify", "needs at least 2 ranks", "lab -n 4 -- "},
		{"pingpong", "needs 2 ranks", "lab -n 2 -- "},
		{"raytrace", "", "lab -n 4 -- "},
		{"rdma", "needs at least 2 ranks", "lab -n 4 -- "},
		{"sort", "", "lab -n 4 -- "},
	} {
		for _, arg := range []string{"-help", ""} {
			if arg == "" && tt.ranks == "" {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(dir, tt.example), strings.Fields(arg)...)
			cmd.Env = append(os.Environ(), "BOBNET_RANK=", "BOBNET_SIZE=", "BOBNET_IFACE=nothing0")
			out, err := cmd.CombinedOutput()
			text := string(out)
			if arg == "-help" && (err != nil || !strings.Contains(strings.ToLower(text), tt.example) || !strings.Contains(text, tt.start)) {
				t.Errorf("%s -help: %v, want what it does and %q:\n%s", tt.example, err, tt.start, text)
			}
			if arg == "" && (err == nil || !strings.Contains(text, tt.ranks+": ") || !strings.Contains(text, tt.start)) {
				t.Errorf("%s alone: %v, want %q and %q:\n%s", tt.example, err, tt.ranks, tt.start, text)
			}
		}
	}
}

// goRun is how the commands in the head comments begin, or go on behind variables that they
// set.
const goRun = "go run ./cmd/bobnet "

// headCommands returns the commands in the comment above an example's package
// clause.
func headCommands(t *testing.T, dir string) (lines []string) {
	t.Helper()
	var doc *ast.CommentGroup
	for _, s := range sources(t) {
		if s.name == dir+"/main.go" {
			doc = s.file.Doc
		}
	}
	for line := range strings.Lines(doc.Text()) {
		line = strings.TrimSpace(line)
		variables, _, ok := strings.Cut(line, goRun)
		if ok && !slices.ContainsFunc(strings.Fields(variables), func(word string) bool { return !strings.Contains(word, "=") }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// built returns the arguments of bobnet in a command, with the example's
// program in place of "go run ./examples/...".
func built(t *testing.T, line string) []string {
	t.Helper()
	lab, program, ok := strings.Cut(strings.TrimPrefix(line, goRun), "-- go run ./examples/")
	if !ok {
		t.Fatalf("%q does not run an example in a lab", line)
	}
	name, args, _ := strings.Cut(program, " ")
	argv := append(strings.Fields(lab), "--", filepath.Join(commands(t), name))
	return append(argv, strings.Fields(args)...)
}

func nothing(*testing.T, string) {}

// checkApplication: rank 0 has compared the result of all four, and says so; or of the two
// that the commands with -json have, over the layer that these name.
func checkApplication(checked string) func(t *testing.T, dir, out string) {
	return func(t *testing.T, _, out string) {
		if _, report, ok := strings.Cut(out, "[0] {"); ok {
			var r struct {
				Layer, Checked string
				Ranks          int
			}
			err := json.NewDecoder(strings.NewReader("{" + report)).Decode(&r)
			first := strings.TrimSuffix(checked, ", and against a serial run, bit for bit") // without -serial
			if err != nil || r.Layer != "am" || r.Ranks != 2 || r.Checked != first {
				t.Errorf("the report is %+v (%v), want that the result of 2 ranks over am was checked %s:\n%s", r, err, first, out)
			}
			return
		}
		if !strings.Contains(out, ": 4 ranks over ") || !strings.Contains(out, "checked: "+checked+"\n") {
			t.Errorf("the result of 4 ranks was not checked %s:\n%s", checked, out)
		}
	}
}

// checkTeapot: the picture is there, and that of a serial run.
func checkTeapot(t *testing.T, dir, out string) {
	checkApplication("against a serial run, all pixels")(t, dir, out)
	if strings.Contains(out, "[0] {") { // the command with -json, which draws for no file
		return
	}
	picture, err := os.ReadFile(filepath.Join(dir, "teapot.png"))
	if err != nil || !bytes.HasPrefix(picture, []byte("\x89PNG\r\n")) {
		t.Errorf("teapot.png begins with %.8q (%v)", picture, err)
	}
}

// checkHeat: the example itself has compared its result with a serial run.
func checkHeat(t *testing.T, dir, out string) {
	if !strings.Contains(out, "cells in 2x2 blocks") || !strings.Contains(out, "gives the same, bit for bit") {
		t.Errorf("the 4 ranks' result was not compared with a serial run:\n%s", out)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "heat.png"))
	if err != nil || !bytes.HasPrefix(picture, []byte("\x89PNG\r\n")) {
		t.Errorf("heat.png begins with %.8q (%v)", picture, err)
	}
}

// checkBeside: the client has made all calls over streams and over TCP, and the server counts
// them.
func checkBeside(served string) func(t *testing.T, dir, out string) {
	return func(t *testing.T, _, out string) {
		for _, over := range []string{"stream", "tcp"} {
			for _, together := range []int{1, 8} {
				if want := fmt.Sprintf("over %s: 300 calls, %d at a time: ", over, together); !strings.Contains(out, want) {
					t.Errorf("no %q:\n%s", want, out)
				}
			}
		}
		if !strings.Contains(out, served+"\n") {
			t.Errorf("no %q:\n%s", served, out)
		}
	}
}

// checkBarrier: each rank has compared every sum with what it must be.
func checkBarrier(t *testing.T, _, out string) {
	if !strings.Contains(out, "4 ranks: 1000 sums, all right, ") {
		t.Errorf("rank 0 does not say that all sums are right:\n%s", out)
	}
}

// checkStore: each client has compared what it got with what it had put, and
// the server counts them all.
func checkStore(t *testing.T, _, out string) {
	for rank := 1; rank <= 3; rank++ {
		if strings.Count(out, fmt.Sprintf("client %d: 20000 puts and gets in ", rank)) != 1 {
			t.Errorf("client %d has not put and got its keys:\n%s", rank, out)
		}
	}
	if !strings.Contains(out, "server: 3 clients have put 30000 keys\n") {
		t.Errorf("the server's table is not of all keys:\n%s", out)
	}
}

// checkBoard: all three writers have seen all lines, in the same order.
func checkBoard(t *testing.T, _, out string) {
	sums := regexp.MustCompile(`(?m)writer [123]: 3000 lines, checksum ([0-9a-f]{8})$`).FindAllStringSubmatch(out, -1)
	if len(sums) != 3 || sums[0][1] != sums[1][1] || sums[0][1] != sums[2][1] {
		t.Errorf("not the same lines of three writers:\n%s", out)
	}
	if !strings.Contains(out, "board: 3 writers have written 3000 lines\n") {
		t.Errorf("the board does not have all lines:\n%s", out)
	}
}

// checkNotify: what the three clients say they have sent is what the server
// says has come.
func checkNotify(t *testing.T, _, out string) {
	for rank := 1; rank <= 3; rank++ {
		sum := fmt.Sprintf(" 10000 numbers, their sum is %d\n", rank*50005000)
		if strings.Count(out, fmt.Sprintf("client %d: sent", rank)+sum) != 1 || strings.Count(out, ":"+sum) != 1 {
			t.Errorf("not once from client %d and the server:%s%s", rank, sum, out)
		}
	}
}

func checkPingpong(t *testing.T, _, out string) {
	if !strings.Contains(out, "64 bytes to 02:") || !strings.Contains(out, "p50 ") || !strings.Contains(out, "p99.9 ") {
		t.Errorf("no percentiles:\n%s", out)
	}
}

// checkRDMA: each rank has compared its array, and what it has read, with what
// was filled in.
func checkRDMA(t *testing.T, _, out string) {
	for rank := range 3 {
		if !strings.Contains(out, fmt.Sprintf("rank %d: wrote ", rank)) || !strings.Contains(out, "blocks are right") {
			t.Errorf("rank %d did not verify its blocks:\n%s", rank, out)
		}
	}
}

// sortCount is the number of integers in numbers.txt, and what -gen in the
// head comment says.
const sortCount = 1_000_000

// numbers are those in numbers.txt.
func numbers() []int64 {
	rng := rand.New(rand.NewPCG(2, 3))
	list := make([]int64, sortCount)
	for i := range list {
		list[i] = int64(rng.Uint64()) >> rng.IntN(64) // all magnitudes, and so many equal ones
	}
	return list
}

func writeNumbers(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "numbers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, n := range numbers() {
		fmt.Fprintln(w, n)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// checkSorted reads sorted.txt. With -gen the integers are the example's own,
// which only it can compare.
func checkSorted(t *testing.T, dir, out string) {
	if !strings.Contains(out, "sorted and verified 1000000 integers on 4 ranks") {
		t.Errorf("not verified:\n%s", out)
	}
	f, err := os.Open(filepath.Join(dir, "sorted.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []int64
	for s := bufio.NewScanner(f); s.Scan(); {
		n, err := strconv.ParseInt(s.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if len(got) != sortCount || !slices.IsSorted(got) {
		t.Fatalf("sorted.txt has %d integers, sorted: %v", len(got), slices.IsSorted(got))
	}
	if strings.HasSuffix(t.Name(), "/0") { // the command with -gen
		return
	}
	want := numbers()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("sorted.txt has other integers than numbers.txt")
	}
}
