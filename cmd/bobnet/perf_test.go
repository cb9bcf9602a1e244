package main

import (
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestPerfScripts(t *testing.T) {
	needLab(t)
	_, noMPI := perf.BuildMPI(t.Context(), t.TempDir())
	testscript.Run(t, testscript.Params{
		Dir: "testdata/perf",
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "mpi": // an MPI library with mpicc and mpiexec
				return noMPI == nil, nil
			case "full": // testscript has a condition short of its own, which is -short
				return need.Full(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

func TestHeatScreen(t *testing.T) {
	var out strings.Builder
	s := &heatScreen{out: &out, bar: newProgress(io.Discard), ranks: 2}
	for _, part := range []string{ // lines come in pieces
		`{"Step":1,"Steps":20}`, "\n{\"Width\":8,\"Height\":4,\"Across\":2,\"Down\":1,\"Steps\":20,",
		"\"Elapsed\":3000000,\"Waited\":1000000}\n", "{\"Serial\":2000000}\n",
	} {
		if _, err := io.WriteString(s, part); err != nil {
			t.Fatal(err)
		}
	}
	want := "8x4 cells in 2x1 blocks: 20 steps in 3ms, of which rank 0 waited 1ms for its neighbours.\n" +
		"A serial run (2ms) gives the same, bit for bit: 2 ranks are 0.67 times as fast.\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if _, err := io.WriteString(s, "panic: oh\n"); err == nil {
		t.Error("a line that is no event was accepted")
	}
}

func TestWatchFor(t *testing.T) {
	if watch, done, err := watchFor(""); watch == nil || err != nil { // for SIGQUIT
		t.Errorf("no address: %v", err)
	} else {
		done()
	}
	free, err := net.Listen("tcp", vethtest.Loopback(1)+":0") // where nobody else takes the port meanwhile
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	watch, done, err := watchFor(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("a")})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	forget := watch(perf.Opened{NIC: nic})
	if text := page(t, addr); !strings.Contains(text, "bobnet_nic_") {
		t.Errorf("nothing of the NIC in\n%s", text)
	}
	forget()
	if text := page(t, addr); strings.Contains(text, "bobnet_nic_") {
		t.Error("the NIC is still watched")
	}
}

func page(t *testing.T, addr string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAppMedians: the median run of each case counts, against that of one process, and the
// speed-up of an application whose work grows with the ranks is of as much work.
func TestAppMedians(t *testing.T) {
	of := func(app, layer string, ranks int, seconds ...float64) (runs []appRun) {
		for _, s := range seconds {
			runs = append(runs, appRun{App: app, Layer: layer, Ranks: ranks, Crowded: ranks > 2, Seconds: s})
		}
		return runs
	}
	results := medians([][]appRun{
		of("cg", alone, 1, 8, 20, 6), of("cg", "shm", 4, 4, 2, 1), of("cg", "am", 2), // which has failed
		of("em3d", alone, 1, 3), of("em3d", "shm", 4, 6),
	})
	var speedUps []float64
	for _, r := range results {
		speedUps = append(speedUps, r.SpeedUp)
	}
	if len(results) != 4 || speedUps[0] != 1 || speedUps[1] != 4 || results[1].Runs != 3 || speedUps[3] != 2 {
		t.Errorf("%+v: want speed-ups 1 and 4 of cg, 1 and 2 of em3d", results)
	}
	var out strings.Builder
	table := appTable{out: &out}
	for n := range results { // as they become known
		if err := table.writeNew(results[:n+1]); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != n+2 {
			t.Errorf("%d lines when %d cases and a heading are known:\n%s", lines, n+1, out.String())
		}
	}
	if err := table.end(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cg         shm     *4     2.000", "* more ranks than processors of this host"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestAppJSON: what an application says of its traffic is in the line of its median run.
func TestAppJSON(t *testing.T) {
	const said = `{"app":"cg","layer":"am","ranks":2,"seconds":3,"phases":[{"phase":"sums"}],"traffic":{"get":{"operations":5,"bytes":40}}}`
	var run appRun
	if err := json.Unmarshal([]byte(said), &run); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	table := appTable{out: &out, json: true}
	if err := table.writeNew(medians([][]appRun{{run}})); err != nil {
		t.Fatal(err)
	}
	if line := out.String(); !strings.Contains(line, `"phases":[{"phase":"sums"}],"traffic":{"get":{"operations":5,"bytes":40}}`) || !strings.Contains(line, `"runs":1`) {
		t.Errorf("the line is %s", line)
	}
}

// TestAppPlot: a panel for each application, a line for each layer, without those that have
// failed.
func TestAppPlot(t *testing.T) {
	results := medians([][]appRun{
		{{App: "cg", Layer: alone, Ranks: 1, Seconds: 8}}, {{App: "cg", Layer: "shm", Ranks: 2, Seconds: 5}}, {{App: "cg", Layer: "shm", Ranks: 4, Crowded: true, Seconds: 3}},
		{{App: "em3d", Layer: alone, Ranks: 1, Seconds: 8}},
	})
	c := &perfCall{plot: filepath.Join(t.TempDir(), "apps.png"), apps: []string{"cg", "em3d"}}
	c.plan.Layers = []string{"shm", "am"}
	p := c.appPanels(results)[0]
	if points := p.Series[0].Points; !strings.Contains(p.X, "a cross: more than processors") || len(points) != 3 || p.Series[0].Marked(points[1]) || !p.Series[0].Marked(points[2]) {
		t.Errorf("%+v: want the point of 4 ranks marked", p)
	}
	if err := c.drawApps(results); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(c.plot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if picture, err := png.DecodeConfig(f); err != nil || picture.Width < 100 || picture.Width > 2*picture.Height {
		t.Errorf("%+v, %v: want a picture of one panel", picture, err)
	}
}

func TestParseStat(t *testing.T) {
	busy, cpus := parseStat([]byte("cpu  100 20 30 4000 5 6 7 50 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 8 9 0\nintr 1\nctxt 5\n"))
	if busy != 2*time.Second || cpus != 2 {
		t.Errorf("busy %v on %d processors, want 2s (user, nice, system, steal) on 2", busy, cpus)
	}
	for _, text := range []string{"", "cpu\n", "cpu 1 2 3\n", "\n\n", "cpu  x x x x x x x x\n"} {
		if busy, _ := parseStat([]byte(text)); busy != 0 {
			t.Errorf("%q: busy %v, want 0", text, busy)
		}
	}
}

func TestLoadReport(t *testing.T) {
	now := watchLoad()
	if now.cpus == 0 {
		t.Fatal("no processors in /proc/stat")
	}
	for _, tc := range []struct {
		name  string
		watch loadWatch
		want  string
	}{
		{"unreadable", loadWatch{}, ""},
		{"idle", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy, own: now.own, cpus: now.cpus}, ""},
		{"own work", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy - time.Hour, own: now.own - time.Hour, cpus: now.cpus}, ""},
		{"disturbed", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy - time.Hour*time.Duration(now.cpus)/2, own: now.own, cpus: now.cpus},
			"Disturbed: other processes used 50 % of the processors"},
	} {
		var out strings.Builder
		tc.watch.report(&out)
		if got := out.String(); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
