package metrics

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
)

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
