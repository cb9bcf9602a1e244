package metrics_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeTun tun.Snapshot

func (f *fakeTun) Snapshot() tun.Snapshot { return tun.Snapshot(*f) }

// TestTun: IP networks are exported, and in dumps.
func TestTun(t *testing.T) {
	c := metrics.NewCollector(nil)
	one := &fakeTun{Device: "bobnet0", Network: "default", MTU: 65000, PacketsSent: 3, Counts: tun.Counts{Spoofed: 7},
		Neighbours: []tun.Neighbour{{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Queued: 5}, {Queued: 6}}}
	forget := c.WatchTun(one)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{`bobnet_tun_neighbours{device="bobnet0"} 2`, `bobnet_tun_queued_bytes{device="bobnet0"} 11`,
		`bobnet_tun_packets_sent_total{device="bobnet0"} 3`, `bobnet_tun_dropped_packets_total{device="bobnet0",reason="spoofed"} 7`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	var dump bytes.Buffer
	if _, err := c.Dump().WriteTo(&dump); err != nil || !strings.Contains(dump.String(), "tun bobnet0: network \"default\"") || !strings.Contains(dump.String(), "02:00:00:00:00:01") {
		t.Errorf("%v\n%s", err, dump.String())
	}
	forget()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d series of a network that is gone", n)
	}
}
