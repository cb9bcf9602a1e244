package vipl_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

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
	reseal(x.request)
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
	if refuse(1); x.n.Snapshot().Dropped[vipl.DropBacklog] != 0 {
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
		why    vipl.Drop
	}{
		{"to", func(h *ethertype.Header) { h.Dst = ethertype.Broadcast }, vipl.DropDestination},
		{"from", func(h *ethertype.Header) { h.Dst, h.Src = x.l.Addr().MAC, ethertype.Broadcast }, vipl.DropFormat},
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
	if x.ask(1, own) != nil || x.n.Snapshot().Dropped[vipl.DropPeer] != 1 {
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
