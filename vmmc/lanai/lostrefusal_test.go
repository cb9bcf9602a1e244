package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestLostRefusals: memory is taken back by force from an importer whose writes are under way, and bits
// flip, so that a refusal is lost now and then, as other packets are. It is told again: the connection of
// these two ends, and nothing else that goes between the hosts.
func TestLostRefusals(t *testing.T) {
	const size = 1 << 18
	refused, damaged := uint64(0), uint64(0)
	seeds(t, 40, func(seed uint64) error {
		n := newNetwork(t, myrinet.Options{Seed: seed, BitErrors: 2e-5})
		cfg := lanai.Config{Retry: 200 * time.Microsecond}
		cfg.Card.Timing = myrinet.PCITiming()
		for i := range 2 {
			n.host(i, cfg)
		}
		memory, over := make([]byte, size), false
		n.process(0, 0, func(p *vmmc.Process) error { return takeBack(n, p, memory, time.Millisecond, &over) })
		n.process(1, 1, func(p *vmmc.Process) error {
			defer func() { over = true }()
			to, err := p.Import(context.Background(), vmmc.Name{})
			if err != nil {
				return err
			}
			s := &vmmc.Send{Src: bytes.Repeat([]byte{1}, size), Dst: to.Addr()}
			if err := p.Post(s); err != nil {
				return err
			}
			if err := p.WaitSend(context.Background(), s); err != nil && !errors.Is(err, vmmc.ErrUnexported) {
				return fmt.Errorf("the send ends by %w", err)
			}
			return n.Sleep(20 * time.Millisecond)
		})
		if err := n.World.Run(); err != nil {
			return err
		}
		for i, h := range n.hosts {
			s := h.Snapshot()
			refused, damaged = refused+s.Stats.Refused, damaged+s.Card.Stats.CRCErrors
			if s.Stats.LinesCut > 0 {
				return fmt.Errorf("host %d has cut %d lines", i, s.Stats.LinesCut)
			}
		}
		return nil
	})
	if refused == 0 || damaged == 0 {
		t.Errorf("%d packets were refused, %d damaged: want some", refused, damaged)
	}
}
