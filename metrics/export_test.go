package metrics

import (
	"fmt"
	"strings"
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
	all := map[string][]Metric{
		"NIC":                         list(nicFields, nicLabels),
		"NIC whose frames are sealed": list(sealFields, nicLabels),
		"VI":                          list(viFields, viLabels),
		"rank":                        list(rankFields, nil),
		"node":                        list(nodeFields, nodeLabels),

		"process of VMMC":    list(processFields, processLabels),
		"process of Split-C": list(worldFields, worldLabels),

		"host of streams": list(streamFields, streamLabels),

		"server of remote procedures": list(rpcFields, rpcLabels),

		"daemon of a node": list(daemonFields, daemonLabels),

		"switch's port": list(switchFields, switchLabels),
		"tun":           list(tunFields, tunLabels),

		"card": append(list(cardFields, cardLabels), list(plainFields, cardLabels)...),

		"card that holds endpoints": list(endpointCardFields, cardLabels),
		"card that runs VMMC":       list(vmmcCardFields, cardLabels),

		"host's mapper": append(list(mapperFields, cardLabels), list(mapFields, cardLabels)...),
	}
	for _, f := range families {
		of := "rank"
		switch {
		case len(f.labels) > 2 && f.labels[2] == "vi":
			of = "VI"
		case strings.HasPrefix(f.name, "bobnet_seal_"):
			of = "NIC whose frames are sealed"
		case f.labels[0] == "interface":
			of = "NIC"
		case f.labels[0] == "node":
			of = "node"
		case strings.HasPrefix(f.name, "bobnet_amcard_"):
			of = "card that holds endpoints"
		case strings.HasPrefix(f.name, "bobnet_vmmccard_"):
			of = "card that runs VMMC"
		case f.labels[0] == "card":
			of = "card"
		case f.labels[0] == "device":
			of = "tun"
		case f.labels[0] == "process":
			of = "process of VMMC"
		case f.labels[0] == "layer":
			of = "process of Split-C"
		case f.labels[0] == "server":
			of = "server of remote procedures"
		}
		all[of] = append(all[of], Metric{f.name, f.help, kindName(f.gauge), f.labels})
	}
	return all
}

// Exported returns what is taken of programs by an agent: help, type and labels.
func Exported() map[string]string {
	all := map[string]string{}
	for name, f := range exported() {
		all[name] = fmt.Sprint(f.help, kindName(f.gauge), f.labels)
	}
	return all
}

func list[S any](fields []field[S], labels []string) []Metric {
	all := make([]Metric, len(fields))
	for i, f := range fields {
		all[i] = Metric{f.name, f.help, kindName(f.gauge), labels}
	}
	return all
}

func kindName(gauge bool) string {
	if gauge {
		return "gauge"
	}
	return "counter"
}

// Reasons returns the values of the labels that count things apart, and what
// they mean: of the link's losses and of retransmissions.
func Reasons() (link, cause [][2]string) { return reasons(linkDrops), reasons(causes) }

// RefusalReasons is Reasons of VMMC's refused writes, and of calls of remote procedures: what
// became of them, and why they were refused.
func RefusalReasons() (writes, calls, refused [][2]string) {
	return reasons(writeRefusals), reasons(callStatuses), reasons(callRefusals)
}

// SealReasons is Reasons of frames that are not opened, or not sent sealed.
func SealReasons() [][2]string { return reasons(sealDrops) }

// CardReasons is Reasons of the packets that cards lose.
func CardReasons() [][2]string { return reasons(cardDrops) }

// EndpointCardReasons is Reasons of a card that holds endpoints: of its NACKs, of messages that
// it gives back, and of what it drops. VMMCCardReasons is Reasons of one that runs VMMC: of
// requests that it refuses, and of packets that it drops.
func EndpointCardReasons() (nacks, returns, drops [][2]string) {
	return reasons(endpointCardNacks), reasons(endpointCardReturns), reasons(endpointCardDrops)
}

// VMMCCardReasons: see EndpointCardReasons.
func VMMCCardReasons() (refusals, drops [][2]string) {
	return reasons(vmmcCardRefusals), reasons(vmmcCardDrops)
}

func reasons[S any](all []reason[S]) [][2]string {
	list := make([][2]string, len(all))
	for i := range all {
		list[i] = [2]string{all[i].name, all[i].help}
	}
	return list
}

// TunReasons is Reasons of the packets that are not carried between hosts.
func TunReasons() [][2]string { return reasons(tunDrops) }

// ShortTimeouts makes all time-outs of servers that start in t this short.
func ShortTimeouts(t *testing.T, d time.Duration) {
	saved := timeouts
	timeouts.header, timeouts.read, timeouts.write, timeouts.idle = d, d, d, d
	t.Cleanup(func() { timeouts = saved })
}
