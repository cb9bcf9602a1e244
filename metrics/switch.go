package metrics

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/prometheus/client_golang/prometheus"
)

// Switch is what a SwitchCollector asks of a switch; *myrinet.LiveSwitch has it.
type Switch interface {
	String() string
	Ports() []myrinet.LivePort
}

var switchLabels = []string{"switch", "port", "interface"}

var switchFields = []field[myrinet.LivePort]{
	{"bobnet_switch_port_up", "1 if the other end of the cable is there.", true, func(p *myrinet.LivePort) float64 {
		if p.Up {
			return 1
		}
		return 0
	}},
	{"bobnet_switch_receive_packets_total", "Packets that came in by the port.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.PacketsIn) }},
	{"bobnet_switch_receive_bytes_total", "Their bytes, with route and CRC-8.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.OctetsIn) }},
	{"bobnet_switch_transmit_packets_total", "Packets that left by the port.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.PacketsOut) }},
	{"bobnet_switch_transmit_bytes_total", "Their bytes, with what is left of the route, and CRC-8.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.OctetsOut) }},
	{"bobnet_switch_blocked_packets_total", "Packets that came in and had to wait.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.Blocked) }},
	{"bobnet_switch_blocked_seconds_total", "How long packets that came in have waited.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.BlockedNanos) / 1e9 }},
	{"bobnet_switch_truncated_packets_total", "Packets that were cut short here.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.Truncated) }},
	{"bobnet_switch_crc_errors_total", "Packets that came in with a wrong CRC-8, and were passed on.", false, func(p *myrinet.LivePort) float64 { return float64(p.Packets.CRCErrors) }},
	{"bobnet_switch_dropped_packets_total", "Packets that were dropped: blocked for too long, without a way, too long, or because a session ended.", false, func(p *myrinet.LivePort) float64 {
		return float64(p.Packets.Dropped() + p.Frames.TooLong)
	}},
	{"bobnet_switch_sessions_total", "Times that the port and the other end of its cable have found each other.", false, func(p *myrinet.LivePort) float64 { return float64(p.Frames.Sessions) }},
	{"bobnet_switch_lost_frames_total", "Frames of packets that never came.", false, func(p *myrinet.LivePort) float64 { return float64(p.Frames.FramesLost) }},
	{"bobnet_switch_refused_frames_total", "Frames that came and were dropped: copies, of strangers or old sessions, malformed, beyond the credit.", false, func(p *myrinet.LivePort) float64 {
		f := &p.Frames
		return float64(f.Orphans + f.Twice + f.NoRoom + f.Malformed + f.Stale + f.Strangers)
	}},
	{"bobnet_switch_credit_frames", "Frames that may be sent now.", true, func(p *myrinet.LivePort) float64 { return float64(p.Credit) }},
	{"bobnet_switch_buffered_frames", "Frames in the buffer of the input.", true, func(p *myrinet.LivePort) float64 { return float64(p.Buffered) }},
}

// SwitchCollector is a prometheus.Collector over the ports of a switch of the emulated
// fabric. It may be shared between goroutines.
type SwitchCollector struct {
	of    Switch
	descs []*prometheus.Desc
}

var _ prometheus.Collector = (*SwitchCollector)(nil)

// NewSwitchCollector returns the collector of a switch.
func NewSwitchCollector(s Switch) *SwitchCollector {
	return &SwitchCollector{of: s, descs: describe(switchFields, nil, switchLabels...)}
}

// Describe implements prometheus.Collector.
func (c *SwitchCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Ports without a cable have no series.
func (c *SwitchCollector) Collect(ch chan<- prometheus.Metric) { c.collect(ch, 0, false) }

// AnswerAgent has the node's agent told the metrics and the dump of the switch, as that of
// Collector.
func (c *SwitchCollector) AnswerAgent() (stop func()) {
	return answerAgent(c, func() []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, "switch %v\n", c.of)
		myrinet.WriteLivePorts(&b, c.of.Ports()) // a buffer takes everything
		return b.Bytes()
	})
}

// collect is Collect: a switch has no VIs, and no NIC.
func (c *SwitchCollector) collect(ch chan<- prometheus.Metric, _ int, _ bool) {
	for _, p := range c.of.Ports() {
		if p.Interface != "" {
			emit(ch, c.descs, switchFields, &p, c.of.String(), strconv.Itoa(p.Port), p.Interface)
		}
	}
}
