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
	agentMaxVIs   = 8                      // most VIs of a NIC that the agent gets separately, if they fit
	agentPatience = 800 * time.Millisecond // limit for collecting the metrics: the agent waits for a second
)

// errBusy is the answer to an agent's request while metrics are still being collected, because a
// lock is held.
var errBusy = fmt.Errorf("metrics: the previous collection is not complete")

// AnswerAgent answers the requests of the node's agent with the metrics and the dump of all objects
// that c watches, until stop is called. The agent (bobnet agent, at BOBNET_AGENT or
// /run/bobnet/agent.sock) serves them at its own endpoint. The agent may start later, or never.
// NICs whose sockets are from the agent answer its requests themselves, whether or not c watches
// them.
func (c *Collector) AnswerAgent() (stop func()) {
	return answerAgent(c, func() []byte {
		var b bytes.Buffer
		nics := slices.DeleteFunc(slices.Clone(c.nics.list()), func(n *watched[nicSource]) bool { return leased(n.it) })
		c.dump(nics).WriteTo(&b) // a buffer accepts everything
		return b.Bytes()
	})
}

// answerAgent is AnswerAgent with an explicit dump function.
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
		return nil, fmt.Errorf("metrics: the agent requested %q, this program supports %q and %q", what, agent.Metrics, agent.Dump)
	})
}

// forAgent is a collector whose metrics the agent gets.
type forAgent interface {
	prometheus.Collector
	collect(ch chan<- prometheus.Metric, maxVIs int, forAgent bool)
}

// limited is a forAgent with a limit on VIs, as a prometheus.Collector.
type limited struct {
	forAgent
	maxVIs int
}

// Collect implements prometheus.Collector.
func (l limited) Collect(ch chan<- prometheus.Metric) { l.collect(ch, l.maxVIs, true) }

// answerFor returns the answer that Said parses, of at most size bytes. It lists some VIs
// separately, or adds up all of them.
func answerFor(c forAgent, size int) ([]byte, error) {
	for _, maxVIs := range []int{agentMaxVIs, 0} {
		registry := prometheus.NewRegistry()
		if err := registry.Register(limited{c, maxVIs}); err != nil {
			return nil, err
		}
		families, err := registry.Gather() // everything that can be collected
		if len(families) == 0 && err != nil {
			return nil, err
		}
		text, err := json.Marshal(sayAll(families))
		if err != nil || len(text) <= size {
			return text, err
		}
	}
	return nil, fmt.Errorf("metrics: more than %d bytes, the limit of the agent", size)
}

// cut returns the lines of text that fit into size bytes, and a last line with the number of
// omitted bytes.
func cut(text []byte, size int) []byte {
	if len(text) <= size {
		return text
	}
	const room = 60 // for the last line
	end := bytes.LastIndexByte(text[:size-room], '\n') + 1
	return fmt.Appendf(text[:end:end], "and %d more bytes, omitted\n", len(text)-end)
}

// leased reports whether a NIC has sockets of the agent, which then queries the NIC directly.
func leased(n nicSource) bool {
	on, ok := n.(*vipl.NIC)
	if !ok {
		return false
	}
	return agent.LeaseOf(seam.Link(on)) != nil
}

// Limits on the answer of one program.
const (
	maxSaidSeries = 4000
	maxSaidLabels = 16
	maxLabelBytes = 128 // bytes of a label's name, and of its value
)

// saidFamily is a metric in a program's answer to the agent, in JSON. Help and type are omitted:
// both sides have them in their tables.
type saidFamily struct {
	Name   string
	Series []saidSeries
}

// saidSeries is one series of a saidFamily.
type saidSeries struct {
	Labels map[string]string `json:",omitempty"`
	Value  string            // a number in Prometheus's text format: JSON has no infinities
}

// sayAll returns families of counters and gauges in the format of an answer.
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

// Said returns the metrics in a program's answer to the node's agent (Collector.AnswerAgent). It
// adds the labels in who, which replace the program's labels of the same name. The answer may be
// arbitrary. Said omits metrics that no collector of this package exports, series that lack labels
// or have too many or too long ones, and series beyond the first 4000. It returns an error if the
// answer is malformed.
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
			if m := k.series(s, who); m != nil {
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

// series returns the series of the family for s, with the labels of who, or nil if s is invalid.
func (m *metric) series(s saidSeries, who prometheus.Labels) *dto.Metric {
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
		if len(name) > maxLabelBytes || len(value) > maxLabelBytes || !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix) {
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

// exported maps the names of all metrics that collectors of this package export.
var exported = sync.OnceValue(func() map[string]*metric { return byName(append(tables[:len(tables):len(tables)], switchTable)) })
