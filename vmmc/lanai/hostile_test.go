package lanai_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// talk runs an exporter of memory at host 0, and body with processes 1 and 2 at host 1, of
// which each has imported it.
func talk(t *testing.T, memory []byte, body func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error) *network {
	t.Helper()
	n := newNetwork(t, myrinet.Options{Seed: 9})
	cfg := lanai.Config{}
	cfg.Card.Timing = myrinet.PCITiming()
	n.host(0, cfg)
	n.host(1, cfg)
	over := false
	var errs [2]error
	n.Go("exporter", func() {
		p, err := vmmc.Open(&vmmc.Config{Card: n.hosts[0]})
		if err == nil {
			_, err = p.Export(memory, 0, vmmc.Everybody, nil)
		}
		for err == nil && !over {
			err = n.Sleep(time.Millisecond)
		}
		if errs[0] = err; p != nil {
			p.Close()
		}
	})
	n.Go("importers", func() {
		defer func() { over = true }()
		var ps [2]*vmmc.Process
		var at [2]vmmc.ProxyAddr
		for i := range ps {
			p, err := vmmc.Open(&vmmc.Config{Card: n.hosts[1], Process: uint32(i + 1)})
			if err != nil {
				errs[1] = err
				return
			}
			defer p.Close()
			board, err := p.Import(context.Background(), vmmc.Name{})
			if err != nil {
				errs[1] = err
				return
			}
			ps[i], at[i] = p, board.Addr()
		}
		errs[1] = body(n, ps, at)
	})
	if err := n.World.Run(); err != nil {
		t.Fatal(err)
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestForged: requests that name pages that were not imported, memory that is not the
// process's, or more than there can be, and a page full of nonsense, are refused on the
// card and counted. The exporter's memory is as it was, and another process goes on.
func TestForged(t *testing.T) {
	memory := make([]byte, 3*4096)
	n := talk(t, memory, func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error {
		h := n.hosts[1]
		last := uint32(lanai.OutgoingPages - 1)
		h.Forge(1, true, 4, 0, last<<12)
		h.Forge(1, false, 4096, 0, last<<12)
		h.Forge(1, false, 4096, 1<<40, 0)
		h.Forge(1, false, lanai.LongData+1, 0, 0)
		h.Forge(1, true, lanai.ShortData+1, 0, 0)
		h.Forge(1, true, 100, 0, ^uint32(0))
		if err := n.Sleep(time.Millisecond); err != nil {
			return err
		}
		if !bytes.Equal(memory, make([]byte, len(memory))) {
			return fmt.Errorf("a forged request has written")
		}
		for octet := range 5 {
			h.Scribble(1, byte(octet*60+3))
			if err := n.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		return ps[1].SendMsg(context.Background(), bytes.Repeat([]byte{7}, 5000), at[1])
	})
	if !bytes.Equal(memory[:5000], bytes.Repeat([]byte{7}, 5000)) {
		t.Error("what the other process has sent is not there")
	}
	if c := n.hosts[1].Snapshot().Counters; c.BadProxies < 3 || c.BadAddresses < 1 || c.BadRequests < 2 || c.BadQueues < 5 {
		t.Errorf("counted: %+v", c)
	}
	for i, h := range n.hosts {
		if err := empty(h); err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

// TestThrash: sends from four times as many pages as the TLB translates: each is right,
// never more pages are pinned than it translates, and none in the end.
func TestThrash(t *testing.T) {
	const pages, each = 4 * lanai.TLBPages, 64
	memory, src := make([]byte, 4096), make([]byte, pages*4096)
	n := talk(t, memory, func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error {
		for turn := range 2 {
			for page := 0; page < pages; page += 4 { // a quarter of the sets
				line := src[page*4096:][:200]
				for i := range line {
					line[i] = byte(page>>4 + turn + i)
				}
				if err := ps[0].SendMsg(context.Background(), line, at[0]+each); err != nil {
					return err
				}
				if !bytes.Equal(memory[each:][:200], line) {
					return fmt.Errorf("turn %d: what was sent from page %d is not there", turn, page)
				}
			}
		}
		for _, p := range n.hosts[1].Snapshot().Processes {
			if p.Pinned > lanai.TLBPages || p.Process == 1 && p.Pinned == 0 {
				return fmt.Errorf("process %d has %d pages pinned", p.Process, p.Pinned)
			}
		}
		return nil
	})
	if c := n.hosts[1].Snapshot().Counters; c.Misses < 2*pages/4 || c.Refills != c.Misses {
		t.Errorf("%d misses, %d refills", c.Misses, c.Refills)
	}
}
