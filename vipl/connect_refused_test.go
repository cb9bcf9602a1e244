package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// refusingLink takes no frame to a station that is longer than what lies before it
// carries, as a packet socket does whose interface drops the frame (ENOBUFS).
type refusingLink struct {
	transport.Link
	to      ethertype.MAC
	longest int  // frame to that station; 0: any
	silent  bool // it loses longer ones instead, and says nothing
	refused int  // calls that took nothing
}

func (l *refusingLink) Send(frames []transport.Frame) (n int, err error) {
	for n < len(frames) {
		if l.longest > 0 && ethertype.MAC(frames[n].Head) == l.to && frames[n].Len() > l.longest {
			if l.silent {
				n++
				continue
			}
			if n == 0 {
				l.refused++
			}
			return n, nil
		}
		k, err := l.Link.Send(frames[n : n+1])
		if k == 0 || err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// refusals is a world of a client, a server behind what carries short frames only,
// and one that nothing lies before.
type refusals struct {
	*world
	link         *refusingLink
	narrow, wide *sim.Station
	served       error // of the narrow one
}

func newRefusals(seed uint64) *refusals {
	w := &refusals{world: newWorld(sim.Options{Seed: seed, MTU: 9000})}
	serve := func(ended *error) func(n *vipl.NIC) error {
		return func(n *vipl.NIC) error {
			l, err := n.Listen(service)
			if err != nil {
				return err
			}
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := r.Accept(bg, v); err != nil {
				*ended = err
				return nil
			}
			return echoAll(v)
		}
	}
	w.narrow = w.node("narrow", nil, serve(&w.served))
	w.wide = w.node("wide", nil, serve(new(error)))
	return w
}

// client runs fn at the client.
func (w *refusals) client(fn func(n *vipl.NIC) error) error {
	station := w.StationWith(sim.StationOptions{Name: "client", Ports: transport.PortRange{Lo: 1024, Hi: 2047}})
	w.link = &refusingLink{Link: station, to: w.narrow.MAC()}
	w.Go("client", func() {
		n, err := vipl.Open(context.Background(), &vipl.Config{Link: w.link, Seed: w.seed + 1})
		if err == nil {
			err = fn(n)
			n.Close()
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("client: %w", err))
		}
	})
	return w.run()
}

// echoAll receives messages of up to 20,000 bytes until the connection ends.
func echoAll(v *vipl.VI) error {
	in, err := newBuffers(v.NIC(), 16, 20_000)
	if err != nil {
		return err
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			return err
		}
	}
	for {
		d, err := v.RecvWait(bg)
		if err != nil {
			return nil //nolint:nilerr // the client has left
		}
		if err := v.PostRecv(d); err != nil {
			return nil //nolint:nilerr // the client has left
		}
	}
}

// connectedTo returns a VI that is connected to a station.
func connectedTo(n *vipl.NIC, to ethertype.MAC) (*vipl.VI, error) {
	v, err := n.CreateVI(&vipl.Attributes{Reliability: reliability.ReliableDelivery}, nil, nil)
	if err != nil {
		return nil, err
	}
	return v, dial(v, ethertype.Addr{MAC: to, Port: service})
}

// namesMTU returns an error unless err is the MTU's and names the remedy.
func namesMTU(err error) error {
	if !errors.Is(err, vipl.ErrInvalidMTU) || !strings.Contains(err.Error(), "ip link set") {
		return fmt.Errorf("ended with %w, want ErrInvalidMTU and the remedy", err)
	}
	return nil
}

