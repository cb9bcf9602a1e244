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

Programs serve these metrics at ` + "`" + `/metrics` + "`" + ` with ` + "`" + `metrics.Serve` + "`" + `. ` + "`" + `bobnet perf` + "`" + `, ` + "`" + `bobnet lab` + "`" + ` and most other verbs and
examples do so with ` + "`" + `--metrics ADDR` + "`" + `. At the same address, ` + "`" + `/debug/bobnet` + "`" + ` shows what every channel waits for, as text or
with ` + "`" + `?format=json` + "`" + `, and ` + "`" + `/` + "`" + ` lists the pages. SIGQUIT prints the same dump. An address without a host, such as ` + "`" + `:9464` + "`" + `,
serves localhost only; ` + "`" + `0.0.0.0:9464` + "`" + ` also serves other hosts. ` + "`" + `bobnet lab` + "`" + ` and ` + "`" + `bobnet perf --local` + "`" + ` serve every rank at one
address: ` + "`" + `/` + "`" + ` and ` + "`" + `/metrics` + "`" + ` are an index of the ranks, ` + "`" + `/rank/0/metrics` + "`" + ` has the metrics of rank 0, and ` + "`" + `/targets` + "`" + `
lists all ranks for Prometheus's ` + "`" + `http_sd_configs` + "`" + `, with a label ` + "`" + `rank` + "`" + `.
[grafana.json](grafana.json) is a dashboard of the segment, NICs, VIs, active messages, VMMC and remote procedures.

Metrics that end in ` + "`" + `_total` + "`" + ` only grow. Query their rate, for example ` + "`" + `rate(bobnet_nic_transmit_bytes_total[1m])` + "`" + `. They
restart from 0 when a process opens a NIC or connects a VI again, which ` + "`" + `rate` + "`" + ` accounts for.

A NIC with more VIs than ` + "`" + `metrics.Config.MaxVIs` + "`" + ` has separate series for the first ones only. All others share
one series with ` + "`" + `vi="other"` + "`" + `: the sum of counters, queues and windows, and the maximum of times.
`

// referenceAgent is the section about the metrics of package nodeagent. A test of cmd/bobnet compares it with that package.
const referenceAgent = `
## Of the node's agent

` + "`" + `bobnet agent --metrics ADDR` + "`" + ` serves the metrics of all programs of the node that report to it (` + "`" + `Collector.AnswerAgent` + "`" + `; the commands
and examples here do), and those of all NICs with sockets of the agent. They have three more labels: ` + "`" + `program` + "`" + `, ` + "`" + `pid` + "`" + ` and
` + "`" + `uid` + "`" + `. The ` + "`" + `pid` + "`" + ` of a second collector of a process has the suffix ` + "`" + `#2` + "`" + `, and so has a second process whose number the agent cannot
see. The first 8 VIs of a NIC have separate series, or none if the metrics of a program exceed 256 KiB. The agent has
one more metric of its own:

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
		{"NIC", "One series for each NIC that a process watches, by `interface` and `port`, the lowest of its port range. " +
			"The port of a second NIC with the same labels, for example with another driver or EtherType, has the suffix `#2`; `bobnet_nic_info` distinguishes them."},
		{"NIC whose frames are sealed", "A NIC that has a key (`vipl.Config.Key`) has these series in addition to those of any NIC."},
		{"VI", "One series for each VI. The label `vi` is the VI's port; the other labels are those of its NIC."},
		{"rank", "One series for the process's rank in an MPLite job."},
		{"node", "One series for each node of active messages, by the address at which it accepts connections."},
		{"process of VMMC", "One series for each process, by its node and number."},
		{"process of Split-C", "One series for each process, by its communication layer and processor. The values of a process that waits are at most 20 ms old. " +
			"Those of another process are from its last wait, the last 64th call that polls, the first such call after a query, or the last 256th use of a neighbour's heap."},
		{"host of streams", "One series for each host of streams, by the address of its NIC, with the sum over its streams."},
		{"server of remote procedures", "One series for each server, `rpc`, `rpc#2` and so on in the order in which they were watched. " +
			"If a server has more than 32 versions of programs, the others share the series `program=\"other\"`."},
		{"daemon of a node", "One series for each daemon of VMMC, by its node: `bobnet daemon --metrics ADDR`."},
		{"tun", "One series for each IP network over VIs, by the name of its interface: `bobnet tun --metrics ADDR`."},
		{"card", "One series for each card of the emulated Myrinet that a process has, by its interface."},
		{"card that holds endpoints", "One series for each card that runs the program of active messages (`endpoint/lanai`), in addition to those of a card. It lacks `bobnet_card_send_ring_frames`, `bobnet_card_receive_ring_frames` and `bobnet_card_bad_doorbells_total`."},
		{"card that runs VMMC", "One series for each card that runs VMMC's program (`vmmc/lanai`), in addition to those of a card. It lacks the same three metrics."},
		{"host's mapper", "One series for each card whose host takes part in mapping. Metrics that begin with `bobnet_map_` exist only for the host that leads."},
		{"switch's port", "One series for each port of `bobnet switch` that has a cable, by the number of the port and its interface."},
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
