package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// TestPorts: ports are given out in turn, never the NIC's own, and none that is taken.
func TestPorts(t *testing.T) {
	r := newRig(t)
	p := &r.m.Ports
	p.Listeners[lowest+2] = &handshake.Listener{}
	for want := lowest + 1; want < lowest+ports; want++ {
		if want == lowest+2 {
			continue
		}
		if v := r.open(reliability.ReliableDelivery, peer, true); v == nil || int(v.conn.Port) != want {
			t.Fatalf("got %v, want port %d", v, want)
		}
	}
	if port, ok := p.Free(); ok {
		t.Fatalf("port %d is free, and all are taken", port)
	}
	for _, i := range []int{3, 1} {
		p.Remove(&r.vis[i].conn)
		if got, ok := p.Free(); !ok || got != r.vis[i].conn.Port || p.Conn(got) != nil || p.side(got) != nil {
			t.Errorf("port %d is free, want %d", got, r.vis[i].conn.Port)
		}
		p.Add(&r.vis[i].conn, &r.vis[i].side)
	}
	if p.Count != ports-2 || p.Conn(lowest-1) != nil || p.Conn(lowest+ports) != nil || p.side(0) != nil || !p.InUse(lowest+2) {
		t.Errorf("%d VIs", p.Count)
	}
}

// TestPortsSparse: a table of all ports knows the connections at any of them and walks over them in the
// order of their ports, as a plain table does. The walk may remove connections. The table is no
// longer than the highest port in use needs.
func TestPortsSparse(t *testing.T) {
	const runs, most, steps = 20, 64, 256
	all := transport.AllPorts
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var p Ports
		p.init(all)
		plain := map[uint16]*conn.Conn{}
		highest := 0
		check := func() {
			t.Helper()
			var walked []uint16
			for c, side := range p.sides() {
				if p.Conn(c.Port) != c || plain[c.Port] != c || p.side(c.Port) != side || side == nil {
					t.Fatalf("seed %d: the walk finds a connection at port %d that is not there", seed, c.Port)
				}
				walked = append(walked, c.Port)
			}
			if !slices.Equal(walked, slices.Sorted(maps.Keys(plain))) || p.Count != len(plain) {
				t.Fatalf("seed %d: the walk finds %d, want %d", seed, walked, slices.Sorted(maps.Keys(plain)))
			}
			if len(p.seats) > highest {
				t.Fatalf("seed %d: the table has %d seats, and no VI has had a port above number %d", seed, len(p.seats), highest)
			}
		}
		check()
		for step := range steps {
			number := rng.IntN(1 + all.Len()*step/steps) // ever higher ports
			switch c := plain[all.Lo+uint16(number)]; {
			case c != nil:
				p.Remove(c)
				delete(plain, c.Port)
			case len(plain) < most:
				c = &conn.Conn{Port: all.Lo + uint16(number)}
				plain[c.Port] = c
				p.Add(c, new(handshake.Side))
				highest = max(highest, number+1)
			}
			port := all.Lo + uint16(number)
			if p.Conn(port) != plain[port] || (p.side(port) == nil) != (plain[port] == nil) || p.InUse(port) != (plain[port] != nil) {
				t.Fatalf("seed %d: port %d has %v, want %v", seed, port, p.Conn(port), plain[port])
			}
			check()
		}
		for c := range p.Conns() {
			p.Remove(c)
			delete(plain, c.Port)
		}
		check()
		if p.Conn(all.Lo) != nil || p.Conn(all.Hi) != nil || p.Conn(0) != nil {
			t.Errorf("seed %d: a port has a connection, and all were removed", seed)
		}
	}
}

// TestStrangers: frames of no connection are dropped for a reason, and answered if that may
// help their sender.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	v := r.open(reliability.ReliableDelivery, peer, true)
	cases := []struct {
		name    string
		change  func(h *ethertype.Header)
		why     drops.Reason
		answers int
	}{
		{"tag", func(h *ethertype.Header) { h.Tag++ }, drops.Stale, 1},
		{"port", func(h *ethertype.Header) { h.DstPort++ }, drops.Stale, 1},
		{"to all", func(h *ethertype.Header) { h.Dst = ethertype.Broadcast }, drops.Destination, 0},
		{"from all", func(h *ethertype.Header) { h.Src, h.Tag = ethertype.Broadcast, 1 }, drops.Stale, 0},
		{"sender", func(h *ethertype.Header) { h.SrcPort++ }, drops.Peer, 0},
		{"reset", func(h *ethertype.Header) { h.Kind, h.Size = ethertype.KindReset, 12 }, drops.Stale, 0},
		{"short reset", func(h *ethertype.Header) { h.Kind = ethertype.KindReset }, drops.Stale, 0},
		{"request", func(h *ethertype.Header) { h.Kind, h.Size = ethertype.KindRequest, 3 }, drops.Format, 0},
		{"accept", func(h *ethertype.Header) { h.Kind, h.DstPort = ethertype.KindAccept, lowest+3 }, drops.Stale, 1},
	}
	for _, c := range cases {
		h := v.from(ethertype.KindAck)
		c.change(&h)
		before, sent := r.m.Counters().Dropped, len(r.out)
		r.poll(h)
		after := r.m.Counters().Dropped
		if after[c.why] != before[c.why]+1 || len(r.out)-sent != c.answers {
			t.Errorf("%s: dropped %v before and %v now, %d answers", c.name, before, after, len(r.out)-sent)
		}
	}
	lost := r.m.Counters().Dropped[drops.Unknown]
	if r.poll(v.from(ethertype.KindAnswer)); r.m.Counters().Dropped[drops.Unknown] != lost+1 {
		t.Errorf("the directory got no answer: dropped %v", r.m.Counters().Dropped)
	}
}

