package handshake

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// FuzzHandshake has two hosts ask, ask as peers, give up and leave in any order, over a path
// that loses, copies, changes and delays frames as the input says. Nothing of it breaks what a side
// holds, and when the path is good again two sides that ask as peers find each other.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte{0, 4, 4, 4, 4, 4})
	f.Add([]byte{2, 3, 4, 5, 4, 6, 4, 7, 4, 4})
	f.Add([]byte{0, 4, 8, 1, 4, 4, 12, 4, 4, 9, 2, 3, 4, 4, 10, 4})
	f.Add([]byte{0, 4, 13, 4, 21, 4, 29, 4, 14, 4, 4, 11, 0, 4, 15, 4})
	f.Fuzz(func(t *testing.T, ops []byte) {
		p := newPair(t)
		for _, op := range ops[:min(len(ops), 200)] {
			p.act(op)
			p.consistent()
		}
		p.meet()
	})
}

// act does one step. The low bit says on which host, mostly.
func (p *pair) act(op byte) {
	h := p.hosts[op%2]
	x := int(op) >> 4
	switch op % 16 / 2 {
	case 0:
		if h.c.State == code.StateIdle {
			h.ask("x")
		}
	case 1:
		if h.c.State == code.StateIdle {
			h.askPeer("d")
		}
	case 2, 3:
		p.step()
	case 4:
		h.leave()
	case 5:
		h.inbox = h.inbox[:len(h.inbox)/2]
	case 6: // damage that the CRC does not show
		if len(h.inbox) > 0 {
			frame := append([]byte(nil), h.inbox[0]...)
			var f ethertype.Header
			if payload, err := f.Parse(frame); err == nil {
				h.forge(&f, payload, x)
			}
		}
	case 7:
		if len(h.inbox) > 0 { // the oldest comes again, last
			h.inbox = append(h.inbox, h.inbox[0])
		}
	}
}

// forge hands a host a frame with a field that is not its sender's.
func (h *host) forge(f *ethertype.Header, payload []byte, x int) {
	h.a.SetClock(h.pair.now)
	body := append([]byte(nil), payload...)
	switch x % 8 {
	case 0:
		f.Tag ^= 1 << x
	case 1:
		f.Ack ^= 1
	case 2:
		f.SrcPort++
	case 3:
		f.Src[5] += 7
	case 4:
		f.Sack ^= 4
	case 5:
		body = body[:len(body)/2]
	case 6:
		if len(body) > 0 {
			body[(x*37)%len(body)] ^= 0x55
		}
	case 7:
		f.Kind = ethertype.KindRequest + ethertype.Kind(x%6)
	}
	h.table.Receive(f, body)
}

// leave ends whatever a host does, as its VI does.
func (h *host) leave() {
	h.a.SetClock(h.pair.now)
	switch h.c.State {
	case code.StateConnected:
		h.c.SendDisconnect(code.ReasonLeft)
	case code.StateConnectPending:
		h.side.Abandon()
	}
	h.c.Idle()
	h.a.FlushPending()
}

// consistent fails if a side's attempt does not fit its connection's state, or the table's.
func (p *pair) consistent() {
	for _, h := range p.hosts {
		if pending := h.c.State == code.StateConnectPending; pending != (h.side.attempt != nil) {
			h.t.Fatalf("%v, and the attempt is %+v", h.c.State, h.side.attempt)
		}
		for key, s := range h.table.peers.pending {
			if s.attempt == nil || s.attempt.peer == nil || *s.attempt.peer != key {
				h.t.Fatalf("the attempt %v is over, and the table has it", key)
			}
		}
		if h.c.State == code.StateConnected && h.side.Err != nil {
			h.t.Fatalf("connected, and failed: %v", h.side.Err)
		}
	}
}

// meet has both sides leave and ask for each other, over a path on which nothing happens
// any more, until they are connected.
func (p *pair) meet() {
	for _, h := range p.hosts {
		h.leave()
		h.serves = false
	}
	for range 20 { // what is under way ends
		p.step()
	}
	for _, h := range p.hosts {
		h.guard.Answers.AtOnce = 1 << 20
		h.leave()
		h.askPeer("last")
	}
	p.run(func() bool {
		for _, h := range p.hosts {
			if err := h.side.Err; err != nil && !errors.Is(err, code.ErrDisconnected) {
				h.t.Fatalf("%v: %v", h.c.Local(), err)
			}
		}
		return p.connected()
	})
	p.check()
}
