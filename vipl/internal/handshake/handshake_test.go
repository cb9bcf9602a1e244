package handshake

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// TestDrawing: the frames of the package's drawing, those and no others, and both sides know
// what the other one has said.
func TestDrawing(t *testing.T) {
	p := newPair(t)
	client, server := p.hosts[0], p.hosts[1]
	server.serves = false
	client.ask("hello")
	p.step()
	p.step()
	r := server.in.Backlog.Pop(p.now)
	if r == nil || string(r.Info.Data) != "hello" || r.From != client.c.Local() || server.arrive != 1 {
		t.Fatalf("%d requests, %+v", server.arrive, r)
	}
	server.side.Answer(r, false, timeout)
	server.a.FlushPending()
	p.run(p.connected)
	p.check()
	if client.done != 1 || server.done != 1 {
		t.Errorf("the owners were told %d and %d times", client.done, server.done)
	}
	wantC := []ethertype.Kind{ethertype.KindRequest, ethertype.KindRequest, ethertype.KindProbe}
	wantS := []ethertype.Kind{ethertype.KindRetry, ethertype.KindAccept, ethertype.KindProbeAck}
	if !slices.Equal(client.sent, wantC) || !slices.Equal(server.sent, wantS) {
		t.Errorf("the client sent %v and the server %v", client.sent, server.sent)
	}
}

// TestEachLost: whichever frame of the first ones is lost, in either direction, both are
// connected in the end.
func TestEachLost(t *testing.T) {
	for lost := range 10 {
		for _, peers := range []bool{false, true} {
			p := newPair(t)
			n := 0
			for _, h := range p.hosts {
				h.lose = func(*ethertype.Header) bool {
					n++
					return n == lost+1
				}
			}
			if p.hosts[0].ask("x"); peers {
				p.hosts[0].side.Abandon()
				p.hosts[0].c.Idle()
				p.hosts[0].askPeer("d")
				p.hosts[1].askPeer("d")
				p.hosts[1].serves = false
			}
			p.run(p.connected)
			p.check()
		}
	}
}

// TestLossy: over a path that loses and copies frames and changes their order, both sides
// are connected with each other whichever way they began.
func TestLossy(t *testing.T) {
	for seed := range uint64(200) {
		p := newPair(t)
		rng := rand.New(rand.NewPCG(seed, 18))
		for _, h := range p.hosts {
			h.lose = func(*ethertype.Header) bool {
				if rng.IntN(6) == 0 && len(h.peer.inbox) > 0 { // one that is on its way comes again, behind the others
					h.peer.inbox = append(h.peer.inbox, h.peer.inbox[rng.IntN(len(h.peer.inbox))])
				}
				if in := h.peer.inbox; len(in) > 1 && rng.IntN(3) == 0 {
					in[0], in[len(in)-1] = in[len(in)-1], in[0]
				}
				return rng.IntN(4) == 0
			}
		}
		if seed%2 == 0 {
			p.hosts[0].ask("x")
		} else {
			p.hosts[0].askPeer("d")
			p.hosts[1].askPeer("d")
		}
		p.run(p.connected)
		p.check()
	}
}

// TestPeers: both sides ask, the one with the higher address answers.
func TestPeers(t *testing.T) {
	p := newPair(t)
	low, high := p.hosts[0], p.hosts[1]
	low.askPeer("d")
	if to := (ethertype.Addr{MAC: high.info.MAC, Port: nicPort}); !low.table.Meets(to, []byte("d")) || low.table.Meets(to, []byte("e")) {
		t.Error("the table does not know which attempts are under way")
	}
	p.step()
	high.askPeer("d")
	p.run(p.connected)
	p.check()
	if slices.Contains(low.sent, ethertype.KindAccept) || !slices.Contains(high.sent, ethertype.KindAccept) {
		t.Errorf("%v and %v", low.sent, high.sent)
	}
	for _, h := range p.hosts {
		if len(h.table.peers.pending) > 0 {
			t.Error("the attempt is still under way in the table")
		}
	}
}