// TestRefusedConnect: where the link refuses long frames to a peer for ever, the
// attempt to connect ends as when they are lost in silence; messages to another peer
// go on meanwhile, and the link is not called without end.
func TestRefusedConnect(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		w := newRefusals(seed)
		err := w.client(func(n *vipl.NIC) error {
			w.link.longest = 1514
			v, err := connectedTo(n, w.wide.MAC())
			if err != nil {
				return err
			}
			bad, err := n.CreateVI(&vipl.Attributes{Reliability: reliability.ReliableDelivery}, nil, nil)
			if err != nil {
				return err
			}
			if err := bad.ConnectStart(ethertype.Addr{MAC: w.narrow.MAC(), Port: service}, nil); err != nil {
				return err
			}
			out, err := newBuffers(n, 1, 20_000)
			if err != nil {
				return err
			}
			messages, longest := 0, int64(0)
			for bad.ConnectDone() == vipl.ErrNotDone {
				start := n.Now()
				if err := v.PostSend(&out.descs[0]); err != nil {
					return err
				}
				if _, err := v.SendWait(bg); err != nil {
					return err
				}
				longest = max(longest, n.Now()-start)
				messages++
				driveFor(n, time.Millisecond)
			}
			switch {
			case longest > int64(150*time.Millisecond) || messages < 500:
				return fmt.Errorf("%d messages to the other peer, one of which took %v", messages, time.Duration(longest))
			case w.link.refused > 2000:
				return fmt.Errorf("the link has refused %d calls", w.link.refused)
			case n.Snapshot().TxTooLong == 0:
				return errors.New("no frame counts as too long")
			}
			return namesMTU(bad.ConnectDone())
		})
		return err
	})
}

// TestRefusedLater: the same when the path narrows in the midst of a connection.
func TestRefusedLater(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("Silent=%v", silent), func(t *testing.T) {
			seeds(t, 4, func(seed uint64) error {
				w := newRefusals(seed)
				return w.client(func(n *vipl.NIC) error { return w.narrows(n, silent) })
			})
		})
	}
}

func (w *refusals) narrows(n *vipl.NIC, silent bool) error {
	bad, err := connectedTo(n, w.narrow.MAC())
	if err != nil {
		return err
	}
	good, err := connectedTo(n, w.wide.MAC())
	if err != nil {
		return err
	}
	out, err := newBuffers(n, 20, 20_000)
	if err != nil {
		return err
	}
	w.link.longest, w.link.silent = 1514, silent
	for i := range 16 {
		if err := bad.PostSend(&out.descs[i]); err != nil {
			return err
		}
	}
	longest := int64(0)
	for bad.State() == vipl.StateConnected {
		start := n.Now()
		if err := good.PostSend(&out.descs[16]); err != nil {
			return err
		}
		if _, err := good.SendWait(bg); err != nil {
			return fmt.Errorf("to the other peer: %w", err)
		}
		longest = max(longest, n.Now()-start)
		driveFor(n, time.Millisecond)
	}
	if longest > int64(150*time.Millisecond) || w.link.refused > 2000 {
		return fmt.Errorf("a message to the other peer took %v; the link has refused %d calls", time.Duration(longest), w.link.refused)
	}
	return namesMTU(bad.Err())
}

// TestRefusedVeth has a bridge between two NICs carry less than both interfaces say.
// The kernel drops the long frames of a side and answers ENOBUFS.
func TestRefusedVeth(t *testing.T) {
	for _, driver := range []string{"ring", "packet"} {
		t.Run(driver, func(t *testing.T) {
			p := vethtest.NewBridged(t, 9000, 1500)
			var nics [2]*vipl.NIC
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Driver: driver, Long: ring.Off}) // which pass all the same
			}
			l, err := nics[0].Listen(0)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			v, err := nics[0].CreateVI(nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				r, err := l.Wait(bg)
				if err == nil {
					err = r.Accept(bg, v)
				}
				served <- err
			}()
			c, err := nics[1].CreateVI(nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			within(t, "the attempt", func() error { return namesMTU(c.Connect(bg, l.Addr(), nil)) })
			<-served
			if full := nics[1].Snapshot().Link.TxFull; full == 0 || full > 2000 {
				t.Errorf("the link was full %d times", full)
			}

			for side := range nics {
				if err := p.SetBetween(side, 9000); err != nil {
					t.Fatal(err)
				}
			}
			s := startStream(t, nics, nil)
			a, b := join(t, nics, nil)
			if err := p.SetBetween(0, 1500); err != nil {
				t.Fatal(err)
			}
			within(t, "the end of the stream", func() error { <-s.sent; <-s.received; return nil })
			if err := namesMTU(s.a.Err()); err != nil {
				t.Error(err)
			}
			within(t, "short messages", func() error { return oneByOne(a, b, 50, 1000) })
		})
	}
}

