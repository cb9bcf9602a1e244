package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLongBlackHole: a path that has carried long frames stops to in the midst of
// messages of all kinds. They arrive all the same, soon, and those behind them in frames
// of the MTU; when it carries long frames again they are used again.
func TestLongBlackHole(t *testing.T) {
	need.Simulated(t)
	rounds := 3
	if !need.Full() { // the race detector has nothing to find where one goroutine drives both ends
		rounds = 1
	}
	for _, level := range reliableLevels {
		for _, kind := range []string{"Messages", "Packed", "Write", "Read"} {
			t.Run(fmt.Sprint(level, kind), func(t *testing.T) {
				d := newLongDuo(t, [2]bool{}, openTo(level))
				d.exchange(3000)
				if !d.a.Wide() || !d.b.Wide() {
					t.Fatal("no long frames to begin with")
				}
				for round := range rounds {
					d.long[0].opaque, d.long[1].opaque = true, true
					start := *d.links[0].clock
					d.underWay(kind)
					if took := time.Duration(*d.links[0].clock - start); took > time.Second {
						t.Errorf("round %d: what was under way took %v", round, took)
					}
					if sender := map[bool]*vipl.VI{false: d.b, true: d.a}[kind == "Read"]; sender.Wide() {
						t.Errorf("round %d: long frames are sent into a black hole", round)
					}
					d.patience = 6000 // times 100 us
					d.exchange(3000, 20_000)
					d.patience = 0
					d.long[0].opaque, d.long[1].opaque = false, false
					for end := *d.links[0].clock + int64(30*time.Second); *d.links[0].clock < end && !(d.a.Wide() && d.b.Wide()); {
						*d.links[0].clock += int64(50 * time.Millisecond)
						d.exchange(3000)
					}
					if !d.a.Wide() || !d.b.Wide() {
						t.Fatalf("round %d: long frames are not used again: %v %v", round, d.a.Wide(), d.b.Wide())
					}
					d.exchange(3000)
				}
			})
		}
	}
}

// TestLongProbeLost: while probes for long frames are lost, or the path carries none, the connection asks again, ever more
// rarely, as often as it has long messages. When the path carries long frames, it sends them.
func TestLongProbeLost(t *testing.T) {
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{true, true}, openTo(level))
		probes := func() (n int) {
			for _, l := range d.long {
				n += l.lost
			}
			return n
		}
		var lost []int
		for range 3 {
			before := probes()
			for end := *d.links[0].clock + int64(time.Second); *d.links[0].clock < end; {
				*d.links[0].clock += int64(5 * time.Millisecond)
				d.exchange(3000)
			}
			lost = append(lost, probes()-before)
		}
		if lost[0] < 4 || lost[0] > 20 || lost[1]+lost[2] > 6 || d.a.Wide() || d.b.Wide() {
			t.Errorf("%v: long probes in the first three seconds: %v", level, lost)
		}
		d.long[0].opaque, d.long[1].opaque = false, false
		for end := *d.links[0].clock + int64(5*time.Second); *d.links[0].clock < end; {
			*d.links[0].clock += int64(50 * time.Millisecond)
			d.exchange(3000)
		}
		if !d.a.Wide() || !d.b.Wide() {
			t.Errorf("%v: long frames are sent: %t, %t", level, d.a.Wide(), d.b.Wide())
		}
	}
}

// TestLongRest: a connection that has sent no long frames for 30 seconds ends to, although short messages go on. Later the
// links receive them no more. The next long message has both ask again, and arrives.
func TestLongRest(t *testing.T) {
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{}, openTo(level))
		idle := func(span time.Duration) {
			for end := *d.links[0].clock + int64(span); *d.links[0].clock < end; {
				*d.links[0].clock += int64(200 * time.Millisecond)
				d.exchange(8)
			}
		}
		for round := range 3 {
			d.exchange(longSizes...)
			if idle(20 * time.Second); !d.a.Wide() || !d.b.Wide() {
				t.Fatalf("%v: round %d: after 20 s: %t, %t", level, round, d.a.Wide(), d.b.Wide())
			}
			if idle(15 * time.Second); d.a.Wide() || d.b.Wide() || !d.long[0].receives || !d.long[1].receives {
				t.Fatalf("%v: round %d: after 35 s: %t, %t", level, round, d.a.Wide(), d.b.Wide())
			}
			if idle(30 * time.Second); d.long[0].receives || d.long[1].receives {
				t.Fatalf("%v: round %d: after 65 s the links receive long frames: %t, %t", level, round, d.long[0].receives, d.long[1].receives)
			}
			for side, n := range []*vipl.NIC{d.na, d.nb} {
				if s := n.Snapshot(); s.LongOn != 0 || s.LongStarts != uint64(round)+1 {
					t.Errorf("%v: round %d: side %d counts %d starts, on: %d", level, round, side, s.LongStarts, s.LongOn)
				}
			}
		}
	}
}