// TestNames: a request that names a discriminator goes to its listener, without the name.
func TestNames(t *testing.T) {
	p := newPair(t)
	client, server := p.hosts[0], p.hosts[1]
	server.serves = false
	nic := ethertype.Addr{MAC: server.info.MAC, Port: nicPort}
	client.side.Ask(nic, []byte("\x03bobdata"), true, timeout)
	client.a.FlushPending()
	p.step()
	p.step()
	if r := server.in.Backlog.Pop(p.now); r == nil || string(r.Info.Data) != "data" || r.Port != nicPort {
		t.Fatalf("%+v", r)
	}
	for _, data := range []string{"\x03eve", "\x09bob", ""} {
		p := newPair(t)
		p.hosts[0].side.Ask(nic, []byte(data), true, timeout)
		p.hosts[0].a.FlushPending()
		p.run(func() bool { return p.hosts[0].done > 0 })
		if err := p.hosts[0].side.Err; !errors.Is(err, code.ErrNoMatch) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// TestRefusals: why an attempt fails, on the side that asked.
func TestRefusals(t *testing.T) {
	cases := []struct {
		name  string
		begin func(p *pair, client, server *host)
		want  error
		says  string
	}{
		{"nobody listens", func(p *pair, client, server *host) {
			client.side.Ask(ethertype.Addr{MAC: server.info.MAC, Port: listens + 1}, nil, false, timeout)
		}, code.ErrNoMatch, "start the server"},
		{"listener shut", func(p *pair, client, server *host) {
			server.serves = false
			client.ask("x")
			p.run(func() bool { return server.arrive > 0 && len(client.inbox) == 0 })
			p.step()
			server.table.Shut(&server.in)
		}, code.ErrNoMatch, "start the server"},
		{"refused", func(p *pair, client, server *host) {
			server.side.Terms.QoS++
			client.ask("x")
		}, code.ErrReject, "QoS is 4 here and 3 there"},
		{"peers differ", func(p *pair, client, server *host) {
			server.side.Terms.MaxTransferSize = 77
			client.askPeer("d")
			server.askPeer("d")
		}, code.ErrInvalidMTU, "MaxTransferSize is 1048576 here and 77 there"},
		{"silent", func(p *pair, client, server *host) {
			server.lose = func(*ethertype.Header) bool { return true }
			client.ask("x")
		}, code.ErrTimeout, "no answer"},
		{"no peer", func(p *pair, client, server *host) { client.askPeer("d") }, code.ErrTimeout, "did not ask"},
		{"narrow path", func(p *pair, client, server *host) {
			client.lose = func(h *ethertype.Header) bool { return h.Kind == ethertype.KindProbe && h.Size > 0 }
			client.ask("x")
		}, code.ErrInvalidMTU, "do not pass"},
		{"server gone", func(p *pair, client, server *host) {
			client.ask("x")
			p.run(func() bool { return server.c.State == code.StateConnectPending })
			server.side.Abandon()
			server.c.Idle()
			server.serves = false
		}, code.ErrDisconnected, "gave up"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t)
			client := p.hosts[0]
			begun := p.now
			c.begin(p, client, p.hosts[1])
			client.a.FlushPending()
			p.run(func() bool { return client.done > 0 })
			if took := p.now - begun; (took >= timeout) != (c.want == code.ErrTimeout) {
				t.Errorf("it took %v", time.Duration(took))
			}
			if err := client.side.Err; !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %v with %q", err, c.want, c.says)
			}
			if client.c.State != code.StateIdle || client.c.LocalTag != 0 || client.side.attempt != nil {
				t.Errorf("%v with tag %d", client.c.State, client.c.LocalTag)
			}
		})
	}
}

// TestGivenUpServer: a client that goes away in the middle does not keep the server until its
// timeout: it says so, and says it again when that was lost.
func TestGivenUpServer(t *testing.T) {
	for _, lost := range []bool{false, true} {
		p := newPair(t)
		client, server := p.hosts[0], p.hosts[1]
		client.ask("x")
		client.lose = func(h *ethertype.Header) bool { return h.Kind == ethertype.KindProbe }
		p.run(func() bool { return client.side.attempt.phase == phaseProbe })
		client.lose = func(h *ethertype.Header) bool { return lost && h.Kind == ethertype.KindDisconnect }
		client.side.Abandon()
		client.c.Idle()
		client.a.FlushPending()
		begun := p.now
		p.run(func() bool { return server.done > 0 })
		if !errors.Is(server.side.Err, code.ErrDisconnected) || p.now-begun > timeout/4 {
			t.Errorf("after %v: %v", time.Duration(p.now-begun), server.side.Err)
		}
	}
}

