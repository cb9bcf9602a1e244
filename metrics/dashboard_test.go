package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
)

// dashboard is what a Grafana dashboard must have to be loaded and to show
// anything.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct{ Expr, RefID string }
}

func readDashboard(t *testing.T) (d dashboard, text string) {
	t.Helper()
	b, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(b)
}

// TestDashboardMetrics: the dashboard asks for metrics that exist, with labels
// that they have, counters for their rate and gauges for their value.
func TestDashboardMetrics(t *testing.T) {
	known := map[string]metrics.Metric{}
	for _, list := range metrics.Metrics() {
		for _, m := range list {
			known[m.Name] = m
		}
	}
	d, text := readDashboard(t)
	for _, m := range metrics.Metrics()["node"] {
		if !strings.Contains(text, m.Name+"{") {
			t.Errorf("the dashboard does not show %s, as it does all of active messages", m.Name)
		}
	}
	name := regexp.MustCompile(`bobnet_[a-z0-9_]+`)
	for _, used := range name.FindAllString(text, -1) {
		if _, ok := known[used]; !ok {
			t.Errorf("the dashboard uses %s, which no Collector exports", used)
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, at := range name.FindAllStringIndex(target.Expr, -1) {
				m, before := known[target.Expr[at[0]:at[1]]], target.Expr[:at[0]]
				// The reports of ranks that have died are rare, and shown as they are.
				rated := strings.HasSuffix(before, "rate(") || strings.HasSuffix(before, "increase(") || strings.HasPrefix(m.Name, "bobnet_mplite_")
				if rated != (m.Type == "counter") {
					t.Errorf("panel %q: %s is a %s: %s", p.Title, m.Name, m.Type, target.Expr)
				}
			}
		}
	}
}

// TestDashboardForm: it has the variables that its panels need, and its panels
// have a place, a unit, the datasource variable and queries.
func TestDashboardForm(t *testing.T) {
	d, text := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 30 {
		t.Errorf("title %q, uid %q, schema version %d", d.Title, d.UID, d.SchemaVersion)
	}
	builtIn := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		builtIn = append(builtIn, v.Name)
		if v.Name == "datasource" && (v.Type != "datasource" || string(v.Query) != `"prometheus"`) {
			t.Errorf("the variable datasource is of type %s and asks for %s", v.Type, v.Query)
		}
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(builtIn, m[1]) {
			t.Errorf("variable $%s is used and not defined", m[1])
		}
	}
	ids, rows := map[int]bool{}, []string{}
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %q: its id %d is 0 or another's", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		p.check(t, d.Panels[:i])
		for _, target := range p.Targets { // a lab's ranks have one instance, its server's
			if strings.Contains(target.Expr, "{") && !strings.Contains(target.Expr, `rank=~"$rank"`) {
				t.Errorf("panel %q does not look at the variable rank: %s", p.Title, target.Expr)
			}
		}
	}
	if want := []string{"Segment", "NICs", "VIs", "Active messages", "VMMC and remote procedures", "Errors", "Latency"}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
}

func (p *panel) check(t *testing.T, before []panel) {
	if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
		t.Errorf("panel %d %q: unit %q, datasource %q, %d queries", p.ID, p.Title, p.FieldConfig.Defaults.Unit, p.Datasource.UID, len(p.Targets))
	}
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("panel %q: it does not fit the grid: %+v", p.Title, g)
	}
	for _, q := range before {
		if h := q.GridPos; g.X < h.X+h.W && h.X < g.X+g.W && g.Y < h.Y+h.H && h.Y < g.Y+g.H {
			t.Errorf("panels %q and %q lie over each other", p.Title, q.Title)
		}
	}
	for _, target := range p.Targets {
		if target.Expr == "" || target.RefID == "" {
			t.Errorf("panel %q: a query is empty or has no name", p.Title)
		}
	}
}