// oneWay has b send a message to a.
func (d *duo) oneWay(size int) {
	d.t.Helper()
	in := d.post(d.a, size)
	buf, h := d.buffer(d.nb, size, nil)
	out := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	if err := d.b.PostSend(out); err != nil {
		d.t.Fatal(err)
	}
	d.run()
	if got, err := d.a.RecvDone(); got != in || err != nil {
		d.t.Fatalf("%d bytes have not arrived: %v", size, err)
	}
	if got, err := d.b.SendDone(); got != out || err != nil {
		d.t.Fatal(got, err)
	}
}

// TestLongOneWay: a NIC whose own long frames do not get through, which asks in vain whether they do again, goes on to receive those
// of the peer as long as they come.
func TestLongOneWay(t *testing.T) {
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{}, openTo(level))
		d.exchange(3000)
		d.long[0].opaque = true
		d.underWay("Read") // a finds out
		if d.patience = 10; d.a.Wide() || !d.b.Wide() {
			t.Fatalf("%v: long frames are sent: %t, %t", level, d.a.Wide(), d.b.Wide())
		}
		clock := d.links[0].clock
		start := *clock
		for *clock < start+int64(3*time.Minute) {
			*clock += int64(200 * time.Millisecond)
			if d.oneWay(3000); !d.long[0].receives || !d.b.Wide() || d.b.Snapshot().LongStops > 0 {
				t.Fatalf("%v: after %v a receives long frames: %t; b sends them: %t, and has stopped %d times", level,
					time.Duration(*clock-start), d.long[0].receives, d.b.Wide(), d.b.Snapshot().LongStops)
			}
		}
	}
}

// TestLongLinkSlow: links take 100 ms to receive long frames again. A path that has carried none for a long time, so that it is asked
// only every few minutes, is found to carry them at the next question all the same.
func TestLongLinkSlow(t *testing.T) {
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{true, true}, openTo(level))
		d.patience = 10
		for i := range d.long {
			d.long[i].slow = int64(100 * time.Millisecond)
		}
		clock := d.links[0].clock
		flow := func(span time.Duration) (took time.Duration) {
			start := *clock
			for ; took < span && !d.b.Wide(); took = time.Duration(*clock - start) {
				*clock += int64(200 * time.Millisecond)
				d.oneWay(3000)
			}
			return took
		}
		if flow(15 * time.Minute); d.b.Wide() || d.long[0].receives {
			t.Fatalf("%v: an opaque path: %t, %t", level, d.b.Wide(), d.long[0].receives)
		}
		d.long[0].opaque, d.long[1].opaque = false, false
		if flow(6 * time.Minute); !d.b.Wide() {
			t.Errorf("%v: after 6 minutes it has not found out; it has asked %d times", level, d.b.Snapshot().LongAsks)
		}
	}
}

