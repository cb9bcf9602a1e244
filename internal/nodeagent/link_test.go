package nodeagent

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/linktest"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// TestLink: links on sockets of the agent's are as links on their own, long frames included.
// Its part is that of who receives: the other one sends foreign frames, too.
func TestLink(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: TestTenants has such links")
	}
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	open := func(t *testing.T, side int) *ring.Link {
		cfg := &ring.Config{Interface: vethtest.Name, Long: ring.On, XDP: ring.Off, Slots: 64}
		if side == 0 {
			cfg.Agent, cfg.XDP = path, ring.Auto
		}
		var l *ring.Link
		err := p.In(side, func() (err error) {
			l, err = ring.Open(cfg)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{A: open(t, 1), B: open(t, 0), C: open(t, 0)}
	})
}
