package metrics

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metric is what Prometheus needs to know of a metric before it has a value.
type metric struct {
	name, help string
	labels     []string
}

func (m *metric) gauge() bool { return !strings.HasSuffix(m.name, "_total") }

func (m *metric) kind() (prometheus.ValueType, dto.MetricType) {
	if m.gauge() {
		return prometheus.GaugeValue, dto.MetricType_GAUGE
	}
	return prometheus.CounterValue, dto.MetricType_COUNTER
}

// table holds the metrics of a kind of thing: those that tags describe (package counters), and those
// that are computed.
type table struct {
	of      string // the thing, as docs/metrics.md names it
	labels  []string
	metrics []*metric
	series  []series
}

// series is one of a metric, with the value of its last label if the metric has several.
type series struct {
	*metric
	reason, means string
	sparse        bool
	value         func(v reflect.Value) (n float64, ok bool)
}

// shared adds to what tags say of a metric that has several fields: its help, and the label that
// tells its series apart, if there is one.
type shared struct {
	name, help, label string
	reasons           []reason // of an array, by index; those without a name have no series
	sparse            bool     // series that are 0 are left out
}

// reason is a value of a label.
type reason struct{ name, means string }

// computed is a series whose value no field holds.
type computed[S any] struct {
	name, reason, help string
	value              func(*S) float64
}

// tableOf returns the table of S with the tagged metrics whose names begin with one of prefixes.
func tableOf[S any](of string, labels []string, prefixes string, sharing []shared, also ...computed[S]) *table {
	t := &table{of: of, labels: labels}
	wanted := strings.Fields(prefixes)
	for _, f := range counters.Of(reflect.TypeFor[S]()) {
		if !slices.ContainsFunc(wanted, func(prefix string) bool { return strings.HasPrefix(f.Metric, prefix) }) {
			continue
		}
		k := slices.IndexFunc(sharing, func(s shared) bool { return s.name == f.Metric })
		switch {
		case k < 0:
			t.add(shared{name: f.Metric, help: f.Help}, series{value: f.Value})
		case f.Len == 0:
			t.add(sharing[k], series{reason: f.Reason, means: f.Help, value: f.Value})
		}
		for i := range f.Len {
			if r := sharing[k].reasons[i]; r.name != "" {
				t.add(sharing[k], series{reason: r.name, means: r.means, value: func(v reflect.Value) (float64, bool) { return f.At(v, i) }})
			}
		}
	}
	for _, c := range also {
		k := slices.IndexFunc(sharing, func(s shared) bool { return s.name == c.name })
		x := series{value: func(v reflect.Value) (float64, bool) { return c.value(v.Addr().Interface().(*S)), true }}
		if k < 0 {
			t.add(shared{name: c.name, help: c.help}, x)
		} else {
			x.reason, x.means = c.reason, c.help
			t.add(sharing[k], x)
		}
	}
	return t
}

func (t *table) add(s shared, x series) {
	k := slices.IndexFunc(t.metrics, func(m *metric) bool { return m.name == s.name })
	if k < 0 {
		m := &metric{name: s.name, help: s.help, labels: t.labels}
		if s.label != "" {
			m.labels = append(m.labels[:len(m.labels):len(m.labels)], s.label)
		}
		k, t.metrics = len(t.metrics), append(t.metrics, m)
	}
	x.metric, x.sparse = t.metrics[k], s.sparse
	t.series = append(t.series, x)
}

// byName returns the metrics of tables by name.
func byName(tables []*table) map[string]*metric {
	all := map[string]*metric{}
	for _, t := range tables {
		for _, m := range t.metrics {
			all[m.name] = m
		}
	}
	return all
}

// exporter exports the metrics of tables.
type exporter struct{ descs map[string]*prometheus.Desc }

func newExporter(constant prometheus.Labels, tables ...*table) exporter {
	e := exporter{map[string]*prometheus.Desc{}}
	for name, m := range byName(tables) {
		e.descs[name] = prometheus.NewDesc(name, m.help, m.labels, constant)
	}
	return e
}

// Describe implements prometheus.Collector.
func (e exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, name := range slices.Sorted(maps.Keys(e.descs)) {
		ch <- e.descs[name]
	}
}

// emit exports the metrics of t in s, a pointer to what t is of.
func (e exporter) emit(ch chan<- prometheus.Metric, t *table, s any, labels ...string) {
	v := reflect.ValueOf(s).Elem()
	for i := range t.series {
		x := &t.series[i]
		n, ok := x.value(v)
		if !ok || x.sparse && n == 0 {
			continue
		}
		its := labels
		if x.reason != "" {
			its = append(labels[:len(labels):len(labels)], x.reason)
		}
		kind, _ := x.kind()
		ch <- prometheus.MustNewConstMetric(e.descs[x.name], kind, n, its...)
	}
}

// emitAll exports all that is watched of a kind. The last label of one whose labels are those of
// another is made distinct.
func emitAll[T comparable, S any](e exporter, ch chan<- prometheus.Metric, w *watching[T], t *table, of func(T) S, labels func(T, *S) []string) {
	for _, x := range w.list() {
		s := of(x.it)
		e.emit(ch, t, &s, w.distinct(x, labels(x.it, &s)...)...)
	}
}
