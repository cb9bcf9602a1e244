package metrics_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const referenceFile = "../docs/metrics.md"

const referenceHead = `# Metrics

Generated from the code by ` + "`" + `go generate ./metrics` + "`" + `; do not edit.

A program serves these metrics at ` + "`" + `/metrics` + "`" + ` if it calls ` + "`" + `metrics.Serve` + "`" + `. ` + "`" + `bobnet perf` + "`" + `, ` + "`" + `bobnet lab` + "`" + ` and most other verbs and
examples serve them with ` + "`" + `--metrics ADDR` + "`" + `. The same address serves two more pages:

- ` + "`" + `/debug/bobnet` + "`" + ` shows what every channel waits for, as text, or as JSON with ` + "`" + `?format=json` + "`" + `. SIGQUIT prints the same dump.
- ` + "`" + `/` + "`" + ` lists the pages.

An address without a host, such as ` + "`" + `:9464` + "`" + `, serves localhost only; ` + "`" + `0.0.0.0:9464` + "`" + ` also serves other hosts. ` + "`" + `bobnet lab` + "`" + ` and
` + "`" + `bobnet perf --local` + "`" + ` serve all ranks at one address:

- ` + "`" + `/` + "`" + ` and ` + "`" + `/metrics` + "`" + ` list the ranks.
- ` + "`" + `/rank/0/metrics` + "`" + ` has the metrics of rank 0.
- ` + "`" + `/targets` + "`" + ` lists all ranks for Prometheus's ` + "`" + `http_sd_configs` + "`" + `, with a label ` + "`" + `rank` + "`" + `.

[grafana.json](grafana.json) is a dashboard for the segment, NICs, VIs, active messages, VMMC and remote procedures.

Metrics whose names end in ` + "`" + `_total` + "`" + ` are counters. Query their rate, for example ` + "`" + `rate(bobnet_nic_transmit_bytes_total[1m])` + "`" + `.
A counter restarts from 0 when a process opens the NIC or connects the VI again; ` + "`" + `rate` + "`" + ` accounts for this.

If a NIC has more VIs than ` + "`" + `metrics.Config.MaxVIs` + "`" + `, only the first VIs have separate series. All other VIs share one series
with ` + "`" + `vi="other"` + "`" + `: it has the sum of their counters, queues and windows, and the maximum of their times.
`

// referenceAgent is the section about the metrics of package nodeagent. A test of cmd/bobnet compares it with that package.
const referenceAgent = `
## Of the node's agent

` + "`" + `bobnet agent --metrics ADDR` + "`" + ` serves the metrics of two groups:

- all programs of the node that report to the agent with ` + "`" + `Collector.AnswerAgent` + "`" + `, as Bobnet's commands and examples do;
- all NICs that use sockets of the agent.

These metrics have three more labels: ` + "`" + `program` + "`" + `, ` + "`" + `pid` + "`" + ` and ` + "`" + `uid` + "`" + `. If a process has a second collector, the ` + "`" + `pid` + "`" + ` of that
collector has the suffix ` + "`" + `#2` + "`" + `. A second process whose process number the agent cannot see has the same suffix. The first
8 VIs of a NIC have separate series. If the metrics of a program exceed 256 KiB, no VI has a separate series. The agent
also has a metric of its own:

| metric | type | labels | meaning |
| --- | --- | --- | --- |
| ` + "`" + `bobnet_agent_program_answers` + "`" + ` | gauge | program, pid, uid, interface, port | 1 if a program reports its metrics in time, otherwise 0. With interface and port it is for a link with sockets of the agent, without them for the whole program. |
`