// TestLongStranger: only the peer of an established connection makes a link receive long frames. A stranger does not who knows
// addresses and tag, but no number; nor does a request to connect.
func TestLongStranger(t *testing.T) {
	f := &forger{duo: newLongDuo(t, [2]bool{}, openTo(reliability.ReliableDelivery))}
	l, in := f.links[0], f.post(f.a, 8)
	f.send(f.b, 8)
	if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
		t.Fatal(err)
	}
	f.run()
	x, err := f.a.RecvDone()
	f.took(x, err, in, vipl.StatusOpReceive)
	asks := func(change func(h *ethertype.Header)) {
		t.Helper()
		h := f.like
		h.Kind, h.Flags, h.Size, h.Length, h.Offset, h.Msg, h.Count = ethertype.KindProbe, ethertype.FlagTakesLong|ethertype.FlagWholeCRC, 0, 0, 0, 0, 0
		change(&h)
		b := make([]byte, ethertype.HeaderSize)
		h.Put(b)
		ethertype.Seal(b)
		if n, _ := f.links[1].Send([]transport.Frame{{Head: b}}); n != 1 {
			t.Fatal("the wire is full")
		}
		f.na.Poll()
	}
	for name, change := range map[string]func(h *ethertype.Header){
		"tag":       func(h *ethertype.Header) { h.Tag++ },
		"port":      func(h *ethertype.Header) { h.SrcPort++ },
		"host":      func(h *ethertype.Header) { h.Src[5]++ },
		"number":    func(h *ethertype.Header) { h.Seq += 1 << 20 },
		"ack":       func(h *ethertype.Header) { h.Ack += 1 << 20 },
		"an answer": func(h *ethertype.Header) { h.Kind = ethertype.KindProbeAck },
		"data":      func(h *ethertype.Header) { h.Kind, h.Flags = ethertype.KindAck, ethertype.FlagTakesLong },
	} {
		if asks(change); f.long[0].receives {
			t.Errorf("another %s: the link receives long frames", name)
		}
	}
	if asks(func(*ethertype.Header) {}); !f.long[0].receives {
		t.Error("the peer's question does not make the link receive long frames")
	}
}

// underWay has b begin several operations of a kind before a learns anything, and wants
// them to be done.
func (d *duo) underWay(kind string) {
	d.t.Helper()
	const count, size = 6, 9000
	allow := &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
	var in, out [count][]byte
	var sent [count]*vipl.Descriptor
	for i := range count {
		n := size
		if kind == "Packed" {
			n = 400
		}
		var inH, outH vipl.MemHandle
		in[i], inH = d.buffer(d.na, n, allow)
		out[i], outH = d.buffer(d.nb, n, nil)
		content(uint64(i), n, out[i])
		s := &vipl.Descriptor{Segs: []vipl.Segment{{Data: out[i], Handle: outH}}}
		switch kind {
		case "Write":
			s.Op, s.Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(in[i]), Handle: inH}
		case "Read":
			content(uint64(i), n, in[i])
			clear(out[i])
			s.Op, s.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: vipl.VirtualAddress(in[i]), Handle: inH}
		default:
			if err := d.a.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: in[i], Handle: inH}}}); err != nil {
				d.t.Fatal(err)
			}
		}
		if err := d.b.PostSend(s); err != nil {
			d.t.Fatal(err)
		}
		sent[i] = s
	}
	done := 0
	for range 100_000 {
		d.nb.Poll()
		d.na.Poll()
		*d.links[0].clock += 10_000
		if s, err := d.b.SendDone(); err == nil {
			if s != sent[done] {
				d.t.Fatal("out of order")
			}
			done++
		} else if errors.Is(err, vipl.ErrDescriptor) || done == count {
			break
		}
	}
	for i := range count {
		if done != count || !bytes.Equal(in[i], out[i]) {
			d.t.Fatalf("%d of %d are done; number %d is intact: %v; %v, %v", done, count, i, bytes.Equal(in[i], out[i]), d.a.Err(), d.b.Err())
		}
	}
	if kind == "Messages" || kind == "Packed" {
		for range count {
			d.run()
			if _, err := d.a.RecvDone(); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// TestLongPathLoss: a path on which many frames are lost, long ones too, is no black
// hole for long.
func TestLongPathLoss(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, openTo(reliability.ReliableDelivery))
	for i := range d.long {
		d.long[i].clumsy = 3
	}
	d.patience = 60
	for range 10 {
		d.exchange(longSizes...)
	}
	if !d.a.Wide() || !d.b.Wide() {
		t.Error(d.a.Wide(), d.b.Wide())
	}
}

// TestLongOffloadsOff switches the offloads of both ends off in the midst of a stream, across a bridge and
// without: the kernel then cuts long frames, and the receiver joins the segments. The sender learns of it, and goes on.
func TestLongOffloadsOff(t *testing.T) {
	for name, c := range map[string]struct {
		p   *vethtest.Pair
		key seal.Source
	}{
		"pair":   {vethtest.New(t, 1500), nil},
		"bridge": {vethtest.NewBridged(t, 1500, 1500), nil},
		"sealed": {vethtest.NewBridged(t, 1500, 1500), seal.Fixed(sealKey(1))},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.p
			var nics [2]*vipl.NIC
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Key: c.key})
			}
			s := startStream(t, nics, nil)
			if v := s.a.Snapshot(); !s.a.Wide() || v.LongCut != 0 {
				t.Fatal("no whole long frames to begin with")
			}
			if err := errors.Join(p.SetOffloads(0, false), p.SetOffloads(1, false)); err != nil {
				t.Fatal(err)
			}
			s.flows(t)
			s.flows(t)
			v, l := s.a.Snapshot(), nics[1].Snapshot().Link
			if v.FrameData < 1500 || v.LongCut != 1 || v.LongStops != 0 || l.RxCut == 0 {
				t.Errorf("frames of %d bytes, cut: %d, stopped %d times; %d segments were received", v.FrameData, v.LongCut, v.LongStops, l.RxCut)
			}
		})
	}
}

