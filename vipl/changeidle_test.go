package vipl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMTULoweredIdle lowers the MTU of one side while nothing is connected, at
// the side that will listen and at the one that will connect. Connections made
// then use what is left, and again all when the MTU is what it was.
func TestMTULoweredIdle(t *testing.T) {
	for side := range 2 {
		t.Run(fmt.Sprint("side", side), func(t *testing.T) {
			p := vethtest.New(t, 9000)
			nics := [2]*vipl.NIC{openOn(t, p, 0, "ring"), openOn(t, p, 1, "ring")}
			for _, mtu := range []int{4000, 9000} {
				if err := p.SetMTU(side, mtu); err != nil {
					t.Fatal(err)
				}
				s := startStream(t, nics, patient)
				if err := errors.Join(s.a.Disconnect(), s.b.Disconnect()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// idleChange is a NIC with nothing connected whose interface has another MAC,
// in the link's time.
func idleChange(t *testing.T) *vipl.NIC {
	t.Helper()
	l, _ := memPair(1500)
	wire := &changedLink{memLink: l}
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: wire, Seed: 1, NoService: true, WireOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	return n
}

// TestMACChangedIdle: with nothing connected, a changed MAC ends what waits for
// the segment, soon, and what is begun afterwards, at once. Each says why.
func TestMACChangedIdle(t *testing.T) {
	peer := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: service}
	idle := func(n *vipl.NIC) *vipl.VI {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name  string
		limit time.Duration
		call  func(n *vipl.NIC) error
	}{
		{"ListenerWait", time.Second, func(n *vipl.NIC) error {
			l, err := n.Listen(service)
			if err == nil {
				_, err = l.Wait(bg)
			}
			return err
		}},
		{"Lookup", time.Second, func(n *vipl.NIC) error {
			_, err := n.Lookup(bg, "somebody")
			return err
		}},
		{"Connect", time.Millisecond, func(n *vipl.NIC) error { return idle(n).Connect(bg, peer, nil) }},
		{"ConnectPeer", time.Millisecond, func(n *vipl.NIC) error { return idle(n).ConnectPeer(bg, peer, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := idleChange(t)
			began := n.Now()
			within(t, "the end", func() error {
				if err := c.call(n); !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrChanged) || !strings.Contains(err.Error(), "MAC of mem was this and is that") {
					return fmt.Errorf("%w: want that the MAC has changed", err)
				}
				return nil
			})
			if took := time.Duration(n.Now() - began); took > c.limit {
				t.Errorf("took %v, want at most %v", took, c.limit)
			}
		})
	}
}

// TestMACChangedRequest: a request that came before the MAC changed cannot be
// accepted, and that is said at once.
func TestMACChangedRequest(t *testing.T) {
	la, lb := memPair(1500)
	wire := &changedLink{memLink: la}
	open := func(link transport.Link) *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1, NoService: true, WireOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	na, nb := open(wire), open(lb)
	l, err := na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := na.CreateVI(nil, nil, nil)
	b, _ := nb.CreateVI(nil, nil, nil)
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, nb)
	if err != nil {
		t.Fatal(err)
	}
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	var refused *vipl.ConnError
	if err := r.AcceptStart(a); !errors.As(err, &refused) || !errors.Is(err, transport.ErrChanged) || refused.Remote != b.Local() {
		t.Errorf("accept: %v, want an error that names the change and the peer", err)
	}
}

// TestMACChangedCatastrophic: a changed MAC is of the same consequence as a closed
// link, and is told as that, before the connections that it ends.
func TestMACChangedCatastrophic(t *testing.T) {
	n := idleChange(t)
	told := watch(t, n)
	v, err := n.CreateVI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Connect(bg, ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: service}, nil); !errors.Is(err, vipl.ErrLink) {
		t.Fatal(err)
	}
	for range 3 {
		n.Poll()
	}
	told.want(vipl.AsyncError{Code: vipl.CodeCatastrophic, Resource: vipl.ResourceNIC, Err: vipl.ErrLink})
}
