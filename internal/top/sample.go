package top

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/bobnet-go/bobnet/vipl"
)

// Sample contains the reports of all sources at one time. The zero value is empty.
type Sample struct {
	At    time.Time
	Notes []string // errors of sources

	nics  map[nicKey]*nic
	vis   map[viKey]*vi
	found []vipl.Station
}

// nicKey identifies a NIC while its program runs.
type nicKey struct{ program, iface, port string }

// viKey identifies a VI of a NIC.
type viKey struct {
	nicKey
	vi string
}

// nic contains the metrics of a NIC.
type nic struct {
	mac, driver, incarnation string
	vis                      float64
	total                    totals
}

// vi contains the metrics of a VI.
type vi struct {
	remote, state, level        string
	flight, roundTrip, oldest   float64
	total                       totals
	sendQueue, receiveUnclaimed float64
}

// totals contains the counters that are displayed as rates.
type totals struct{ txBytes, rxBytes, txFrames, rxFrames, again, dropped float64 }

// own lists the labels that identify an object within a program. All other labels identify the
// program.
var own = map[string]bool{"interface": true, "port": true, "vi": true, "mac": true, "driver": true, "incarnation": true,
	"remote": true, "level": true, "state": true, "reason": true, "cause": true}

// ofNIC maps a metric to the field of a NIC that it is added to; ofVI does the same for a VI.
var (
	ofNIC = map[string]func(*nic) *float64{
		"bobnet_nic_virtual_interfaces":            func(n *nic) *float64 { return &n.vis },
		"bobnet_nic_transmit_bytes_total":          func(n *nic) *float64 { return &n.total.txBytes },
		"bobnet_nic_receive_bytes_total":           func(n *nic) *float64 { return &n.total.rxBytes },
		"bobnet_nic_transmit_frames_total":         func(n *nic) *float64 { return &n.total.txFrames },
		"bobnet_nic_receive_frames_total":          func(n *nic) *float64 { return &n.total.rxFrames },
		"bobnet_nic_retransmitted_frames_total":    func(n *nic) *float64 { return &n.total.again },
		"bobnet_nic_transmit_dropped_frames_total": func(n *nic) *float64 { return &n.total.dropped },
		"bobnet_nic_receive_dropped_frames_total":  func(n *nic) *float64 { return &n.total.dropped },
		"bobnet_link_dropped_frames_total":         func(n *nic) *float64 { return &n.total.dropped },
	}
	ofVI = map[string]func(*vi) *float64{
		"bobnet_vi_transmit_bytes_total":              func(v *vi) *float64 { return &v.total.txBytes },
		"bobnet_vi_receive_bytes_total":               func(v *vi) *float64 { return &v.total.rxBytes },
		"bobnet_vi_transmit_frames_total":             func(v *vi) *float64 { return &v.total.txFrames },
		"bobnet_vi_receive_frames_total":              func(v *vi) *float64 { return &v.total.rxFrames },
		"bobnet_vi_retransmitted_frames_total":        func(v *vi) *float64 { return &v.total.again },
		"bobnet_vi_receive_dropped_frames_total":      func(v *vi) *float64 { return &v.total.dropped },
		"bobnet_vi_frames_in_flight":                  func(v *vi) *float64 { return &v.flight },
		"bobnet_vi_round_trip_seconds":                func(v *vi) *float64 { return &v.roundTrip },
		"bobnet_vi_oldest_unacknowledged_seconds":     func(v *vi) *float64 { return &v.oldest },
		"bobnet_vi_send_queue_descriptors":            func(v *vi) *float64 { return &v.sendQueue },
		"bobnet_vi_receive_queue_untaken_descriptors": func(v *vi) *float64 { return &v.receiveUnclaimed },
	}
)

// Read adds the metrics of one source, in Prometheus's text format. labels are additional labels of
// the source; name is the program's name if no label contains it. If the text is invalid from some
// point on, the part before it counts.
func (s *Sample) Read(name string, labels map[string]string, in io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(in)
	for _, family := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[family].GetMetric() {
			s.addMetric(family, m, name, labels)
		}
	}
	return err
}

// addMetric adds one metric, if it is displayed.
func (s *Sample) addMetric(family string, m *dto.Metric, name string, labels map[string]string) {
	toNIC, toVI := ofNIC[family], ofVI[family]
	if toNIC == nil && toVI == nil && family != "bobnet_nic_info" && family != "bobnet_vi_info" {
		return
	}
	label := map[string]string{}
	for _, pair := range m.GetLabel() {
		label[pair.GetName()] = printable(pair.GetValue())
	}
	key := nicKey{programOf(name, labels, label), label["interface"], label["port"]}
	switch {
	case toNIC != nil:
		*toNIC(s.nic(key)) += valueOf(m)
	case toVI != nil:
		*toVI(s.vi(viKey{key, label["vi"]})) += valueOf(m)
	case family == "bobnet_nic_info":
		n := s.nic(key)
		n.mac, n.driver, n.incarnation = label["mac"], label["driver"], label["incarnation"]
	default:
		v := s.vi(viKey{key, label["vi"]})
		v.remote, v.state, v.level = label["remote"], label["state"], label["level"]
	}
}

func (s *Sample) nic(key nicKey) *nic {
	if s.nics == nil {
		s.nics = map[nicKey]*nic{}
	}
	if s.nics[key] == nil {
		s.nics[key] = &nic{}
	}
	return s.nics[key]
}

func (s *Sample) vi(key viKey) *vi {
	if s.vis == nil {
		s.vis = map[viKey]*vi{}
	}
	if s.vis[key] == nil {
		s.vis[key] = &vi{}
	}
	return s.vis[key]
}

// Found adds the stations that have answered on the segment.
func (s *Sample) Found(stations []vipl.Station) { s.found = append(s.found, stations...) }

// programOf names a program by the labels that do not identify a part of it.
func programOf(name string, known, label map[string]string) string {
	all := map[string]string{}
	for k, v := range known {
		if !strings.HasPrefix(k, "__") {
			all[k] = printable(v)
		}
	}
	for k, v := range label {
		if !own[k] {
			all[k] = v
		}
	}
	if len(all) == 0 {
		return name
	}
	var text []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		text = append(text, fmt.Sprintf("%s=%s", k, all[k]))
	}
	return strings.Join(text, ",")
}

// valueOf returns the number of a counter, a gauge, or a metric without a type.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// printable makes text from a program safe for a terminal.
func printable(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '?'
		}
		return c
	}, text)
}

// maxText is the maximum length of a label on the screen.
const maxText = 80
