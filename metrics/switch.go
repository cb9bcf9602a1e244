package metrics

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
)

// liveSwitch is the interface of a switch for SwitchCollector.
type liveSwitch = interface {
	String() string
	Ports() []hardware.LivePort
}

// SwitchCollector is a prometheus.Collector for the ports of a switch of the emulated fabric. It
// may be shared between goroutines.
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

// AnswerAgent answers the requests of the node's agent with the metrics and the dump of the switch.
// See Collector.AnswerAgent.
func (c *SwitchCollector) AnswerAgent() (stop func()) {
	return answerAgent(c, func() []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, "switch %v\n", c.of)
		hardware.WriteLivePorts(&b, c.of.Ports()) // a buffer accepts everything
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