// TestReference: docs/metrics.md lists the metrics that the code exports.
func TestReference(t *testing.T) {
	want := reference(t)
	if *update {
		if err := os.MkdirAll(filepath.Dir(referenceFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the code; run: go generate ./metrics", referenceFile)
	}
}

// TestReferenceComplete: the tables that the reference is made of hold every
// metric that a Collector describes, under the same name, help and labels.
func TestReferenceComplete(t *testing.T) {
	described := make(chan *prometheus.Desc, 1000)
	metrics.NewCollector(nil).Describe(described)
	metrics.NewSwitchCollector(nil).Describe(described)
	close(described)
	exist := map[string]bool{}
	for d := range described {
		exist[d.String()] = true
	}
	n := 0
	for _, list := range metrics.Metrics() {
		for _, m := range list {
			if n++; !exist[prometheus.NewDesc(m.Name, m.Help, m.Labels, nil).String()] {
				t.Errorf("%s is in the tables, but no Collector describes it so", m.Name)
			}
		}
	}
	if n != len(exist) {
		t.Errorf("the tables hold %d metrics, a Collector describes %d", n, len(exist))
	}
}

func reference(t *testing.T) string {
	var b strings.Builder
	b.WriteString(referenceHead)
	all := metrics.Metrics()
	for _, of := range []struct{ name, intro string }{
		{"NIC", "Each NIC that a process watches has its own series. The label `port` is the lowest port of the NIC's port range. " +
			"If a second NIC has the same `interface` and `port`, for example because it uses another driver or EtherType, its label `port` has the suffix `#2`; `bobnet_nic_info` distinguishes the two NICs."},
		{"NIC whose frames are sealed", "A NIC with a key (`vipl.Config.Key`) has these series in addition to the series that every NIC has."},
		{"VI", "Each VI has its own series. The label `vi` is the VI's port; the other labels are the labels of the VI's NIC."},
		{"rank", "The process's rank in an MPLite job has its own series."},
		{"node", "Each node of active messages has its own series. The label `node` is the address at which the node accepts connections."},
		{"process of VMMC", "Each process has its own series. The label `process` consists of the process's node and number."},
		{"process of Split-C", "Each process has its own series. The labels `layer` and `processor` name the process's communication layer and processor. The values of a process that waits are at most 20 ms old. " +
			"Otherwise the values are from the process's last wait, the last 64th call that polls, the first such call after a query, or the last 256th use of a neighbour's heap."},
		{"host of streams", "Each host of streams has its own series, with the sum over the host's streams. The label `host` is the address of the host's NIC."},
		{"server of remote procedures", "Each server has its own series. The label `server` is `rpc`, `rpc#2` and so on, in the order in which the process began to watch them. " +
			"If a server has more than 32 versions of programs, the remaining versions share the series `program=\"other\"`."},
		{"daemon of a node", "Each VMMC daemon (`bobnet daemon --metrics ADDR`) has its own series. The label `node` is the daemon's node."},
		{"tun", "Each IP network over VIs (`bobnet tun --metrics ADDR`) has its own series. The label `device` is the name of the network's interface."},
		{"card", "Each card of the emulated Myrinet in a process has its own series. The label `card` is the card's interface."},
		{"card that holds endpoints", "A card that runs the control program of active messages (`endpoint/lanai`) has these series in addition to the series of a card. " +
			"It lacks `bobnet_card_send_ring_frames`, `bobnet_card_receive_ring_frames` and `bobnet_card_bad_doorbells_total`."},
		{"card that runs VMMC", "A card that runs VMMC's control program (`vmmc/lanai`) has these series in addition to the series of a card. It lacks the same three metrics as a card that holds endpoints."},
		{"host's mapper", "Each card whose host takes part in mapping has its own series. Metrics whose names begin with `bobnet_map_` exist only for the host that leads the mapping."},
		{"switch's port", "Each port of `bobnet switch` with a cable has its own series. The labels `port` and `interface` are the port's number and interface."},
	} {
		fmt.Fprintf(&b, "\n## Of a %s\n\n%s\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n", of.name, of.intro)
		for _, m := range all[of.name] {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
		}
	}
	b.WriteString(referenceAgent)
	explained := func(label, name string) { values(&b, fmt.Sprintf("`%s` of `%s`", label, name), metrics.Reasons(name)) }
	values(&b, "`reason` of `bobnet_nic_receive_dropped_frames_total` and `bobnet_vi_receive_dropped_frames_total`", reasonsOf(t, "../internal/drops/drops.go", "", texts(drops.All())))
	explained("reason", "bobnet_link_dropped_frames_total")
	explained("reason", "bobnet_seal_dropped_frames_total")
	var codes []string
	for c := range (vipl.ErrorCounts{}) {
		codes = append(codes, vipl.ErrorCode(c).String())
	}
	values(&b, "`code` of `bobnet_nic_asynchronous_errors_total`", reasonsOf(t, "../vipl/async.go", "Code", codes))
	explained("cause", "bobnet_vi_retransmissions_total")
	var kinds []string
	for k := range (mplite.Stats{}).Collectives {
		kinds = append(kinds, "`"+mplite.Collective(k).String()+"`")
	}
	var why []string
	for r := 1; r < len(endpoint.Stats{}.Refused); r++ {
		why = append(why, strings.ReplaceAll(endpoint.Reason(r).String(), " ", "_"))
	}
	values(&b, "`reason` of `bobnet_am_refused_messages_total` and `bobnet_am_returned_messages_total`", reasonsOf(t, "../endpoint/internal/wire/reason.go", "Reason", why))
	explained("reason", "bobnet_vmmc_refused_total")
	explained("status", "bobnet_rpc_calls_total")
	for _, name := range []string{"bobnet_rpc_refused_calls_total", "bobnet_card_dropped_packets_total", "bobnet_tun_dropped_packets_total", "bobnet_amcard_nacks_total",
		"bobnet_amcard_returned_messages_total", "bobnet_amcard_dropped_total", "bobnet_vmmccard_refused_requests_total", "bobnet_vmmccard_dropped_packets_total"} {
		explained("reason", name)
	}
	fmt.Fprintf(&b, "\n## Values of `collective`\n\n%s.\n", strings.Join(kinds, ", "))
	return b.String()
}

func values(b *strings.Builder, of string, list [][2]string) {
	fmt.Fprintf(b, "\n## Values of %s\n\n| value | meaning |\n| --- | --- |\n", of)
	for _, v := range list {
		fmt.Fprintf(b, "| `%s` | %s |\n", v[0], v[1])
	}
}

func texts[T fmt.Stringer](all []T) []string {
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = v.String()
	}
	return list
}

// reasonsOf pairs labels with the comments behind the constants that they
// stand for, whose names begin with prefix and whose order is that of labels.
func reasonsOf(t *testing.T, file, prefix string, labels []string) [][2]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var list [][2]string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && len(list) < len(labels) && strings.HasPrefix(v.Names[0].Name, prefix) && v.Comment != nil {
			list = append(list, [2]string{labels[len(list)], strings.TrimSpace(v.Comment.Text())})
		}
		return true
	})
	if len(list) != len(labels) {
		t.Fatalf("%s has %d commented constants %s…, want %d", file, len(list), prefix, len(labels))
	}
	return list
}

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