// TestNarrowedLong: long frames pass a bridge whose MTU has become less than that of both interfaces, so a stream of
// them goes on.
func TestNarrowedLong(t *testing.T) {
	p := vethtest.NewBridged(t, 9000, 9000)
	var nics [2]*vipl.NIC
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name})
	}
	s := startStream(t, nics, nil)
	if !s.a.Wide() {
		t.Fatal("no long frames to begin with")
	}
	if err := p.SetBetween(0, 1500); err != nil {
		t.Fatal(err)
	}
	s.flows(t)
	s.flows(t)
	if !s.a.Wide() {
		t.Error("it sends no long frames any more")
	}
}

// oneByOne has messages go from a to b, never two at a time, so that none share a frame.
func oneByOne(a, b *vipl.VI, count, size int) error {
	in, err := newBuffers(b.NIC(), 1, size)
	if err != nil {
		return err
	}
	out, err := newBuffers(a.NIC(), 1, size)
	if err != nil {
		return err
	}
	for range count {
		if err := errors.Join(b.PostRecv(&in.descs[0]), a.PostSend(&out.descs[0])); err != nil {
			return err
		}
		if _, err := b.RecvWait(bg); err != nil {
			return err
		}
		if _, err := a.SendWait(bg); err != nil {
			return err
		}
	}
	return nil
}

// asked is a listener, and a wire over which any number of clients ask.
type asked struct {
	t       *testing.T
	n       *vipl.NIC
	l       *vipl.Listener
	wire    *memLink // the clients' end
	request []byte   // as a client sends it
}

func newAsked(t *testing.T) *asked { return newAskedWith(t, vipl.Config{}) }

