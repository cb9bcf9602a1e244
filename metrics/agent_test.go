package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// startAgent starts an agent that this process asks.
func startAgent(t *testing.T) *nodeagent.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	s, err := nodeagent.Listen(nodeagent.Config{Path: path, Unguarded: true, Policy: func() (nodeagent.Policy, error) { return nodeagent.ParsePolicy("all") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(agent.EnvPath, path)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return s
}

// asked returns what the only program of an agent answers, as soon as it is connected.
func asked(t *testing.T, s *nodeagent.Server, what string) []byte {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		for _, p := range s.Programs() {
			if body, err := p.Ask(what); !errors.Is(err, nodeagent.ErrSilent) {
				return body
			}
		}
	}
	t.Fatal("no program answers")
	return nil
}

// names returns the names of series, with their labels and values.
func names(families []*dto.MetricFamily) (all []string) {
	for _, f := range families {
		for _, m := range f.Metric {
			line := f.GetName()
			for _, l := range m.Label {
				line += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s %v %v %v", line, f.GetType(), m.GetCounter().GetValue(), m.GetGauge().GetValue()))
		}
	}
	return all
}

// TestAnswerAgent: an agent is told what a collector exports, of all kinds, and what it dumps.
func TestAnswerAgent(t *testing.T) {
	s := startAgent(t)
	c := metrics.NewCollector(nil)
	c.WatchNIC(nicWith(3))
	c.WatchNode(&fakeNode{Sent: 8})
	c.WatchComm(&fakeComm{EagerSent: 5})
	defer c.AnswerAgent()()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	want, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := names(said(t, asked(t, s, agent.Metrics), nil))
	if want := names(want); !slices.Equal(got, want) || len(got) < 100 {
		t.Errorf("the agent hears %d series, the collector exports %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	text := string(asked(t, s, agent.Dump))
	for _, want := range []string{"NIC bob0 ", `rank 2 of 4 in job "fake"`, "node 02:00:00:00:00:01/7"} {
		if !strings.Contains(text, want) {
			t.Errorf("the agent's dump lacks %q:\n%s", want, text)
		}
	}
	if body := asked(t, s, "the weather"); len(body) > 0 {
		t.Errorf("a question that nobody knows is answered by %q", body)
	}
}

// TestAnswerAgentMuch: of a program with many NICs the agent is told no VI one by one, of one
// with too many nothing; a long dump is cut.
func TestAnswerAgentMuch(t *testing.T) {
	s := startAgent(t)
	c := metrics.NewCollector(nil)
	for range 10 {
		c.WatchNIC(nicWith(500))
	}
	stop := c.AnswerAgent()
	var body []byte
	for end := time.Now().Add(30 * time.Second); len(body) == 0 && time.Now().Before(end); {
		body = asked(t, s, agent.Metrics) // nothing while they are collected, which a busy machine takes a while for
	}
	lines := names(said(t, body, nil))
	if n := len(slices.DeleteFunc(lines, func(line string) bool {
		return !strings.HasPrefix(line, "bobnet_vi_transmit_bytes_total ") || !strings.Contains(line, `vi="other"`)
	})); n != 10 {
		t.Errorf("%d NICs have their VIs added up, want 10", n)
	}
	dump := asked(t, s, agent.Dump)
	if len(dump) > agent.MaxText || !strings.HasSuffix(string(dump), "more bytes, omitted\n") {
		t.Errorf("a dump of %d bytes ends with %q", len(dump), dump[max(0, len(dump)-80):])
	}
	for range 100 {
		c.WatchNIC(nicWith(1))
	}
	if body := asked(t, s, agent.Metrics); len(body) > 0 {
		t.Errorf("too many metrics are %d bytes", len(body))
	}
	stop()
	for end := time.Now().Add(30 * time.Second); len(s.Programs()) > 0; {
		if time.Now().After(end) {
			t.Fatal("the program is still connected")
		}
	}
}

// TestAnswerAgentStuck: a NIC that does not answer keeps no dump from the agent, and the
// metrics are answered by nothing.
func TestAnswerAgentStuck(t *testing.T) {
	defer metrics.SetPatience(10 * time.Millisecond)()
	s := startAgent(t)
	stuck := &stuckNIC{free: make(chan struct{})}
	defer close(stuck.free)
	c := metrics.NewCollector(nil)
	c.WatchNIC(stuck)
	defer c.AnswerAgent()()
	for range 2 {
		if body := asked(t, s, agent.Metrics); len(body) > 0 {
			t.Errorf("metrics with a NIC that is stuck: %q", body)
		}
		if text := string(asked(t, s, agent.Dump)); !strings.Contains(text, "NIC 0 does not answer") {
			t.Errorf("the dump does not say so:\n%s", text)
		}
	}
}

// said returns what an answer says.
func said(t *testing.T, answer []byte, who prometheus.Labels) []*dto.MetricFamily {
	t.Helper()
	families, err := metrics.Said(answer, who)
	if err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	return families
}

// TestSaid: of what programs say only what a collector exports is taken, with the labels of the
// program, under this package's type and help.
func TestSaid(t *testing.T) {
	who := prometheus.Labels{"pid": "7", "program": "p"}
	frames := func(series string) string {
		return `[{"Name":"bobnet_nic_transmit_frames_total","Series":[` + series + `]}]`
	}
	const (
		ok  = `{"Labels":{"interface":"bob0","port":"1"},"Value":"3"}`
		one = `bobnet_nic_transmit_frames_total interface="bob0" pid="7" port="1" program="p" COUNTER 3 0`
	)
	for name, tt := range map[string]struct {
		answer string
		want   []string
	}{
		"nothing":               {"[]", nil},
		"null":                  {"null", nil},
		"one":                   {frames(ok), []string{one}},
		"a label more":          {frames(`{"Labels":{"interface":"bob0","port":"1","rank":"2"},"Value":"3"}`), []string{`bobnet_nic_transmit_frames_total interface="bob0" pid="7" port="1" program="p" rank="2" COUNTER 3 0`}},
		"an infinity":           {frames(`{"Labels":{"interface":"bob0","port":"1"},"Value":"+Inf"}`), []string{`bobnet_nic_transmit_frames_total interface="bob0" pid="7" port="1" program="p" COUNTER +Inf 0`}},
		"another's labels":      {frames(`{"Labels":{"interface":"bob0","port":"1","pid":"1","program":"init"},"Value":"3"}`), []string{one}},
		"help and type":         {`[{"Name":"bobnet_nic_transmit_frames_total","Help":"false","Type":"GAUGE","Series":[` + ok + `]}]`, []string{one}},
		"no number":             {frames(`{"Labels":{"interface":"bob0","port":"1"},"Value":"many"},` + ok), []string{one}},
		"no value":              {frames(`{"Labels":{"interface":"bob0","port":"1"}}`), nil},
		"a label is missing":    {frames(`{"Labels":{"interface":"bob0"},"Value":"3"}`), nil},
		"no label":              {frames(`{"Value":"3"}`), nil},
		"a long value":          {frames(fmt.Sprintf(`{"Labels":{"interface":"%s","port":"1"},"Value":"3"}`, strings.Repeat("x", 129))), nil},
		"a long name":           {frames(fmt.Sprintf(`{"Labels":{"interface":"bob0","port":"1","%s":""},"Value":"3"}`, strings.Repeat("x", 129))), nil},
		"a reserved label":      {frames(`{"Labels":{"interface":"bob0","port":"1","__name__":"up"},"Value":"3"}`), nil},
		"no name of a label":    {frames(`{"Labels":{"interface":"bob0","port":"1","a b":"up"},"Value":"3"}`), nil},
		"no metric of Bobnet's": {`[{"Name":"up","Series":[{"Value":"1"}]},{"Name":"bobnet_agent_program_answers","Series":[{"Value":"1"}]}]`, nil},
	} {
		families := said(t, []byte(tt.answer), who)
		if got := names(families); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		for _, f := range families {
			if f.GetHelp() != "Frames passed to the link." {
				t.Errorf("%s: the help is %q", name, f.GetHelp())
			}
		}
	}
	if _, err := metrics.Said([]byte("{}"), who); err == nil {
		t.Error("what is no list was taken")
	}
	if n := len(names(said(t, []byte(frames(strings.Repeat(ok+",", 10000)+ok)), who))); n != 4000 {
		t.Errorf("of 10001 series %d are taken", n)
	}
	labels := ""
	for i := range 15 {
		labels += fmt.Sprintf(`"l%d":"",`, i)
	}
	if n := len(names(said(t, []byte(frames(`{"Labels":{`+labels+`"interface":"bob0","port":"1"},"Value":"3"}`)), who))); n != 0 {
		t.Error("a series with 17 labels was taken")
	}
}

// TestSaidComplete: what is taken of programs is what the tables hold.
func TestSaidComplete(t *testing.T) {
	known := metrics.Exported()
	for _, list := range metrics.Metrics() {
		for _, m := range list {
			if known[m.Name] != fmt.Sprint(m.Help, m.Type, m.Labels) {
				t.Errorf("%s is exported as %s %s %v, and taken as %q", m.Name, m.Help, m.Type, m.Labels, known[m.Name])
			}
			delete(known, m.Name)
		}
	}
	if len(known) > 0 {
		t.Errorf("not exported: %q", slices.Sorted(maps.Keys(known)))
	}
}

var seeds = seedtest.Flags("metrics", 4).Each

// TestSaidMutated: whatever a program says, what is taken of it can be exported.
func TestSaidMutated(t *testing.T) {
	who := prometheus.Labels{"pid": "7", "program": "p", "uid": "1"}
	answers := []string{
		`[{"Name":"bobnet_nic_transmit_frames_total","Series":[{"Labels":{"interface":"bob0","port":"1"},"Value":"3"}]}]`,
		`[{"Name":"bobnet_mplite_collectives_total","Series":[{"Labels":{"collective":"\n\u0000"},"Value":"NaN"}]}, {}]`,
		`[{"Name":"bobnet_nic_mtu_bytes","Series":[{"Labels":{"interface":"","port":"","\ud800":"x"},"Value":"-0x1p-2"}, null]}]`,
	}
	seeds(t, 20000, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		answer := []byte(answers[rng.IntN(len(answers))])
		for range rng.IntN(4) {
			at := rng.IntN(len(answer))
			switch rng.IntN(3) {
			case 0:
				answer[at] = byte(rng.Uint32())
			case 1:
				answer = slices.Delete(answer, at, min(at+1+rng.IntN(8), len(answer)))
			case 2:
				answer = slices.Insert(answer, at, answer[at:min(at+1+rng.IntN(40), len(answer))]...)
			}
			answer = append(answer, ' ')
		}
		families, err := metrics.Said(answer, who)
		if err != nil {
			return nil
		}
		var all prometheus.Gatherers
		seen := map[string]bool{}
		for _, f := range families {
			for _, m := range f.Metric {
				if key := fmt.Sprint(f.GetName(), m.Label); !seen[key] { // twice the same is what Gather leaves out
					seen[key] = true
					all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
						return []*dto.MetricFamily{{Name: f.Name, Help: f.Help, Type: f.Type, Metric: []*dto.Metric{m}}}, nil
					}))
				}
			}
		}
		if _, err := all.Gather(); err != nil {
			return fmt.Errorf("seed %d: %q: %w", seed, answer, err)
		}
		return nil
	})
}
