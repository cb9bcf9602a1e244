package metrics

import (
	"fmt"
	"testing"
	"time"
)

// SetPatience changes how long dumps wait, until restore is called.
func SetPatience(d time.Duration) (restore func()) {
	old := dumpPatience
	dumpPatience = d
	return func() { dumpPatience = old }
}

// Metric is what is known of a metric before it has a value.
type Metric struct {
	Name, Help, Type string
	Labels           []string
}

// Metrics returns all metrics of a Collector in the order of its tables, by
// what they are of.
func Metrics() map[string][]Metric {
	all := map[string][]Metric{}
	for _, t := range append(tables[:len(tables):len(tables)], switchTable) {
		for _, m := range t.metrics {
			all[t.of] = append(all[t.of], Metric{m.name, m.help, kindName(m), m.labels})
		}
	}
	return all
}

// Exported returns what is taken of programs by an agent: help, type and labels.
func Exported() map[string]string {
	all := map[string]string{}
	for name, m := range exported() {
		all[name] = fmt.Sprint(m.help, kindName(m), m.labels)
	}
	return all
}

func kindName(m *metric) string {
	if m.gauge() {
		return "gauge"
	}
	return "counter"
}

// Reasons returns the values of the last label of a metric, and what they mean.
func Reasons(name string) (list [][2]string) {
	for _, t := range tables {
		for _, x := range t.series {
			if x.name == name {
				list = append(list, [2]string{x.reason, x.means})
			}
		}
	}
	return list
}

// ShortTimeouts makes all time-outs of servers that start in t this short.
func ShortTimeouts(t *testing.T, d time.Duration) {
	saved := timeouts
	timeouts.header, timeouts.read, timeouts.write, timeouts.idle = d, d, d, d
	t.Cleanup(func() { timeouts = saved })
}