// TestSerialServer: a server that accepts one after another passes over a requester that
// does not answer when somebody else waits, and not before.
func TestSerialServer(t *testing.T) {
	p := newPair(t)
	client, server := p.hosts[0], p.hosts[1]
	server.serial = true
	server.lose = func(h *ethertype.Header) bool { return h.Kind != ethertype.KindRetry }
	client.ask("x")
	client.lose = func(h *ethertype.Header) bool { return len(client.sent) > 2 }
	p.run(func() bool { return server.c.State == code.StateConnectPending })
	begun := p.now
	p.run(func() bool { return p.now-begun > int64(time.Second) })
	if server.done > 0 {
		t.Fatalf("given up, and nobody waits: %v", server.side.Err)
	}
	server.serves = false
	var f ethertype.Header
	other := client.side.describe()
	other.Tag++
	f = ethertype.Header{Kind: ethertype.KindRequest, Src: ethertype.MAC{2, 9}, Dst: server.info.MAC, SrcPort: 5, DstPort: listens, Flags: ethertype.FlagWholeCRC}
	f.Sack = server.table.strangers.Tokens.Token(&f, guard.Identity{Tag: other.Tag, Seq: other.Seq}, p.now)
	server.table.Receive(&f, other.Append(nil))
	p.run(func() bool { return server.done > 0 })
	if !errors.Is(server.side.Err, code.ErrTimeout) || !strings.Contains(server.side.Err.Error(), "others wait") {
		t.Errorf("%v", server.side.Err)
	}
}

// TestGivenUpUnheard: a server that has accepted and gives up, and neither of it is heard,
// refuses the request when it is repeated.
func TestGivenUpUnheard(t *testing.T) {
	p := newPair(t)
	client, server := p.hosts[0], p.hosts[1]
	server.lose = func(h *ethertype.Header) bool {
		return h.Kind == ethertype.KindAccept || h.Kind == ethertype.KindDisconnect
	}
	client.ask("x")
	p.run(func() bool { return server.c.State == code.StateConnectPending })
	server.serves = false
	server.side.Abandon()
	server.c.Idle()
	p.run(func() bool { return client.done > 0 })
	if !errors.Is(client.side.Err, code.ErrNoMatch) || server.arrive != 1 {
		t.Errorf("%v; %d requests", client.side.Err, server.arrive)
	}
}

// TestReset: an answer that the peer knows nothing of an attempt ends it, unless another
// attempt of that peer may follow.
func TestReset(t *testing.T) {
	cases := []struct {
		name  string
		peers bool
		host  int
		phase phase
		want  bool
	}{
		{"client that asks", false, 0, phaseRequest, false},
		{"client that probes", false, 0, phaseProbe, true},
		{"server", false, 1, phaseAccept, true},
		{"peer that answers", true, 1, phaseAccept, false},
		{"peer that probes", true, 0, phaseProbe, true},
	}
	for _, c := range cases {
		p := newPair(t)
		h := p.hosts[c.host]
		p.hosts[0].lose = func(h *ethertype.Header) bool { return h.Kind == ethertype.KindProbe }
		if c.peers {
			p.hosts[0].askPeer("d")
			p.hosts[1].askPeer("d")
		} else {
			p.hosts[0].ask("x")
		}
		p.run(func() bool { return h.side.attempt != nil && h.side.attempt.phase == c.phase })
		if got := h.side.Reset(); got != c.want || (h.side.attempt == nil) != c.want {
			t.Errorf("%s: ended %v, want %v", c.name, got, c.want)
		}
	}
}

// TestForged: a frame that has the tag and not the number of the attempt changes nothing, and
// neither does an Accept with terms that this side did not ask for.
func TestForged(t *testing.T) {
	p := newPair(t)
	client, server := p.hosts[0], p.hosts[1]
	server.serves = false
	client.ask("x")
	p.run(func() bool { return server.arrive > 0 })
	forged := ethertype.Header{
		Kind: ethertype.KindReject, Src: server.info.MAC, Dst: client.info.MAC, SrcPort: listens, DstPort: viPort,
		Tag: client.c.LocalTag, Ack: client.side.attempt.local + 1, Flags: ethertype.FlagWholeCRC,
	}
	client.table.Receive(&forged, []byte{rejectNoListener})
	if client.done > 0 || client.c.Stats.Dropped[drops.Ack] != 1 {
		t.Fatalf("%v; dropped %v", client.side.Err, client.c.Stats.Dropped)
	}
	server.side.Terms.QoS++
	server.side.Answer(server.in.Backlog.Pop(p.now), false, timeout)
	server.a.FlushPending()
	p.run(func() bool { return client.c.Stats.Dropped[drops.Format] > 0 })
	if client.c.State != code.StateConnectPending || client.side.attempt.phase != phaseRequest {
		t.Errorf("%v", client.c.State)
	}
}
