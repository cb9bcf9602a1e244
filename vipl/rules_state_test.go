package vipl_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// inState returns a fresh pair whose VI a is in the given state.
func inState(t *testing.T, s vipl.State) *duo {
	d := newDuo(t, nil, nil)
	switch s {
	case vipl.StateIdle:
		if err := d.a.Disconnect(); err != nil {
			t.Fatal(err)
		}
	case vipl.StateConnectPending:
		d.a.Disconnect()
		if err := d.a.ConnectStart(d.nb.Addr(), nil); err != nil {
			t.Fatal(err)
		}
	case vipl.StateError:
		d.b.Disconnect()
		d.run()
	}
	if d.a.State() != s {
		t.Fatalf("the VI is %v, want %v", d.a.State(), s)
	}
	return d
}

var states = []vipl.State{vipl.StateIdle, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}

// TestPostInEveryState posts one descriptor on each queue in every state.
func TestPostInEveryState(t *testing.T) {
	for _, s := range states {
		t.Run(s.String(), func(t *testing.T) {
			d := inState(t, s)
			r, x := d.post(d.a, 8), d.send(d.a, 0)
			send, sendErr := d.a.SendDone()
			recv, recvErr := d.a.RecvDone()
			switch s {
			case vipl.StateIdle, vipl.StateError:
				d.took(send, sendErr, x, vipl.StatusOpSend|vipl.StatusFlushed)
			case vipl.StateConnectPending:
				if sendErr != vipl.ErrNotDone {
					t.Errorf("send: %v, want it to wait for the connection", sendErr)
				}
			}
			if s == vipl.StateError {
				d.took(recv, recvErr, r, vipl.StatusOpReceive|vipl.StatusFlushed)
			} else if recvErr != vipl.ErrNotDone {
				t.Errorf("receive: %v, want it posted", recvErr)
			}
		})
	}
}

