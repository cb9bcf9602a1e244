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

// TestUnexportUnderWay: a buffer is taken back while the chunks of a long send to it are under
// way. An importer that answers is heard: what it has sent is done, and its next send fails. The
// pages are taken from one that does not answer: the card refuses and counts its chunks, and the
// send fails. Either way nothing lands after Unexport, and nothing is left.
func TestUnexportUnderWay(t *testing.T) {
	const size = 1 << 20
	for name, patience := range map[string]time.Duration{"asked": time.Second, "by force": time.Millisecond} {
		asked := patience == time.Second
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, myrinet.Options{Seed: 23})
			cfg := lanai.Config{}
			cfg.Card.Timing = myrinet.PCITiming()
			for i := range 2 {
				n.host(i, cfg)
			}
			memory, over := make([]byte, size), false
			n.process(0, 0, func(p *vmmc.Process) error { return takeBack(n, p, memory, patience, &over) })
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
				err, done := p.WaitSend(context.Background(), s), to.Done()
				if (err == nil) != asked || err != nil && !errors.Is(err, vmmc.ErrUnexported) || !errors.Is(done, vmmc.ErrUnexported) {
					return fmt.Errorf("the send ends by %w, the import by %w", err, done)
				}
				if err := p.SendMsg(context.Background(), s.Src, to.Addr()); !errors.Is(err, vmmc.ErrUnexported) {
					return fmt.Errorf("the next send ends by %w", err)
				}
				return nil
			})
			n.Go("the end", func() { _ = n.Sleep(3 * time.Second) }) // its error is Run's, too
			if err := n.World.Run(); err != nil {
				t.Fatal(err)
			}
			if refused := n.hosts[0].Snapshot().Stats.Refused; (refused == 0) != asked || (memory[len(memory)-1] != 0) != asked {
				t.Errorf("%d packets were refused; the last byte is %d", refused, memory[len(memory)-1])
			}
			for i, h := range n.hosts {
				if err := empty(h); err != nil {
					t.Errorf("host %d: %v", i, err)
				}
			}
		})
	}
}

// takeBack exports memory, takes it back when something has come, with so much patience, and
// wants nothing to come from then on.
func takeBack(n *network, p *vmmc.Process, memory []byte, patience time.Duration, over *bool) error {
	e, err := p.Export(memory, 0, vmmc.Everybody, nil)
	for err == nil && memory[0] == 0 {
		err = n.Sleep(10 * time.Microsecond)
		p.Poll()
	}
	if err != nil {
		return err
	}
	ctx, cancel := n.hosts[0].WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Unexport(ctx); err != nil {
		return err
	}
	kept := bytes.Clone(memory)
	for err == nil && !*over {
		p.Poll()
		err = n.Sleep(time.Millisecond)
	}
	if wrong := differ(memory, kept); wrong > 0 {
		return fmt.Errorf("%d bytes were written after Unexport", wrong)
	}
	return err
}
