package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCrowdConnects has thousands of VIs connect at once over interfaces whose frames
// are so long that the receive ring holds a few dozen. Frames of connections that begin
// are lost then, but none fails, and nobody blames the MTU.
func TestCrowdConnects(t *testing.T) {
	count := 64 * 64
	if !need.Full() {
		count = 1024
	}
	p := vethtest.New(t, 65535)
	var nics [2]*vipl.NIC
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 1024, Hi: 1024 + 4199}})
	}
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bg, 40*time.Second)
	defer cancel()
	within(t, "connecting", func() error {
		return all(
			func() error { return acceptAll(ctx, l, nics[0], count) },
			func() error { return connectAll(ctx, l, nics[1], count) })
	})
	for side, n := range nics {
		if s := seam.Link(n).Stats(); s.RxDrops > s.RxFrames/2 {
			t.Errorf("side %d has lost %d frames, and received %d", side, s.RxDrops, s.RxFrames)
		}
	}
}

// acceptAll accepts count requests.
func acceptAll(ctx context.Context, l *vipl.Listener, n *vipl.NIC, count int) error {
	vis := make([]*vipl.VI, count)
	for i := range vis {
		r, err := l.Wait(ctx)
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := r.AcceptStart(vis[i]); err != nil {
			return err
		}
	}
	return outcomes(ctx, vis)
}

// connectAll has count VIs connect at once.
func connectAll(ctx context.Context, l *vipl.Listener, n *vipl.NIC, count int) error {
	vis := make([]*vipl.VI, count)
	for i := range vis {
		var err error
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := vis[i].ConnectStart(l.Addr(), nil); err != nil {
			return err
		}
	}
	return outcomes(ctx, vis)
}

// outcomes returns when no VI is connecting any more, with the errors of those that
// have failed.
func outcomes(ctx context.Context, vis []*vipl.VI) error {
	failed := 0
	var first error
	for i, v := range vis {
		for v.ConnectDone() == vipl.ErrNotDone {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("VI %d is still connecting: %w", i, err)
			}
		}
		if err := v.ConnectDone(); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d have failed, the first: %w", failed, len(vis), first)
	}
	return nil
}

// TestLossIsNoMTU: where most frames are lost, whatever their length, an attempt to
// connect may fail, but not because of the MTU.
func TestLossIsNoMTU(t *testing.T) {
	failed := 0
	seeds(t, 300, func(seed uint64) error {
		o, err := shake(sim.Options{Seed: seed, Loss: 0.7, MTU: 65535}, reliableLevels[seed%2])
		if o.client != nil {
			failed++
		}
		if errors.Is(o.client, vipl.ErrInvalidMTU) || errors.Is(o.server, vipl.ErrInvalidMTU) {
			return fmt.Errorf("client: %w, server: %w", o.client, o.server)
		}
		return err
	})
	t.Log(failed, "attempts failed")
}