// TestReset: an answer to a frame of a connection ends it, and says whether its peer
// was started anew.
func TestReset(t *testing.T) {
	for incarnation, want := range map[uint64]error{0: code.ErrDisconnected, 9: code.ErrPeerReset} {
		r := newRig(t)
		v := r.open(reliability.ReliableDelivery, peer, true)
		h := v.from(ethertype.KindReset)
		h.Tag, h.Size = 0, conn.ResetSize
		body := binary.BigEndian.AppendUint32(nil, v.conn.RemoteTag)
		r.arrive(&h, binary.BigEndian.AppendUint64(body, incarnation))
		if r.poll(); v.conn.State != code.StateError || !errors.Is(v.ended, want) {
			t.Errorf("%v: %v, want %v", v.conn.State, v.ended, want)
		}
	}
}

// TestInterface: an interface that is down ends nothing; one whose MTU is smaller ends
// connections whose frames it does not carry; one with another MAC ends all, once.
func TestInterface(t *testing.T) {
	r := newRig(t)
	a, local := r.open(reliability.ReliableDelivery, peer, true), r.open(reliability.ReliableDelivery, ethertype.Addr{MAC: here, Port: 9000}, true)
	asks := r.open(reliability.ReliableDelivery, peer, false)
	r.state = errors.New("down")
	if err := r.m.CheckLink(); err != nil || !errors.Is(r.m.LinkError(), r.state) || r.m.Failed() != nil {
		t.Fatalf("down: %v, %v", err, r.m.LinkError())
	}
	r.state = &transport.ChangeError{What: "MTU", MTU: 1000}
	if err := r.m.CheckLink(); err != nil || a.conn.State != code.StateError || !errors.Is(a.ended, code.ErrLink) {
		t.Fatalf("smaller MTU: %v, %v", a.conn.State, a.ended)
	}
	if local.conn.State != code.StateConnected || asks.failed || r.m.mtuTo(peer.MAC) != 1000 || r.m.mtuTo(here) != 9000 {
		t.Fatalf("within the host: %v, MTU %d and %d", local.conn.State, r.m.mtuTo(peer.MAC), r.m.mtuTo(here))
	}
	r.state = nil
	if err := r.m.CheckLink(); err != nil || r.m.LinkError() != nil || r.m.mtuTo(peer.MAC) != mtu {
		t.Fatalf("well again: %v", r.m.LinkError())
	}
	r.state = &transport.ChangeError{What: "MAC"}
	for range 2 {
		if err := r.m.CheckLink(); !errors.Is(err, code.ErrLink) || len(r.dead) != 1 || local.conn.State != code.StateError {
			t.Fatalf("another MAC: %v, told %v", err, r.dead)
		}
	}
}

// TestHardware: peers see the interface's new MAC, a while after it has changed, once; also of a
// change that is seen at the time 0, as in a world whose time begins with it.
func TestHardware(t *testing.T) {
	for _, seen := range []int64{int64(time.Hour), 0} {
		t.Run(time.Duration(seen).String(), func(t *testing.T) { hardware(t, seen) })
	}
}

func hardware(t *testing.T, seen int64) {
	r := newRig(t)
	r.open(reliability.ReliableDelivery, peer, true)
	r.open(reliability.Unreliable, peer, true)
	r.open(reliability.ReliableDelivery, ethertype.Addr{MAC: here, Port: 9000}, true)
	r.moved = ethertype.MAC{2, 7}
	r.m.SetClock(seen)
	for range 3 {
		r.m.CheckLink()
		r.m.SetClock(r.m.Now() + forgetful)
	}
	r.m.Flush()
	if len(r.out) != 2 || r.out[0].Kind != ethertype.KindAck || r.out[1].Kind != ethertype.KindQuery {
		t.Errorf("sent %v", r.out)
	}
}

