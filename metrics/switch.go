package metrics

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
)

// liveSwitch is what a SwitchCollector asks of a switch.
type liveSwitch = interface {
	String() string
	Ports() []hardware.LivePort
}

// SwitchCollector is a prometheus.Collector over the ports of a switch of the emulated
// fabric. It may be shared between goroutines.
type SwitchCollector struct {
	exporter
	of liveSwitch
}

var _ prometheus.Collector = (*SwitchCollector)(nil)

// NewSwitchCollector returns the collector of a switch.
func NewSwitchCollector(s interface {
	String() string
	Ports() []hardware.LivePort
}) *SwitchCollector {
	return &SwitchCollector{newExporter(nil, switchTable), s}
}

// Collect implements prometheus.Collector. Ports without a cable have no series.
func (c *SwitchCollector) Collect(ch chan<- prometheus.Metric) { c.collect(ch, 0, false) }

// AnswerAgent has the node's agent told the metrics and the dump of the switch, as that of
// Collector.
func (c *SwitchCollector) AnswerAgent() (stop func()) {
	return answerAgent(c, func() []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, "switch %v\n", c.of)
		hardware.WriteLivePorts(&b, c.of.Ports()) // a buffer takes everything
		return b.Bytes()
	})
}

// collect is Collect: a switch has no VIs, and no NIC.
func (c *SwitchCollector) collect(ch chan<- prometheus.Metric, _ int, _ bool) {
	for _, p := range c.of.Ports() {
		if p.Interface != "" {
			c.emit(ch, switchTable, &p, c.of.String(), strconv.Itoa(p.Port), p.Interface)
		}
	}
}
