package metrics_test

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// someSwitch has two ports, of which one has a cable.
type someSwitch struct{}

func (someSwitch) String() string { return "s0" }

func (someSwitch) Ports() []myrinet.LivePort {
	p := myrinet.LivePort{Port: 1, Interface: "p1", Up: true, Credit: 7}
	p.Packets.PacketsIn, p.Packets.BlockedNanos, p.Packets.NoRoute = 3, 1_500_000_000, 2
	return []myrinet.LivePort{{}, p}
}

// TestSwitchCollector: a port with a cable has series, with its labels.
func TestSwitchCollector(t *testing.T) {
	c := metrics.NewSwitchCollector(someSwitch{})
	want := `
# HELP bobnet_switch_blocked_seconds_total How long packets that came in have waited.
# TYPE bobnet_switch_blocked_seconds_total counter
bobnet_switch_blocked_seconds_total{interface="p1",port="1",switch="s0"} 1.5
# HELP bobnet_switch_receive_packets_total Packets that came in by the port.
# TYPE bobnet_switch_receive_packets_total counter
bobnet_switch_receive_packets_total{interface="p1",port="1",switch="s0"} 3
# HELP bobnet_switch_port_up 1 if the other end of the cable is there.
# TYPE bobnet_switch_port_up gauge
bobnet_switch_port_up{interface="p1",port="1",switch="s0"} 1
`
	err := testutil.CollectAndCompare(c, strings.NewReader(want),
		"bobnet_switch_blocked_seconds_total", "bobnet_switch_receive_packets_total", "bobnet_switch_port_up")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