// TestSendWhileConnecting posts sends during the handshake: they go first once
// it is done, and are flushed when it fails.
func TestSendWhileConnecting(t *testing.T) {
	for _, accept := range []bool{true, false} {
		d := inState(t, vipl.StateIdle)
		d.run()
		d.b.Disconnect()
		r := d.post(d.a, 8)
		l, err := d.na.Listen(service)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.b.ConnectStart(l.Addr(), nil); err != nil {
			t.Fatal(err)
		}
		keep := d.post(d.b, 8)
		s := d.send(d.b, 5)
		q, err := taken(l, d.nb)
		if err != nil {
			t.Fatal(err)
		}
		if accept {
			err = q.AcceptStart(d.a)
		} else {
			err = q.Reject("no")
		}
		if err != nil {
			t.Fatal(err)
		}
		d.run()
		x, err := d.b.SendDone()
		if !accept {
			d.took(x, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
			if _, err := d.b.RecvDone(); err != vipl.ErrNotDone {
				t.Errorf("the receive did not stay posted: %v", err)
			}
			if err := d.b.ConnectDone(); !errors.Is(err, vipl.ErrReject) {
				t.Errorf("outcome: %v", err)
			}
			continue
		}
		d.took(x, err, s, vipl.StatusOpSend)
		x, err = d.a.RecvDone()
		d.took(x, err, r, vipl.StatusOpReceive)
		if r.Length != 5 {
			t.Errorf("%d bytes, want 5", r.Length)
		}
		d.send(d.a, 3)
		d.run()
		x, err = d.b.RecvDone()
		d.took(x, err, keep, vipl.StatusOpReceive)
	}
}

// TestStateMachine makes every call in every state and wants VIA's next one.
func TestStateMachine(t *testing.T) {
	connect := func(d *duo) error { return d.a.ConnectStart(d.nb.Addr(), nil) }
	for _, c := range []struct {
		name string
		call func(d *duo) error
		want [4]error      // by state
		next [4]vipl.State // by state
	}{
		{"Disconnect", func(d *duo) error { return d.a.Disconnect() }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
		{"DisconnectTwice", func(d *duo) error { d.a.Disconnect(); return d.a.Disconnect() }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
		{"Connect", connect, [4]error{nil, vipl.ErrInvalidState, vipl.ErrInvalidState, vipl.ErrInvalidState},
			[4]vipl.State{vipl.StateConnectPending, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}},
		{"Accept", acceptOther, [4]error{nil, vipl.ErrInvalidState, vipl.ErrInvalidState, vipl.ErrInvalidState},
			[4]vipl.State{vipl.StateConnectPending, vipl.StateConnected, vipl.StateConnectPending, vipl.StateError}},
		{"PeerLeaves", func(d *duo) error { d.b.Disconnect(); d.run(); return nil }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateError, vipl.StateIdle, vipl.StateError}}, // the request finds nobody
		{"Close", func(d *duo) error { return d.a.Close() }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
		{"CloseTwice", func(d *duo) error { d.a.Close(); return d.a.Close() }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
		{"CloseNIC", func(d *duo) error { d.na.Close(); return d.na.Close() }, [4]error{},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
		{"UseAfterClose", func(d *duo) error { d.a.Close(); return d.a.PostRecv(&vipl.Descriptor{}) },
			[4]error{vipl.ErrClosed, vipl.ErrClosed, vipl.ErrClosed, vipl.ErrClosed},
			[4]vipl.State{vipl.StateIdle, vipl.StateIdle, vipl.StateIdle, vipl.StateIdle}},
	} {
		for _, s := range states {
			t.Run(c.name+"/"+s.String(), func(t *testing.T) {
				d := inState(t, s)
				if err := c.call(d); !errors.Is(err, c.want[s]) {
					t.Errorf("got %v, want %v", err, c.want[s])
				}
				if d.a.State() != c.next[s] {
					t.Errorf("then it is %v, want %v", d.a.State(), c.next[s])
				}
				if (d.a.State() == vipl.StateError) != (d.a.Err() != nil) {
					t.Errorf("Err returns %v", d.a.Err())
				}
			})
		}
	}
}

// acceptOther lets a third VI ask and a accept.
func acceptOther(d *duo) error {
	l, err := d.na.Listen(service)
	if err != nil {
		return err
	}
	v, err := d.nb.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	d.links[1].head, d.links[1].lent = d.links[1].tail, 0 // a request of a's is lost, or it would be refused now
	if err := v.ConnectStart(l.Addr(), nil); err != nil {
		return err
	}
	r, err := taken(l, d.nb)
	if err != nil {
		return err
	}
	return r.AcceptStart(d.a)
}

// TestFlushOrder disconnects with descriptors posted and wants them back,
// flushed, in order, and the VI as good as new.
func TestFlushOrder(t *testing.T) {
	for _, peer := range []bool{false, true} {
		d := newDuo(t, nil, nil)
		var receives, sends []*vipl.Descriptor
		for range 5 {
			receives = append(receives, d.post(d.a, 8))
		}
		for range 20 { // of 100 KB: most cannot have gone
			sends = append(sends, d.send(d.a, 100_000))
		}
		if peer {
			d.b.Disconnect()
			d.na.Poll()
		} else {
			d.a.Disconnect()
		}
		for _, s := range sends {
			x, err := d.a.SendDone()
			d.took(x, err, s, vipl.StatusOpSend|vipl.StatusFlushed)
		}
		for _, r := range receives {
			x, err := d.a.RecvDone()
			d.took(x, err, r, vipl.StatusOpReceive|vipl.StatusFlushed)
		}
		d.run()
		d.a.Disconnect()
		d.b.Disconnect()
		d.connect()
		r := d.post(d.b, 8)
		d.send(d.a, 8)
		d.run()
		x, err := d.b.RecvDone()
		d.took(x, err, r, vipl.StatusOpReceive)
	}
}

// TestPtags takes protection tags and regions through their lives.
func TestPtags(t *testing.T) {
	d := newDuo(t, nil, nil)
	n := d.na
	tag, err := n.CreatePtag()
	if err != nil || tag == 0 {
		t.Fatal(tag, err)
	}
	fail := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err = n.CreateVI(&vipl.Attributes{Ptag: tag + 1}, nil, nil)
	fail("VI with an unknown tag", err, vipl.ErrInvalidPtag)
	_, err = n.RegisterMem(make([]byte, 8), &vipl.MemAttributes{Ptag: tag + 1})
	fail("region with an unknown tag", err, vipl.ErrInvalidPtag)
	fail("destroy an unknown tag", n.DestroyPtag(tag+1), vipl.ErrInvalidPtag)
	v, err := n.CreateVI(&vipl.Attributes{Ptag: tag}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	buf, h := d.buffer(n, 64, &vipl.MemAttributes{Ptag: tag})
	fail("destroy with users", n.DestroyPtag(tag), vipl.ErrResource)
	if err := v.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}); err != nil {
		t.Errorf("same tag: %v", err)
	}
	fail("deregister while posted", n.DeregisterMem(h), vipl.ErrInvalidState)
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	fail("destroy with a user left", n.DestroyPtag(tag), vipl.ErrResource)
	fail("deregister", n.DeregisterMem(h), nil)
	fail("deregister twice", n.DeregisterMem(h), vipl.ErrArgument)
	fail("destroy", n.DestroyPtag(tag), nil)
	fail("destroy twice", n.DestroyPtag(tag), vipl.ErrInvalidPtag)
	fail("the NIC's own tag", n.DestroyPtag(0), vipl.ErrInvalidPtag)
	_, err = n.QueryMem(h)
	fail("query a forgotten region", err, vipl.ErrArgument)
}

// TestAllocMem wants memory that works, is the caller's until deregistered,
// and counts as a region.
func TestAllocMem(t *testing.T) {
	d := newDuo(t, nil, nil)
	buf, h, err := d.na.AllocMem(5000, nil)
	if err != nil || len(buf) != 5000 {
		t.Fatal(len(buf), err)
	}
	buf[4999] = 1
	if info, err := d.na.QueryMem(h); err != nil || info.Len != 5000 || info.Addr != vipl.VirtualAddress(buf) {
		t.Errorf("%+v, %v", info, err)
	}
	if n := d.na.Snapshot().Regions; n != 1 {
		t.Errorf("%d regions, want 1", n)
	}
	if err := d.na.DeregisterMem(h); err != nil {
		t.Error(err)
	}
	if _, _, err := d.na.AllocMem(0, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("no bytes: %v", err)
	}
}