// TestLongCutLoss: a path that cuts long frames is used as long as it loses few segments. If it loses many, messages go in frames
// of the MTU, and take about as long as without long frames.
func TestLongCutLoss(t *testing.T) {
	run := func(loss float64, path sim.LongPath) (took time.Duration, ends []vipl.VISnapshot) {
		t.Helper()
		w := newWorld(sim.Options{Seed: 5, MTU: 1500, Bandwidth: 10e9, Delay: 10 * time.Microsecond, Loss: loss})
		var links [2]transport.Link
		for i := range links {
			links[i] = w.StationWith(sim.StationOptions{Ports: transport.PortRange{Lo: 1024, Hi: 2047}, Long: path})
		}
		took, _, err := pingPong(w, links, 30)
		if err != nil {
			t.Fatal(err)
		}
		return took, w.ends
	}
	for loss, lossy := range map[float64]bool{0: false, 0.0005: false, 0.008: true, 0.03: true} {
		took, ends := run(loss, sim.LongCut)
		stops := uint64(0)
		for _, v := range ends {
			stops += v.LongStops
			if uses := v.FrameData > 1500; v.State == vipl.StateConnected && (uses == lossy || (v.LongCut > 0) != uses) {
				t.Errorf("loss %v: cut: %d, frames of %d bytes", loss, v.LongCut, v.FrameData)
			}
		}
		if (stops > 0) != (loss == 0.008) { // at 0.03 hardly any probe passes
			t.Errorf("loss %v: stopped %d times", loss, stops)
		}
		if without, _ := run(loss, sim.LongNone); took > without+without/2 {
			t.Errorf("loss %v: messages take %v, without long frames %v", loss, took, without)
		}
	}
}

// TestLongCutEnds: a sender learns that its path cuts long frames, and that it no longer does, once many have arrived whole.
func TestLongCutEnds(t *testing.T) {
	const most, few = 30, 3 // messages of two long frames: most are fewer than a run of whole frames, all are more
	for _, level := range reliableLevels {
		d := newLongDuo(t, [2]bool{}, openTo(level))
		send := func(count int, cut bool, want int) {
			t.Helper()
			d.long[0].cut = cut
			for range count {
				d.exchange(3000)
			}
			if got := d.b.Snapshot().LongCut; got != want {
				t.Fatalf("%v: the path cuts long frames: %d, want %d", level, got, want)
			}
		}
		send(few, false, 0)
		for range 2 {
			send(1, true, 1)
			send(most, false, 1)
			send(1, true, 1)
			send(most, false, 1)
			send(few, false, 0)
		}
	}
}

