package vipl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// asks starts to connect a new VI to the listener of d.na for a discriminator, and returns the VI.
func (d *duo) asks(from *vipl.NIC, discriminator, data string) *vipl.VI {
	d.t.Helper()
	v := d.idle(from)
	if err := v.ConnectForStart(d.na.Addr(), []byte(discriminator), []byte(data)); err != nil {
		d.t.Fatal(err)
	}
	d.run()
	return v
}

// TestDiscriminators: two listeners of a NIC have discriminators instead of ports. Each gets its
// own requests with their private data, both from another NIC and from its own NIC.
func TestDiscriminators(t *testing.T) {
	d := newDuo(t, nil, nil)
	one, err := d.na.ListenFor([]byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	longest := strings.Repeat("\xff\x00", vipl.MaxDiscriminator/2)
	two, err := d.na.ListenFor([]byte(longest))
	if err != nil {
		t.Fatal(err)
	}
	for i, from := range []*vipl.NIC{d.nb, d.nb, d.na} {
		for _, c := range []struct {
			l    *vipl.Listener
			name string
			data string
		}{{one, "one", strings.Repeat("x", vipl.MaxConnData-4)}, {two, longest, "abcde"}, {one, "one", ""}} {
			v := d.asks(from, c.name, c.data)
			r, err := c.l.Poll()
			if err != nil || string(r.Data()) != c.data || r.Listener() != c.l || string(c.l.Discriminator()) != c.name {
				t.Fatalf("NIC %d, %.5q: %v", i, c.name, err)
			}
			at := d.idle(d.na)
			if err := r.AcceptStart(at); err != nil {
				t.Fatal(err)
			}
			d.run()
			if v.ConnectDone() != nil || v.Remote() != at.Local() || at.Remote() != v.Local() {
				t.Errorf("NIC %d, %.5q: %v, connected with %v and %v", i, c.name, v.ConnectDone(), v.Remote(), at.Remote())
			}
			for _, l := range []*vipl.Listener{one, two} {
				if r, err := l.Poll(); err != vipl.ErrNotDone {
					t.Errorf("%v, %v: a request too many", r, err)
				}
			}
		}
	}
}

// TestDiscriminatorRefused: an attempt to connect fails if there is no listener for the
// discriminator, if the listener has been closed, or if the server rejects the request. In the last
// case the client gets the reason.
func TestDiscriminatorRefused(t *testing.T) {
	d := newDuo(t, nil, nil)
	l, err := d.na.ListenFor([]byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"on", "onee", "two"} {
		if err := d.asks(d.nb, name, "").ConnectDone(); !errors.Is(err, vipl.ErrNoMatch) {
			t.Errorf("%q: %v", name, err)
		}
	}
	v := d.asks(d.nb, "one", "")
	r, err := l.Poll()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reject("not today"); err != nil {
		t.Fatal(err)
	}
	d.run()
	if err := v.ConnectDone(); !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "not today") {
		t.Errorf("refused: %v", err)
	}
	if _, err := d.na.ListenFor([]byte("one")); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("a second listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.asks(d.nb, "one", "").ConnectDone(); !errors.Is(err, vipl.ErrNoMatch) {
		t.Errorf("closed: %v", err)
	}
	if _, err := d.na.ListenFor([]byte("one")); err != nil {
		t.Errorf("the next listener: %v", err)
	}
}

// TestDiscriminatorLimits: discriminators and private data that are too long, and empty
// discriminators, are refused.
func TestDiscriminatorLimits(t *testing.T) {
	d := newDuo(t, nil, nil)
	v := d.idle(d.nb)
	tooLong := make([]byte, vipl.MaxDiscriminator+1)
	for name, err := range map[string]error{
		"an empty one": v.ConnectFor(bg, d.na.Addr(), nil, nil),
		"a long one":   v.ConnectFor(bg, d.na.Addr(), tooLong, nil),
		"much data":    v.ConnectFor(bg, d.na.Addr(), tooLong[:3], make([]byte, vipl.MaxConnData-3)),
		"to all":       v.ConnectFor(bg, ethertype.Addr{MAC: ethertype.Broadcast, Port: 1}, tooLong[:3], nil),
	} {
		if !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range [][]byte{nil, tooLong} {
		if _, err := d.na.ListenFor(name); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("listening for %d bytes: %v", len(name), err)
		}
	}
	if d.na.Query().MaxDiscriminatorLen != vipl.MaxDiscriminator {
		t.Error(d.na.Query().MaxDiscriminatorLen)
	}
}