func newAskedWith(t *testing.T, cfg vipl.Config) *asked {
	here, wire := memPair(1500)
	x := &asked{t: t, wire: wire}
	var err error
	cfg.Link, cfg.Seed = here, 1
	if x.n, err = vipl.Open(t.Context(), &cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.n.Close() })
	if x.l, err = x.n.Listen(service); err != nil {
		t.Fatal(err)
	}
	client, err := vipl.Open(t.Context(), &vipl.Config{Link: wire, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	v, err := client.CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	wire.onSend = func(frame []byte) { x.request = bytes.Clone(frame) }
	if err := v.ConnectStart(x.l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	wire.onSend = nil
	here.tail-- // lost
	return x
}

// ask sends the request of client i, which change may alter, first without a token and then with the
// one that is answered. It returns the request that the listener takes, nil if there is none.
func (x *asked) ask(i int, change func(h *ethertype.Header)) *vipl.Request {
	x.t.Helper()
	var h ethertype.Header
	if _, err := h.Parse(x.request); err != nil || h.Kind != ethertype.KindRequest {
		x.t.Fatal("no request:", h.Kind, err)
	}
	h.SrcPort, h.Sack = uint16(1+i), 0
	if change != nil {
		change(&h)
	}
	if r := x.poll(&h); r != nil {
		x.t.Fatal("a request without a token is taken")
	}
	views := make([][]byte, transport.MaxBatch)
	k, _ := x.wire.Recv(views)
	for _, v := range views[:k] {
		var retry ethertype.Header
		if _, err := retry.Parse(v); err == nil && retry.Kind == ethertype.KindRetry {
			h.Sack = retry.Sack
		}
	}
	if h.Sack == 0 { // it is not answered
		return nil
	}
	return x.poll(&h)
}

// poll sends the request with the header h, and returns the one that the listener takes.
func (x *asked) poll(h *ethertype.Header) *vipl.Request {
	x.t.Helper()
	h.Put(x.request)
	mutant.Reseal(x.request)
	if n, _ := x.wire.Send([]transport.Frame{{Head: x.request}}); n != 1 {
		x.t.Fatal("the wire is full")
	}
	r, err := x.l.Poll()
	if err != nil && err != vipl.ErrNotDone {
		x.t.Fatal(err)
	}
	return r
}

// refusals returns how many rejections have come to the clients.
func (x *asked) refusals() (n int) {
	views := make([][]byte, transport.MaxBatch)
	for {
		k, _ := x.wire.Recv(views)
		if k == 0 {
			return n
		}
		for _, v := range views[:k] {
			var h ethertype.Header
			if _, err := h.Parse(v); err == nil && h.Kind == ethertype.KindReject {
				n++
			}
		}
	}
}

// TestListenerRemembers: a listener remembers so many requests that have been answered,
// the latest, as long as somebody may repeat them, and takes further ones all the same.
// One that is still to be answered it does not forget: the same request would be taken
// for a new one.
func TestListenerRemembers(t *testing.T) {
	need.Simulated(t)
	const most = vipl.MaxVIs
	x := newAsked(t)
	if x.ask(0, nil) == nil {
		t.Fatal("the first request is not taken")
	}
	refuse := func(i int) {
		t.Helper()
		r := x.ask(i, nil)
		if r == nil {
			t.Fatalf("request %d is not taken", i)
		}
		if err := r.Reject(""); err != nil || x.refusals() != 1 {
			t.Fatalf("request %d is not refused: %v", i, err)
		}
	}
	for i := 1; i < most; i++ {
		refuse(i)
	}
	*x.wire.clock += int64(time.Second) // in which so many are not refused
	refuse(most)
	if x.ask(most-1, nil) != nil || x.refusals() != 1 {
		t.Error("a request that has just been refused is taken for a new one")
	}
	if refuse(1); x.n.Snapshot().Dropped[drops.Backlog] != 0 {
		t.Error("the oldest request has not made room, and others are dropped")
	}
	*x.wire.clock += int64(11 * time.Second)
	refuse(most + 1)
	refuse(most - 1) // forgotten
	if x.ask(0, nil) != nil {
		t.Error("a request that was not answered yet is forgotten, and taken for another one")
	}
}

// TestRequestRepeated: who has not heard its refusal and asks again is refused
// again; who is still to be answered need not be.
func TestRequestRepeated(t *testing.T) {
	x := newAsked(t)
	r := x.ask(1, nil)
	if x.ask(1, nil) != nil || x.refusals() != 0 {
		t.Error("a repeated request is taken for a new one, or refused")
	}
	if err := r.Reject("busy"); err != nil || x.refusals() != 1 {
		t.Fatalf("not refused: %v", err)
	}
	if x.ask(1, nil) != nil || x.refusals() != 1 {
		t.Error("a repeated request does not hear its refusal again")
	}
}

// TestRequestToGroup: a request is for one NIC, and from one.
func TestRequestToGroup(t *testing.T) {
	x := newAsked(t)
	for _, c := range []struct {
		name   string
		change func(h *ethertype.Header)
		why    drops.Reason
	}{
		{"to", func(h *ethertype.Header) { h.Dst = ethertype.Broadcast }, drops.Destination},
		{"from", func(h *ethertype.Header) { h.Dst, h.Src = x.l.Addr().MAC, ethertype.Broadcast }, drops.Format},
	} {
		before := x.n.Snapshot().Dropped[c.why]
		if x.ask(1, c.change) != nil || x.refusals() != 0 || x.n.Snapshot().Dropped[c.why] != before+1 {
			t.Errorf("a request %s a group is answered", c.name)
		}
	}
}

// TestRequestFromItself: a NIC without a way to its own host takes no request from
// there, which somebody else must have sent, and answers none.
func TestRequestFromItself(t *testing.T) {
	x := newAskedWith(t, vipl.Config{WireOnly: true})
	if x.ask(1, nil) == nil {
		t.Error("a request from another station is not taken")
	}
	own := func(h *ethertype.Header) { h.Src = x.l.Addr().MAC }
	if x.ask(1, own) != nil || x.n.Snapshot().Dropped[drops.Peer] != 1 {
		t.Errorf("a request from the NIC's own address is taken: %v", x.n.Snapshot().Dropped)
	}
}

// TestRejectLost: the client of which the server wants to know nothing learns so,
// although the first word of it is lost.
func TestRejectLost(t *testing.T) {
	w, lost := newWorld(sim.Options{Seed: 1}), 0
	w.Script(func(_ int64, _, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		_, err := h.Parse(frame)
		drop := err == nil && h.Kind == ethertype.KindReject && lost == 0
		if drop {
			lost++
		}
		return sim.Action{Drop: drop}
	})
	listening := false
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		listening = true
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		err = r.Reject("not today")
		driveFor(n, time.Second)
		return err
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		for !listening {
			driveFor(n, time.Millisecond)
		}
		err = v.Connect(bg, ethertype.Addr{MAC: server.MAC(), Port: service}, nil)
		if !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "not today") {
			t.Errorf("Connect = %v, want the server's words", err)
		}
		return nil
	})
	if err := w.run(); err != nil || lost != 1 {
		t.Errorf("%v; %d rejections lost", err, lost)
	}
}