// TestClosedLink: a link that somebody closes ends everything, attempts too, and frames that it
// carries after that are not taken.
func TestClosedLink(t *testing.T) {
	r := newRig(t)
	a, asks := r.open(reliability.ReliableDelivery, peer, true), r.open(reliability.ReliableDelivery, peer, false)
	r.recvErr = transport.ErrClosed
	r.poll(a.from(ethertype.KindAnswer))
	r.poll()
	if len(r.dead) != 1 || !errors.Is(r.dead[0], code.ErrLink) || a.conn.State != code.StateError || !asks.failed || r.m.Counters().RxFrames > 0 {
		t.Errorf("told %v; %v, failed %v, %d frames taken", r.dead, a.conn.State, asks.failed, r.m.Counters().RxFrames)
	}
	if err := r.m.Dead(); !errors.Is(err, transport.ErrClosed) || r.m.Failed() == nil {
		t.Errorf("dead: %v", err)
	}
}

// TestDeparted: connections to a station of this host that has gone end, others do not.
func TestDeparted(t *testing.T) {
	for why, want := range map[error]error{errors.New("gone"): code.ErrUnreachable, shm.ErrBroken: code.ErrProtocol} {
		r := newRig(t)
		local := ethertype.Addr{MAC: here, Port: 9000}
		gone, stays := r.open(reliability.ReliableDelivery, local, true), r.open(reliability.ReliableDelivery, ethertype.Addr{MAC: here, Port: 9100}, true)
		far, asks := r.open(reliability.ReliableDelivery, ethertype.Addr{MAC: peer.MAC, Port: 9000}, true), r.open(reliability.ReliableDelivery, local, false)
		r.left(transport.PortRange{Lo: 8999, Hi: 9001}, why)
		if !errors.Is(gone.ended, want) || stays.ended != nil || far.ended != nil || asks.failed {
			t.Errorf("%v: %v, %v, %v, %v", why, gone.ended, stays.ended, far.ended, asks.failed)
		}
		if !r.m.Reaches(here) || !r.m.Reaches(peer.MAC) || r.m.relTo(here).Window > 16 {
			t.Errorf("within the host the window is %d", r.m.relTo(here).Window)
		}
	}
}

// TestTimeWait: the peer of a connection that this side has left is told again what it
// was told, until it knows.
func TestTimeWait(t *testing.T) {
	r := newRig(t)
	v := r.open(reliability.ReliableDelivery, peer, true)
	data, confirmed := v.from(ethertype.KindAck), v.from(ethertype.KindDisconnect)
	confirmed.Size = 1
	v.conn.SendDisconnect(code.ReasonLeft)
	r.m.Ended.Add(&v.conn, code.ReasonLeft, false)
	v.conn.Idle()
	r.poll(data)
	if n := len(r.out); n != 2 || r.out[1].Kind != ethertype.KindDisconnect || r.out[1].Seq != r.out[0].Seq || r.m.Ended.table.Waiting() != 1 {
		t.Fatalf("sent %v", r.out)
	}
	r.poll(confirmed)
	if last := r.out[len(r.out)-1]; last.Kind != ethertype.KindReset || r.m.Ended.table.Waiting() != 0 {
		t.Fatalf("sent %v, %d wait", r.out, r.m.Ended.table.Waiting())
	}
	r.m.Ended.TellAll(int64(time.Second)) // all know: it takes no time
}

// TestDamaged: a frame with a wrong CRC counts as lost for the connection that it names.
func TestDamaged(t *testing.T) {
	r := newRig(t)
	v := r.open(reliability.Unreliable, peer, true)
	h := v.from(ethertype.KindRDMAWrite)
	h.Size, h.Length = 24, 24 // the place that it goes to, and data
	r.arrive(&h, make([]byte, 24))
	r.in[0][ethertype.HeaderSize+20] ^= 1
	r.poll()
	if r.damaged != 1 || v.conn.Stats.Dropped[drops.CRC] != 1 {
		t.Errorf("told %d times; dropped %v", r.damaged, r.m.Counters().Dropped)
	}
}

// TestGoneNamesItsInterface: what a link returns for a frame does not name the interface that is
// gone. The NIC's cause of death does, as Check returns it.
func TestGoneNamesItsInterface(t *testing.T) {
	r := newRig(t)
	r.recvErr = transport.ErrGone
	r.state = fmt.Errorf("%w: q0 was deleted", transport.ErrGone)
	r.eng.Lock()
	defer r.eng.Unlock()
	r.eng.Poll()
	if err := r.m.Dead(); !errors.Is(err, transport.ErrGone) || !strings.Contains(err.Error(), "q0 was deleted") {
		t.Errorf("%v, want the error of Check", err)
	}
}