// unlikes returns the attributes of two VIs that can be connected although all other attributes
// differ, and the attributes of which each informs the other.
func unlikes() (full, told [2]vipl.Attributes) {
	full[0] = vipl.Attributes{
		Reliability: 2, MaxTransferSize: 5000, QoS: 9, EnableRDMAWrite: true, ReadDepth: 3,
		QueueDepth: 5, PeerTimeout: time.Second,
	}
	full[1] = vipl.Attributes{
		Reliability: 2, MaxTransferSize: 5000, QoS: 9, EnableRDMARead: true, ReadDepth: 256, WholeCRC: true,
		QueueDepth: 6, PeerTimeout: 2 * time.Second,
	}
	told = full
	for i := range told {
		told[i].QueueDepth, told[i].PeerTimeout = 0, 0
	}
	return full, told
}

// remoteIs checks that RemoteAttributes of v returns what.
func remoteIs(v *vipl.VI, when string, what vipl.Attributes) error {
	if a := v.RemoteAttributes(); a != what {
		return fmt.Errorf("%s: the peer has %+v, want %+v", when, a, what)
	}
	return nil
}

// TestRemoteAttributes: the listening side before and after it accepts, and the connecting side,
// learn the attributes of the other side's VI.
func TestRemoteAttributes(t *testing.T) {
	full, told := unlikes()
	err := serveOne(sim.Options{Seed: 1, Loss: 0.3}, &full[1],
		func(n *vipl.NIC, r *vipl.Request) error {
			if a := r.Attributes(); a != told[1] {
				return fmt.Errorf("the request tells %+v, want %+v", a, told[1])
			}
			v, err := n.CreateVI(&full[0], nil, nil)
			if err == nil {
				err = r.Accept(bg, v)
			}
			if err != nil {
				return err
			}
			driveFor(n, 5*time.Second)
			return remoteIs(v, "the server", told[1])
		},
		func(v *vipl.VI, server ethertype.Addr) error {
			if err := remoteIs(v, "before", vipl.Attributes{}); err != nil {
				return err
			}
			if err := v.Connect(bg, server, nil); err != nil {
				return err
			}
			if err := remoteIs(v, "the client", told[0]); err != nil {
				return err
			}
			v.Disconnect()
			if err := remoteIs(v, "afterwards", told[0]); err != nil {
				return err
			}
			server.Port++
			if err := v.Connect(bg, server, nil); !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
			return remoteIs(v, "after the next attempt", vipl.Attributes{})
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoteAttributesOfPeers is TestRemoteAttributes for peer-to-peer connections, in which either
// side may answer.
func TestRemoteAttributesOfPeers(t *testing.T) {
	full, told := unlikes()
	for flip := range 2 {
		_, err := peers(sim.Options{Seed: 1, Loss: 0.3}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
			mine := (i + flip) % 2
			v, err := n.CreateVI(&full[mine], nil, nil)
			if err == nil {
				err = v.ConnectPeer(bg, other, nil)
			}
			if err == nil {
				err = remoteIs(v, "a peer", told[1-mine])
			}
			driveFor(n, 2*time.Second)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSetAttributes changes each attribute of an idle and of a connected VI,
// with and without posted descriptors.
func TestSetAttributes(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(d *duo, a *vipl.Attributes)
		connected error // nil: allowed
		posted    error // idle, with a receive posted
	}{
		{"Nothing", func(d *duo, a *vipl.Attributes) {}, nil, nil},
		{"Reliability", func(d *duo, a *vipl.Attributes) { a.Reliability, a.EnableRDMARead = reliability.Unreliable, false }, vipl.ErrInvalidState, nil},
		{"MaxTransferSize", func(d *duo, a *vipl.Attributes) { a.MaxTransferSize = 5000 }, vipl.ErrInvalidState, nil},
		{"QoS", func(d *duo, a *vipl.Attributes) { a.QoS = 3 }, vipl.ErrInvalidState, nil},
		{"ReadDepth", func(d *duo, a *vipl.Attributes) { a.ReadDepth = 3 }, vipl.ErrInvalidState, nil},
		{"WholeCRC", func(d *duo, a *vipl.Attributes) { a.WholeCRC = true }, vipl.ErrInvalidState, nil},
		{"EnableRDMAWrite", func(d *duo, a *vipl.Attributes) { a.EnableRDMAWrite = false }, nil, nil},
		{"EnableRDMARead", func(d *duo, a *vipl.Attributes) { a.EnableRDMARead = false }, nil, nil},
		{"PeerTimeout", func(d *duo, a *vipl.Attributes) { a.PeerTimeout = time.Second }, nil, nil},
		{"Ptag", func(d *duo, a *vipl.Attributes) { a.Ptag, _ = d.na.CreatePtag() }, nil, vipl.ErrInvalidState},
		{"QueueDepth", func(d *duo, a *vipl.Attributes) { a.QueueDepth = 1 }, nil, vipl.ErrResource},
		{"UnknownPtag", func(d *duo, a *vipl.Attributes) { a.Ptag = 77 }, vipl.ErrInvalidPtag, vipl.ErrInvalidPtag},
		{"UnknownLevel", func(d *duo, a *vipl.Attributes) { a.Reliability = 3 }, vipl.ErrInvalidReliability, vipl.ErrInvalidReliability},
		{"TooLarge", func(d *duo, a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize + 1 }, vipl.ErrInvalidMTU, vipl.ErrInvalidMTU},
		{"ReadDepthTooLarge", func(d *duo, a *vipl.Attributes) { a.ReadDepth = vipl.MaxReadDepth + 1 }, vipl.ErrArgument, vipl.ErrArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, state := range []vipl.State{vipl.StateIdle, vipl.StateConnected} {
				d := newDuo(t, nil, nil)
				want := c.connected
				if state == vipl.StateIdle {
					d.a.Disconnect()
					d.run()
					d.post(d.a, 8)
					d.post(d.a, 8)
					want = c.posted
				}
				before := d.a.Query()
				a := before.Attributes
				c.change(d, &a)
				if err := d.a.SetAttributes(&a); !errors.Is(err, want) {
					t.Errorf("%v: %v, want %v", state, err, want)
				}
				if want != nil {
					a = before.Attributes
				}
				if after := d.a.Query(); after.Attributes != a || after.State != state || after.RecvEmpty != before.RecvEmpty {
					t.Errorf("%v: %+v, want %+v", state, after, a)
				}
			}
		})
	}
}

// TestSetAttributesCount: changed attributes take effect: the tag for posts and for the tag's
// users, the rights for the peer, and the depth for the queues.
func TestSetAttributesCount(t *testing.T) {
	d := newDuo(t, nil, nil)
	tag, _ := d.na.CreatePtag()
	if err := d.a.SetAttributes(&vipl.Attributes{Ptag: tag, QueueDepth: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.na.DestroyPtag(tag); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("destroy the tag of a VI: %v", err)
	}
	buf, h := d.buffer(d.na, 64, nil)
	x := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	if err := d.a.PostRecv(x); !errors.Is(err, vipl.ErrInvalidPtag) {
		t.Errorf("post with the old tag: %v", err)
	}
	if err := d.na.SetMemAttributes(h, &vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.a.PostRecv(x); err != nil {
		t.Errorf("post with the new tag: %v", err)
	}
	if err := d.a.PostRecv(&vipl.Descriptor{}); err != vipl.ErrRecvQueueFull {
		t.Errorf("post beyond the new depth: %v", err)
	}
	if err := d.na.SetMemAttributes(h, nil); !errors.Is(err, vipl.ErrInvalidState) {
		t.Errorf("change a region in use: %v", err)
	}
	d.write(d.b, 8, vipl.VirtualAddress(buf), h, false)
	d.run()
	d.ended(vipl.ErrRDMA) // the VI no longer allows RDMA
	d.a.RecvDone()
	if err := d.na.SetMemAttributes(h, nil); err != nil {
		t.Error(err)
	}
	if err := d.a.SetAttributes(nil); !errors.Is(err, nil) || d.na.DestroyPtag(tag) != nil {
		t.Errorf("back to the defaults: %v, or the tag is still in use", err)
	}
}

// TestSetMemAttributes: QueryMem returns the changed attributes. SetMemAttributes refuses the
// values that RegisterMem refuses.
func TestSetMemAttributes(t *testing.T) {
	d := newDuo(t, nil, nil)
	_, h := d.buffer(d.na, 64, nil)
	want := vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
	want.Ptag, _ = d.na.CreatePtag()
	if err := d.na.SetMemAttributes(h, &want); err != nil {
		t.Fatal(err)
	}
	if info, err := d.na.QueryMem(h); err != nil || info.MemAttributes != want || info.Len != 64 {
		t.Errorf("%+v, %v, want %+v", info, err, want)
	}
	if err := d.na.SetMemAttributes(h, &vipl.MemAttributes{Ptag: 99}); !errors.Is(err, vipl.ErrInvalidPtag) {
		t.Errorf("unknown tag: %v", err)
	}
	if err := d.na.SetMemAttributes(h+1, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("unknown handle: %v", err)
	}
	if err := d.na.DestroyPtag(want.Ptag); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("destroy the tag of a region: %v", err)
	}
	d.na.Close()
	if _, err := d.na.QueryMem(h); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("query on a closed NIC: %v", err)
	}
	if err := d.na.SetMemAttributes(h, nil); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("set on a closed NIC: %v", err)
	}
}