// TestLongCutAgain: a sender whose path cuts long frames learns of it also if the first notification is lost.
func TestLongCutAgain(t *testing.T) {
	w := newWorld(sim.Options{Seed: 5, MTU: 1500, Bandwidth: 10e9, Delay: 10 * time.Microsecond})
	var links [2]transport.Link
	for i := range links {
		links[i] = w.StationWith(sim.StationOptions{Ports: transport.PortRange{Lo: 1024, Hi: 2047}, Long: sim.LongCut})
	}
	lost, segments := map[*sim.Station]bool{}, map[*sim.Station]int{}
	w.Script(func(_ int64, from, to *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		if _, err := h.Parse(frame); err != nil { // a segment
			segments[from]++
			return sim.Action{Drop: segments[from]%500 == 499}
		}
		notice := h.Kind == ethertype.KindProbeAck && h.Msg != 0
		first := notice && !lost[from]
		lost[from] = lost[from] || notice
		return sim.Action{Drop: first}
	})
	if _, _, err := pingPong(w, links, 30); err != nil {
		t.Fatal(err)
	}
	for i, v := range w.ends {
		if v.State == vipl.StateConnected && (v.FrameData <= 1500 || v.LongCut == 0) {
			t.Errorf("end %d: frames of %d bytes, cut: %d", i, v.FrameData, v.LongCut)
		}
	}
	if len(lost) != 2 {
		t.Errorf("%d sides have sent a notification", len(lost))
	}
}

// ipv6Sockets returns how many packet sockets of a side's network namespace receive IPv6.
func ipv6Sockets(t *testing.T, p *vethtest.Pair, side int) (n int) {
	t.Helper()
	err := p.In(side, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/packet")
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[3] == "86dd" {
				n++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLongSocket: a NIC has a socket for IPv6 only when a connection of its own has sent or received long messages.
func TestLongSocket(t *testing.T) {
	for name, p := range map[string]*vethtest.Pair{"pair": vethtest.New(t, 1500), "bridge": vethtest.NewBridged(t, 1500, 1500)} {
		t.Run(name, func(t *testing.T) {
			var nics [2]*vipl.NIC
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name})
			}
			want := func(what string, want int) {
				t.Helper()
				for side, n := range nics {
					got, s := ipv6Sockets(t, p, side), n.Snapshot()
					if got != want || s.LongOn != want || s.LongStarts != uint64(want) {
						t.Errorf("%s: side %d has %d sockets for IPv6, want %d; counted %d starts, on: %d", what, side, got, want, s.LongStarts, s.LongOn)
					}
				}
			}
			want("open", 0)
			a, b := join(t, nics, nil)
			short := newFlow(t, a, b, 100, 100, 1)
			within(t, "short messages", func() error { return all(short.send, short.receive) })
			want("short messages", 0)
			a, b = join(t, nics, nil)
			long := newFlow(t, a, b, 100, 60_000, 1)
			within(t, "long messages", func() error { return all(long.send, long.receive) })
			want("long messages", 1)
			if !a.Wide() || !b.Wide() {
				t.Error("long frames are sent:", a.Wide(), b.Wide())
			}
			for side, n := range nics {
				if n.Close(); ipv6Sockets(t, p, side) != 0 {
					t.Errorf("side %d: a closed NIC has a socket for IPv6", side)
				}
			}
		})
	}
}

// long is the size of messages of many packets.
const long = 1 << 20

