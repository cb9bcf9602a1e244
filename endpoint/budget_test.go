package endpoint_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// largest is what a client says that wants as much as it may.
func largest(from, to endpoint.Name) []byte {
	h := endpoint.HelloFor(from, to, endpoint.MaxCredits)
	binary.LittleEndian.PutUint32(h[32:], endpoint.MaxMediumLimit)
	return h
}

// TestConnectionMemory: strangers who ask for connections of the largest shape
// get no more memory than the node's budget, which others can use again when they
// leave. Who asks for little is served meanwhile.
func TestConnectionMemory(t *testing.T) {
	const budget = 2 << 20
	w := newWorld(sim.Options{})
	var server *party
	w.pair(endpoint.Config{MaxConnectionMemory: budget}, func(s *party) {
		server = s
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		nic := serverNode(server).NIC()
		idle := nic.Snapshot().RegionBytes
		connect := func(hello []byte) (*vipl.VI, error) {
			vi, err := n.NIC().CreateVI(nil, nil, nil)
			if err != nil {
				return nil, err
			}
			return vi, vi.Connect(bg, to.Addr, hello)
		}
		for range 5 {
			if _, err := connect(largest(c.ep.Name(), to)); !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "congestion") {
				return fmt.Errorf("a connection of the largest shape: %w", err)
			}
		}
		if now := nic.Snapshot().RegionBytes; now != idle {
			return fmt.Errorf("those refused have taken %d bytes", now-idle)
		}
		for range 3 {
			var vis []*vipl.VI
			for len(vis) < 100 {
				vi, err := connect(endpoint.HelloFor(c.ep.Name(), to, 64))
				if err != nil {
					break
				}
				vis = append(vis, vi)
			}
			if taken := nic.Snapshot().RegionBytes - idle; len(vis) != 2 || taken > budget {
				return fmt.Errorf("%d connections of about 800 KiB were accepted, which take %d bytes", len(vis), taken)
			}
			if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 {
				return fmt.Errorf("an honest call beside them: %d, %w", got, err)
			}
			for _, vi := range vis {
				vi.Close()
			}
			w.Sleep(time.Millisecond)
		}
		if got := serverNode(server).Stats().Refused[endpoint.ReasonCongestion]; got != 8 {
			return fmt.Errorf("%d refusals were counted", got)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestDefaultConnectionMemory: by default there is room for one connection of the
// largest shape, not for two, and for all that a node of many credits may have.
func TestDefaultConnectionMemory(t *testing.T) {
	one := endpoint.ShapeMemory(endpoint.Credits{Short: endpoint.MaxCredits}, endpoint.MaxMediumLimit)
	usual := endpoint.ShapeMemory(endpoint.DefaultCredits, endpoint.DefaultMaxMedium)
	for _, c := range []struct {
		cfg         endpoint.Config
		least, most int
	}{
		{endpoint.Config{}, max(one, usual*endpoint.DefaultMaxConnections), 2*one - 1},
		{endpoint.Config{Credits: endpoint.Credits{Short: endpoint.MaxCredits}, MaxMedium: endpoint.MaxMediumLimit, MaxConnections: 3}, 3 * one, 3 * one},
		{endpoint.Config{MaxConnections: math.MaxInt}, usual << 20, math.MaxInt},
		{endpoint.Config{MaxConnectionMemory: 1}, 1, 1},
	} {
		if got, err := c.cfg.ConnectionMemory(); err != nil || got < c.least || got > c.most {
			t.Errorf("%+v: %d, want %d..%d: %v", c.cfg, got, c.least, c.most, err)
		}
	}
}
