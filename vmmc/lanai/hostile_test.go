package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
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
		p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[0]})
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
			p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: n.hosts[1], Process: uint32(i + 1)})
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
		for k := range 5 {
			h.Scribble(1, byte(k*60+3))
			if err := n.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		return ps[1].SendMsg(context.Background(), bytes.Repeat([]byte{7}, 5000), at[1])
	})
	if !bytes.Equal(memory[:5000], bytes.Repeat([]byte{7}, 5000)) {
		t.Error("what the other process has sent is not there")
	}
	if c := n.hosts[1].Snapshot().Stats; c.BadProxies < 3 || c.BadAddresses < 1 || c.BadRequests < 2 || c.BadQueues < 5 {
		t.Errorf("counted: %+v", c)
	}
	for i, h := range n.hosts {
		if err := empty(h); err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	}
}

// TestForgedLines: packets that say to be from a node, on lines that it has never begun, do not
// keep that node from being heard.
func TestForgedLines(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 3, Timeout: 100 * time.Microsecond})
	for i := range 2 {
		n.host(i, lanai.Config{})
	}
	wild := wildHost(2)
	if err := wild.Plug(n.fabric, n.sw, 3); err != nil {
		t.Fatal(err)
	}
	n.Go("wild", func() {
		if err := wild.Run(n.World, 20*time.Millisecond, 20*time.Microsecond); err != nil {
			t.Error(err)
		}
		memory, over := make([]byte, 5000), false
		n.process(0, 0, func(p *vmmc.Process) error {
			_, err := p.Export(memory, 7, vmmc.Everybody, nil)
			for err == nil && !over {
				p.Poll()
				err = n.Sleep(time.Millisecond)
			}
			return err
		})
		n.process(1, 1, func(p *vmmc.Process) error {
			defer func() { over = true }()
			ctx, cancel := n.hosts[1].WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			to, err := p.Import(ctx, vmmc.Name{ID: 7})
			if err != nil {
				return err
			}
			if err := p.SendMsg(ctx, bytes.Repeat([]byte{7}, 5000), to.Addr()); err != nil {
				return err
			}
			if memory[4999] != 7 {
				return fmt.Errorf("what was sent is not there")
			}
			return to.Unimport(ctx)
		})
	})
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
}

// forger is a host that sends what it is told to.
type forger struct{ *myrinet.Port }

func (*forger) Room(int) bool        { return true }
func (*forger) Arrived([]byte, bool) {}
func (*forger) Sent()                {}

// TestForgedLine: a packet that says to be from a node, on a line with the highest number that
// there is, does not end the node's line: not before the node has been heard, nor after. Only
// what carries the epoch of its channel can do so.
func TestForgedLine(t *testing.T) {
	memory := make([]byte, 5000)
	n := talk(t, memory, func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error {
		f := &forger{}
		f.Port = n.fabric.Host("forger", f)
		if _, err := n.fabric.Join(f.Port, n.sw.Port(4)); err != nil {
			return err
		}
		for k := range lanai.Forgeries {
			for to := range 2 {
				for _, line := range []uint64{^uint64(0), 1 << 62} {
					f.Send(hardware.AppendPacket(nil, myrinet.Route{int8(to - 4)}, lanai.TypePacket, lanai.Forgery(k, mac(1-to), line)))
					if err := n.Sleep(20 * time.Microsecond); err != nil {
						return err
					}
				}
			}
			if err := ps[k%2].SendMsg(context.Background(), bytes.Repeat([]byte{byte(k)}, len(memory)), at[k%2]); err != nil {
				return fmt.Errorf("after forgery %d: %w", k, err)
			}
			if wrong := differ(memory, bytes.Repeat([]byte{byte(k)}, len(memory))); wrong > 0 {
				return fmt.Errorf("after forgery %d %d bytes are not there", k, wrong)
			}
		}
		return nil
	})
	for i, h := range n.hosts {
		if c := h.Snapshot().Stats; c.LinesCut != 0 || c.Strange == 0 || c.Stale == 0 {
			t.Errorf("host %d: %d lines were cut; strange %d, stale %d", i, c.LinesCut, c.Strange, c.Stale)
		}
	}
}

// TestLostPlace: when a host has taken something else for the next packet of a node, what the
// node sends ends with its line, with an error, and does not wait for ever; the next import goes.
func TestLostPlace(t *testing.T) {
	memory := make([]byte, 5000)
	n := talk(t, memory, func(n *network, ps [2]*vmmc.Process, at [2]vmmc.ProxyAddr) error {
		n.hosts[0].LosePlace(mac(1))
		ctx, cancel := n.hosts[1].WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := ps[0].SendMsg(ctx, bytes.Repeat([]byte{1}, len(memory)), at[0]); !errors.Is(err, vmmc.ErrPeer) {
			return fmt.Errorf("a send on the line that is broken: %w", err)
		}
		board, err := ps[0].Import(ctx, vmmc.Name{})
		if err != nil {
			return err
		}
		return ps[0].SendMsg(ctx, bytes.Repeat([]byte{2}, len(memory)), board.Addr())
	})
	if wrong := differ(memory, bytes.Repeat([]byte{2}, len(memory))); wrong > 0 {
		t.Errorf("%d bytes of what was sent after that are not there", wrong)
	}
	if c := n.hosts[0].Snapshot().Stats; c.LinesCut == 0 {
		t.Error("the line was not cut")
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
	if c := n.hosts[1].Snapshot().Stats; c.Misses < 2*pages/4 || c.Refills != c.Misses {
		t.Errorf("%d misses, %d refills", c.Misses, c.Refills)
	}
}
