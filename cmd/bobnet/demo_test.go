package main

import (
	"bufio"
	"context"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/perf"
)

// nobody is a user without rights.
const nobody = 65534

// TestDemoOwnPicture: a picture of the user's own is what heat starts from, on
// four ranks, and the demo needs no rights where the system allows user
// namespaces. It is interrupted before it measures, which takes long.
func TestDemoOwnPicture(t *testing.T) {
	needLab(t)
	dir := publicDir(t)
	program := copyProgram(t, dir)
	drawPlate(t, filepath.Join(dir, "plate.png"))
	own := &syscall.SysProcAttr{}
	if os.Getuid() == 0 && os.Chown(dir, nobody, nobody) == nil { // else this test has no rights itself
		own.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	info := exec.CommandContext(t.Context(), program, "info")
	info.SysProcAttr = own
	if out, _ := info.CombinedOutput(); !strings.Contains(string(out), "\nlabs           allowed\n") {
		need.Skip(t, "unprivileged user namespaces:\n%s", out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), servingPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "demo", "--ranks", "4", "--png", "plate.png", "--steps", "30", "--out", "pictures")
	cmd.Dir, cmd.SysProcAttr = dir, own
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "bit for bit") {
			cmd.Process.Signal(syscall.SIGINT)
		}
	}
	cmd.Wait()                                                                                    // its exit code tells
	wrong := strings.Replace(errOut.String(), "bobnet: lab: job interrupted: interrupt\n", "", 1) // if a rank had yet to end
	wrong = regexp.MustCompile(`(?m)^bobnet: \d+ of 30\n`).ReplaceAllString(wrong, "")            // progress on a busy machine
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(said, "96x64 cells in 2x2 blocks: 30 steps") ||
		!strings.Contains(said, "gives the same, bit for bit") || wrong != "" {
		t.Errorf("the demo ended with code %d and said\n%s%s", code, said, &errOut)
	}
	if info, err := os.Stat(filepath.Join(dir, "pictures", demoHeat)); err != nil || info.Size() == 0 {
		t.Errorf("it has drawn %v, %v", info, err)
	}
}

// publicDir makes a directory that every user can reach, which t.TempDir is not.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bobnet-demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyProgram puts this program into dir under the name bobnet, which tells it
// what it is.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bobnet")
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// drawPlate draws a picture of another size than the embedded one.
func drawPlate(t *testing.T, name string) {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 96, 64))
	for i := range m.Pix {
		m.SetGray(i%96, i/96, color.Gray{uint8(i * i)})
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, m); err != nil {
		t.Fatal(err)
	}
}

// TestDemoPlotted: what the plot had no time for is drawn as the table has it, and blocking waits
// of the stacks that spin are left out.
func TestDemoPlotted(t *testing.T) {
	record := func(stack, test, wait string, size int, us float64) perf.Record {
		return perf.Record{Case: perf.Case{Stack: stack, Test: test, Wait: wait, Size: size}, P50: us, Mbits: 1}
	}
	table := []perf.Record{
		record("vipl", perf.Latency, perf.Spin, 64, 3), record("vipl", perf.Bandwidth, perf.Spin, 1<<20, 300),
		record("vipl", perf.Latency, perf.Block, 64, 17), record("tcp", perf.Latency, perf.Block, 64, 20),
	}
	want := []perf.Record{table[0], table[3], table[1]}
	if got := plotted(nil, table); !slices.Equal(got, want) {
		t.Errorf("without points the plot has %+v, want %+v", got, want)
	}
	points := []perf.Record{record("vipl", perf.Latency, perf.Spin, 4096, 5), record("vipl", perf.Latency, perf.Spin, 64, 4)}
	want = []perf.Record{points[1], table[3], points[0], table[1]}
	if got := plotted(points, table); !slices.Equal(got, want) {
		t.Errorf("with two points the plot has %+v, want %+v", got, want)
	}
	if err := perf.WritePlot(io.Discard, plotted(nil, table)); err != nil {
		t.Error(err)
	}
}

// TestDemoFillsTime: however long the demo may take, the plot has samples for all of the time that is
// left, so that the demo does not end early.
func TestDemoFillsTime(t *testing.T) {
	common := perf.Plan{Stacks: []string{"raw", "vipl", "mplite", "tcp"}, MTUs: []int{1500}, Levels: []string{"delivery"}}
	for _, left := range []time.Duration{-time.Second, time.Second, 10 * time.Second, time.Minute, time.Hour} {
		plan := plotPlan(common, left)
		all := time.Duration(plan.Rounds*len(plan.Cases(1500))) * plan.Sample
		if want := max(left, minPlotTime); plan.Limit != want || all < want || plan.Sample < demoSample || !plan.Strict {
			t.Errorf("with %v left: %v of samples of %v, until %v", left, all, plan.Sample, plan.Limit)
		}
		if err := plan.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestDemoExplains: a blocking row that is slower than TCP is explained, in each column, and
// nothing else is.
func TestDemoExplains(t *testing.T) {
	for _, tt := range []struct {
		test, wait string
		tcp, ours  perf.Record
		want       string
	}{
		{perf.Latency, perf.Block, perf.Record{P50: 20}, perf.Record{P50: 21}, "wake-up"},
		{perf.Latency, perf.Block, perf.Record{P50: 20}, perf.Record{P50: 19}, ""},
		{perf.Latency, perf.Spin, perf.Record{P50: 20}, perf.Record{P50: 21}, ""},
		{perf.Bandwidth, perf.Block, perf.Record{Mbits: 20}, perf.Record{Mbits: 19}, "acknowledges TCP's segments"},
		{perf.Bandwidth, perf.Block, perf.Record{Mbits: 20}, perf.Record{Mbits: 21}, ""},
		{perf.Rate, perf.Block, perf.Record{Rate: 20}, perf.Record{Rate: 19}, "acknowledges TCP's segments"},
		{perf.Rate, perf.Block, perf.Record{Rate: 20}, perf.Record{Rate: 21}, ""},
	} {
		tt.tcp.Stack, tt.tcp.Test, tt.tcp.Wait = "tcp", tt.test, perf.Block
		tt.ours.Stack, tt.ours.Test, tt.ours.Wait = "vipl", tt.test, tt.wait
		var b strings.Builder
		explainBlocking(&b, []perf.Record{tt.ours, tt.tcp})
		if !strings.Contains(b.String(), tt.want) || (b.Len() > 0) != (tt.want != "") {
			t.Errorf("%s, %s: %q, want %q", tt.test, tt.wait, b.String(), tt.want)
		}
	}
}
