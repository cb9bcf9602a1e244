package main

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		if err := table.add(results[:n+1]); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != n+2 {
			t.Errorf("%d lines when %d cases and a heading are known:\n%s", lines, n+1, out.String())
		}
	}
	if err := table.end(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cg         shm     *4     2.000", "* more ranks than this host has processors"} {
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
	if err := table.add(medians([][]appRun{{run}})); err != nil {
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
