package metrics_test

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// sealedNIC is a NIC whose frames are sealed, or not.
type sealedNIC struct {
	name   string
	stats  seal.Stats
	sealed bool
}

func (n *sealedNIC) Snapshot() vipl.Snapshot {
	return vipl.Snapshot{Attributes: vipl.NICAttributes{Name: n.name}}
}

func (n *sealedNIC) SealStats() (seal.Stats, bool) { return n.stats, n.sealed }

// TestSeal: what protects frames is exported of NICs that have a key, and of no others.
func TestSeal(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchNIC(&sealedNIC{"plain0", seal.Stats{}, false})
	if text := gather(t, c); strings.Contains(text, "bobnet_seal") {
		t.Errorf("a NIC without a key has series:\n%s", text)
	}
	c.WatchNIC(&sealedNIC{"eth0", seal.Stats{Sessions: 2, Opened: 30, Sealed: 40, Altered: 5, Crowded: 6}, true})
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_seal_sessions_total{interface="eth0",port="0"} 2`, `bobnet_seal_receive_frames_total{interface="eth0",port="0"} 30`,
		`bobnet_seal_transmit_frames_total{interface="eth0",port="0"} 40`,
		`bobnet_seal_dropped_frames_total{interface="eth0",port="0",reason="altered"} 5`,
		`bobnet_seal_dropped_frames_total{interface="eth0",port="0",reason="crowded"} 6`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}
