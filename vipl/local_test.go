package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// oneHost opens NICs in one namespace: on one interface with each driver, and
// without an interface.
func oneHost(t *testing.T, run func(t *testing.T, open func() *vipl.NIC)) {
	for _, driver := range []string{"ring", "packet", "shm"} {
		t.Run(driver, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			run(t, func() *vipl.NIC {
				var n *vipl.NIC
				if err := p.In(0, func() (err error) {
					n, err = vipl.Open(t.Context(), &vipl.Config{Driver: driver, Interface: interfaceOf(driver)})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { n.Close() })
				return n
			})
		})
	}
}

// TestOneHost: NICs of one host connect and exchange messages of all sizes, in
// frames longer than the wire's, and so do VIs of one NIC.
func TestOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b := open(), open()
		for name, nics := range map[string][2]*vipl.NIC{"Two": {a, b}, "Self": {a, a}} {
			for _, level := range levels {
				attr := vipl.DefaultAttributes()
				attr.Reliability, attr.EnableRDMARead = level, level.Reliable()
				va, vb := join(t, nics, attr)
				if v := va.Remote(); v.MAC != a.Addr().MAC {
					t.Fatalf("%s: connected with %v", name, v)
				}
				for i, size := range []int{0, 1, 64, 5000, 60_000, 400_000} {
					if level == levels[0] && size > 300_000 {
						continue // more than a queue holds is lost
					}
					relay(t, va, vb, size, byte(i))
					relay(t, vb, va, size, byte(i+1))
				}
				once := func() uint64 { // frames, without those that a busy machine has it send again
					s := va.Snapshot()
					return s.TxFrames - s.Retransmits
				}
				frames := once()
				relay(t, va, vb, 60_000, 9)
				if got := once() - frames; got > 12 {
					t.Errorf("%s: %d frames for a message of 60,000 bytes", name, got)
				}
				va.Close()
				vb.Close()
			}
		}
	})
}

// relay sends a message and checks what arrives.
func relay(t *testing.T, from, to *vipl.VI, size int, fill byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	src, hs, err := from.NIC().AllocMem(max(size, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.NIC().DeregisterMem(hs)
	dst, hd, err := to.NIC().AllocMem(max(size, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer to.NIC().DeregisterMem(hd)
	for i := range src {
		src[i] = fill + byte(i)*3 + byte(i>>8)
	}
	if err := to.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: dst[:size], Handle: hd}}}); err != nil {
		t.Fatal(err)
	}
	if err := from.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: src[:size], Handle: hs}}}); err != nil {
		t.Fatal(err)
	}
	d, err := to.RecvWait(ctx)
	if err != nil || int(d.Length) != size || !bytes.Equal(dst[:size], src[:size]) {
		t.Fatalf("receive of %d bytes: %v (%v), the same: %t", size, err, to.Err(), bytes.Equal(dst[:size], src[:size]))
	}
	if _, err := from.SendWait(ctx); err != nil {
		t.Fatalf("send of %d bytes: %v (%v)", size, err, from.Err())
	}
}

// TestNamesOnOneHost: the name service reaches the host's other programs.
func TestNamesOnOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b, c := open(), open(), open()
		if err := b.Advertise("here", b.Addr()); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*vipl.NIC{a, c} {
			if got, err := n.Lookup(bg, "here"); err != nil || got != b.Addr() {
				t.Errorf("Lookup = %v, %v; want %v", got, err, b.Addr())
			}
		}
		if rtt, err := a.Echo(bg, c.Addr(), 1000); err != nil {
			t.Errorf("Echo: %v, %v", rtt, err)
		}
	})
}

// TestDepartureOnOneHost: the end of a NIC's link ends the VIs connected to its
// ports at once, and no others.
func TestDepartureOnOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b, c := open(), open(), open()
		toB, _ := join(t, [2]*vipl.NIC{a, b}, nil)
		toC, fromC := join(t, [2]*vipl.NIC{a, c}, nil)
		seam.Link(b).Close() // as the death of its process: nobody says good-bye
		if err := toB.PostRecv(&vipl.Descriptor{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		d, err := toB.RecvWait(ctx)
		var broken *vipl.ConnError
		if d == nil || !errors.As(toB.Err(), &broken) || !errors.Is(broken, vipl.ErrUnreachable) || broken.Detail != shm.ErrGone.Error() {
			t.Errorf("RecvWait: %v; VI: %v; want a ConnError that wraps ErrUnreachable and says that the link has told", err, toB.Err())
		}
		relay(t, toC, fromC, 100, 1)
	})
}

// TestWireOnly: without the way to its own host a NIC says so.
func TestWireOnly(t *testing.T) {
	p := vethtest.New(t, 1500)
	err := p.In(0, func() error {
		n, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, WireOnly: true})
		if err != nil {
			return err
		}
		defer n.Close()
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		if err := v.ConnectStart(ethertype.Addr{MAC: n.Addr().MAC, Port: 5}, nil); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("connect to the own host: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSelfInTheSimulator: VIs of one NIC talk over a simulated link, which
// hands nothing back itself, the same way each time.
func TestSelfInTheSimulator(t *testing.T) {
	run := func() (now int64) {
		w := newWorld(sim.Options{Seed: 1})
		w.node("alone", nil, func(n *vipl.NIC) error {
			l, err := n.Listen(0)
			if err != nil {
				return err
			}
			a, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			b, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := a.ConnectStart(l.Addr(), []byte("hello")); err != nil {
				return err
			}
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			if err := r.Accept(bg, b); err != nil {
				return err
			}
			for a.ConnectDone() != nil {
				n.Poll()
			}
			for i := range 50 {
				relay(t, a, b, i*2000, byte(i))
				relay(t, b, a, i*3, byte(i))
			}
			now = n.Now()
			return nil
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		return now
	}
	if first, second := run(), run(); first != second {
		t.Errorf("the same seed ended at %d ns, then at %d", first, second)
	}
}