// exchange sends a long message and waits for one, so many times; an end that answers does
// it the other way round.
func exchange(n *vipl.NIC, v *vipl.VI, times int, answers bool) error {
	buf := make([]byte, long)
	h, err := n.RegisterMem(buf, nil)
	if err != nil {
		return err
	}
	sent := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	for range times {
		for _, sends := range []bool{!answers, answers} {
			if !sends {
				d, err := v.RecvWait(bg)
				if err == nil {
					err = v.PostRecv(d)
				}
				if err != nil {
					return err
				}
				continue
			}
			if err := v.PostSend(sent); err != nil {
				return err
			}
			if _, err := v.SendWait(bg); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready makes a VI whose receives of long messages are posted.
func ready(n *vipl.NIC) (*vipl.VI, error) {
	v, err := n.CreateVI(&vipl.Attributes{Reliability: reliableLevels[0]}, nil, nil)
	if err != nil {
		return nil, err
	}
	for range 2 {
		buf := make([]byte, long)
		h, err := n.RegisterMem(buf, nil)
		if err == nil {
			err = v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}})
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// pingPong exchanges long messages over two links of a world, and returns the virtual time
// that they take, and how often a frame was sent again.
func pingPong(w *world, links [2]transport.Link, times int) (took time.Duration, again uint64, err error) {
	w.nodeOn(links[0], "server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		v, err := ready(n)
		if err == nil {
			err = r.Accept(bg, v)
		}
		if err == nil {
			err = exchange(n, v, times, true)
		}
		w.ends = append(w.ends, v.Snapshot())
		again += v.Snapshot().Retransmits
		return err
	})
	w.nodeOn(links[1], "client", nil, func(n *vipl.NIC) error {
		v, err := ready(n)
		if err == nil {
			err = v.Connect(bg, ethertype.Addr{MAC: links[0].Info().MAC, Port: service}, nil)
		}
		if err != nil {
			return err
		}
		began := w.Now()
		err = exchange(n, v, times, false)
		took = time.Duration(w.Now() - began)
		w.ends = append(w.ends, v.Snapshot())
		again += v.Snapshot().Retransmits
		return err
	})
	return took, again, w.run()
}

// TestLongOverCable: long messages over a live cable of the emulated Myrinet take as long as
// over the link that the cable is on: nothing on the way waits for credit, for a frame that is
// missing, or for a timer, and nothing is sent again.
func TestLongOverCable(t *testing.T) {
	const times, mtu = 10, 30 << 10
	for _, delay := range []time.Duration{time.Microsecond, 20 * time.Microsecond} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			var took [2]time.Duration
			for i, cabled := range []bool{false, true} {
				w := newWorld(sim.Options{Seed: 3, MTU: mtu + plain.Overhead, Bandwidth: 40e9, Delay: delay})
				var links [2]transport.Link
				for i := range links {
					if !cabled {
						links[i] = w.StationWith(sim.StationOptions{Ports: transport.PortRange{Lo: 1024, Hi: 2047}, MTU: mtu})
						continue
					}
					end := w.StationWith(sim.StationOptions{EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
					cfg := plain.Config{MTU: mtu, Routes: []myrinet.HostRoute{{To: ethertype.Broadcast}}}
					var err error
					if links[i], err = plain.Join(end, &cfg, myrinet.LiveOptions{Seed: uint64(i + 1)}); err != nil {
						t.Fatal(err)
					}
				}
				var again uint64
				var err error
				if took[i], again, err = pingPong(w, links, times); err != nil || again > 0 {
					t.Fatalf("%d frames were sent again, %v", again, err)
				}
				for i := range links {
					if card, ok := links[i].(interface{ Snapshot() plain.Snapshot }); ok {
						s := card.Snapshot()
						f := s.Cable.Frames
						if f.Starved+f.Full+f.FramesLost+f.NoRoom+s.Link.TxFull+s.Link.RxDrops > 0 {
							t.Errorf("end %d has waited: %+v, %+v", i, f, s.Link)
						}
					}
				}
			}
			if took[1] > took[0]+took[0]/50 {
				t.Errorf("%d messages each way take %v over the cable, %v without it", times, took[1], took[0])
			}
		})
	}
}

// TestObstacle: an interface without a carrier is named as long as it has none,
// and in a namespace that does not have it nothing is known.
func TestObstacle(t *testing.T) {
	p := vethtest.New(t, 1500)
	nic := openOn(t, p, 0, "packet")
	obstacle := func() (text string) {
		if err := p.In(0, func() error { text = nic.Obstacle(); return nil }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := obstacle(); got != "" {
		t.Errorf("all is well, but: %q", got)
	}
	if err := p.SetUp(1, false); err != nil {
		t.Fatal(err)
	}
	for obstacle() == "" { // the kernel sees to it a little later
		runtime.Gosched()
	}
	if got := obstacle(); !strings.HasPrefix(got, vethtest.Name+" has no carrier: ") {
		t.Errorf("the other end is off: %q", got)
	}
	if got := nic.Obstacle(); !strings.Contains(got, vethtest.Name+" has no carrier: ") {
		t.Errorf("in another namespace: %q", got)
	}
}
