package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
)

const (
	agentMaxVIs   = 8                      // VIs of a NIC that the agent is told of one by one, if they fit
	agentPatience = 800 * time.Millisecond // how long the metrics may take to collect: the agent waits for a second
)

// errBusy is the answer to an agent that asks while metrics are still being collected, because
// somebody holds a lock.
var errBusy = fmt.Errorf("metrics: the metrics asked for before are not collected yet")

// AnswerAgent has the node's agent (bobnet agent, at BOBNET_AGENT or /run/bobnet/agent.sock) told
// the metrics and the dump of what c watches whenever it asks, so that they are at its endpoint,
// until stop is called. The agent may start later, or never. NICs with sockets of the agent's
// answer for themselves, watched or not.
func (c *Collector) AnswerAgent() (stop func()) {
	return answerAgent(c, func() []byte {
		var b bytes.Buffer
		nics := slices.DeleteFunc(slices.Clone(c.nics.list()), func(n *watched[nicSource]) bool { return leased(n.it) })
		c.dump(nics).WriteTo(&b) // a buffer takes everything
		return b.Bytes()
	})
}

// answerAgent is AnswerAgent for what collects, and what dumps.
func answerAgent(c forAgent, dump func() []byte) (stop func()) {
	var busy atomic.Bool
	return agent.Tell(agent.Path(), func(what string) ([]byte, error) {
		switch what {
		case agent.Dump:
			return cut(dump(), agent.MaxText), nil
		case agent.Metrics:
			if !busy.CompareAndSwap(false, true) {
				return nil, errBusy
			}
			type result struct {
				text []byte
				err  error
			}
			got, ok := within(agentPatience, func() result {
				defer busy.Store(false)
				text, err := answerFor(c, agent.MaxText)
				return result{text, err}
			})
			if !ok {
				return nil, errBusy
			}
			return got.text, got.err
		}
		return nil, fmt.Errorf("metrics: the agent asks for %q, and this program knows %q and %q", what, agent.Metrics, agent.Dump)
	})
}

// forAgent is what the agent is told the metrics of.
type forAgent interface {
	prometheus.Collector
	collect(ch chan<- prometheus.Metric, maxVIs int, forAgent bool)
}

// limited collects for the agent.
type limited struct {
	forAgent
	maxVIs int
}

// Collect implements prometheus.Collector.
func (l limited) Collect(ch chan<- prometheus.Metric) { l.collect(ch, l.maxVIs, true) }

// answerFor returns what Said reads, of at most size bytes: with some VIs one by one, or with
// all added up.
func answerFor(c forAgent, size int) ([]byte, error) {
	for _, maxVIs := range []int{agentMaxVIs, 0} {
		registry := prometheus.NewRegistry()
		if err := registry.Register(limited{c, maxVIs}); err != nil {
			return nil, err
		}
		families, err := registry.Gather() // all that can be collected
		if len(families) == 0 && err != nil {
			return nil, err
		}
		text, err := json.Marshal(sayAll(families))
		if err != nil || len(text) <= size {
			return text, err
		}
	}
	return nil, fmt.Errorf("metrics: more than %d bytes of them: the agent takes no more", size)
}

// cut returns the lines of text that fit into size bytes with a last one that says what is
// left out.
func cut(text []byte, size int) []byte {
	if len(text) <= size {
		return text
	}
	const room = 60 // for the last line
	end := bytes.LastIndexByte(text[:size-room], '\n') + 1
	return fmt.Appendf(text[:end:end], "and %d bytes more, which are left out\n", len(text)-end)
}

// leased reports whether a NIC has sockets of the agent's, which asks it then.
func leased(n nicSource) bool {
	on, ok := n.(*vipl.NIC)
	if !ok {
		return false
	}
	return agent.LeaseOf(seam.Link(on)) != nil
}

// Bounds on what is taken of what one program says.
const (
	maxSaidSeries = 4000
	maxSaidLabels = 16
	maxSaidOctets = 128 // of a label's name and of its value
)

// saidFamily is a metric as a program tells the agent of it, in JSON. Help and type are not said:
// both sides have them in their tables.
type saidFamily struct {
	Name   string
	Series []saidSeries
}

// saidSeries is one of its series.
type saidSeries struct {
	Labels map[string]string `json:",omitempty"`
	Value  string            // a number as Prometheus writes it: JSON has no infinities
}

// sayAll returns families of counters and gauges as they are told.
func sayAll(families []*dto.MetricFamily) []saidFamily {
	all := make([]saidFamily, len(families))
	for i, f := range families {
		all[i].Name = f.GetName()
		for _, m := range f.Metric {
			s := saidSeries{map[string]string{}, strconv.FormatFloat(m.GetCounter().GetValue()+m.GetGauge().GetValue(), 'g', -1, 64)}
			for _, pair := range m.Label {
				s.Labels[pair.GetName()] = pair.GetValue()
			}
			all[i].Series = append(all[i].Series, s)
		}
	}
	return all
}

// Said returns the metrics that a program has answered the node's agent with
// (Collector.AnswerAgent), with the labels in who added, or in place of the program's of the
// same name. The answer may be anybody's: what no collector of this package exports is left
// out, and so are series that lack labels or have too many or too long ones, and those beyond
// the first 4000. It fails if the answer is not of that form at all.
func Said(answer []byte, who prometheus.Labels) (families []*dto.MetricFamily, err error) {
	var heard []saidFamily
	if err := json.Unmarshal(answer, &heard); err != nil {
		return nil, err
	}
	known, left := exported(), maxSaidSeries
	for i := range heard {
		k, ok := known[heard[i].Name]
		if !ok {
			continue
		}
		_, kind := k.kind()
		f := &dto.MetricFamily{Name: &k.name, Help: &k.help, Type: kind.Enum()}
		for _, s := range heard[i].Series {
			if left == 0 {
				break
			}
			if m := k.take(s, who); m != nil {
				f.Metric = append(f.Metric, m)
				left--
			}
		}
		if len(f.Metric) > 0 {
			families = append(families, f)
		}
	}
	return families, nil
}

// take returns a series of the family that says what s says, and of whom; nil if s is none.
func (m *metric) take(s saidSeries, who prometheus.Labels) *dto.Metric {
	value, err := strconv.ParseFloat(s.Value, 64)
	if err != nil || len(s.Labels) > maxSaidLabels {
		return nil
	}
	for _, name := range m.labels {
		if _, ok := s.Labels[name]; !ok {
			return nil
		}
	}
	for name, value := range s.Labels {
		if len(name) > maxSaidOctets || len(value) > maxSaidOctets || !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix) {
			return nil
		}
	}
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, who)
	x := &dto.Metric{}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		x.Label = append(x.Label, &dto.LabelPair{Name: &name, Value: &value})
	}
	if m.gauge() {
		x.Gauge = &dto.Gauge{Value: &value}
	} else {
		x.Counter = &dto.Counter{Value: &value}
	}
	return x
}

// exported returns all that collectors of this package export, by name.
var exported = sync.OnceValue(func() map[string]*metric { return byName(append(tables[:len(tables):len(tables)], switchTable)) })
