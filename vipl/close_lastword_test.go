package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// closeTime is the maximum time that a NIC takes to close, plus a margin.
const closeTime = 300 * time.Millisecond

// TestLastWord: one side closes its NIC as soon as it has the last message. The other side's send
// completes, and the side learns of the end soon, before its PeerTimeout, however many frames are
// lost.
func TestLastWord(t *testing.T) {
	for _, loss := range []float64{0.02, 0.3} {
		for name, leave := range map[string]func(v *vipl.VI){
			"NIC": func(*vipl.VI) {},
			"VI":  func(v *vipl.VI) { v.Close() },
		} {
			t.Run(fmt.Sprint(name, "/loss=", loss), func(t *testing.T) {
				seeds(t, 250, func(seed uint64) error { return lastWord(sim.Options{Seed: seed, Loss: loss, Reorder: 0.01}, leave) })
			})
		}
	}
}

func lastWord(opts sim.Options, leave func(v *vipl.VI)) error {
	w := newWorld(opts)
	attr := &vipl.Attributes{Reliability: reliableLevels[opts.Seed%2]}
	in := &inbox{count: 1, size: 100, seed: opts.Seed}
	var began, ended int64 // times of the client's Close
	pong := func(v *vipl.VI) error {
		out, err := newBuffers(v.NIC(), 1, 100)
		if err != nil {
			return err
		}
		content(opts.Seed, 0, out.data(0))
		if err := v.PostSend(&out.descs[0]); err != nil {
			return err
		}
		if _, err := v.SendWait(bg); err != nil {
			return fmt.Errorf("last send: %w, %w", err, v.Err())
		}
		for v.State() == vipl.StateConnected {
			driveFor(v.NIC(), time.Millisecond)
		}
		if !errors.Is(v.Err(), vipl.ErrDisconnected) {
			return fmt.Errorf("the end: %w", v.Err())
		}
		if took := time.Duration(w.Now() - began); took > closeTime {
			return fmt.Errorf("heard of the end after %v", took)
		}
		return nil
	}
	err := w.pair(attr, pong, in.post, func(v *vipl.VI) error {
		if err := in.receive(v); err != nil {
			return err
		}
		began = w.Now()
		leave(v)
		err := v.NIC().Close()
		ended = w.Now()
		return err
	})
	if took := time.Duration(ended - began); err == nil && took > closeTime {
		return fmt.Errorf("close took %v", took)
	}
	return err
}

// TestLastWords: a NIC with a thousand connections closes, and frames are lost. All peers learn of
// the end soon.
func TestLastWords(t *testing.T) {
	const count = 1000
	for _, first := range []bool{false, true} { // whether the VIs are closed first
		t.Run(fmt.Sprint("VIs=", first), func(t *testing.T) {
			seeds(t, 1, func(seed uint64) error { return lastWords(seed, count, first) })
		})
	}
}

func lastWords(seed uint64, count int, first bool) error {
	w := newWorld(sim.Options{Seed: seed, Loss: 0.1})
	var began int64
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		vis := make([]*vipl.VI, count)
		for i := range vis {
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			if vis[i], err = n.CreateVI(nil, nil, nil); err == nil {
				err = r.Accept(bg, vis[i])
			}
			if err != nil {
				return err
			}
		}
		for began == 0 || w.Now() < began+int64(closeTime) {
			driveFor(n, time.Millisecond)
		}
		unaware := 0
		for _, v := range vis {
			if v.State() == vipl.StateConnected {
				unaware++
			}
		}
		if unaware > 0 {
			return fmt.Errorf("%d of %d have not heard", unaware, count)
		}
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		vis := make([]*vipl.VI, count)
		for i := range vis {
			var err error
			if vis[i], err = n.CreateVI(nil, nil, nil); err == nil {
				err = dial(vis[i], ethertype.Addr{MAC: server.MAC(), Port: service})
			}
			if err != nil {
				return err
			}
		}
		began = w.Now()
		for _, v := range vis {
			if first {
				v.Close()
			}
		}
		return n.Close()
	})
	return w.run()
}

// TestIdleCloses: a NIC that never had a connection closes immediately.
func TestIdleCloses(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("idle"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	began := w.Now()
	if err := n.Close(); err != nil || w.Now() != began {
		t.Errorf("%v, and it took %v", err, time.Duration(w.Now()-began))
	}
}

// TestCloseTakesNoTime: a NIC that owes its peers nothing closes immediately. A NIC whose peer does
// not answer takes a limited time, and sleeps meanwhile.
func TestCloseTakesNoTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		life  func(w *world, v *vipl.VI) error // steps of the client before it closes its NIC
		limit time.Duration
	}{
		{"PeerLeft", func(w *world, v *vipl.VI) error {
			driveFor(v.NIC(), time.Second)
			if v.State() != vipl.StateError {
				return fmt.Errorf("%v, want that it has heard", v.State())
			}
			return v.Close()
		}, 0},
		{"PeerHeard", func(w *world, v *vipl.VI) error {
			err := v.Disconnect()
			driveFor(v.NIC(), time.Second)
			return err
		}, 0},
		{"LongAgo", func(w *world, v *vipl.VI) error {
			w.Script(func(int64, *sim.Station, *sim.Station, []byte) sim.Action { return sim.Action{Drop: true} })
			err := v.Disconnect()
			driveFor(v.NIC(), vipl.DefaultPeerTimeout+time.Second)
			return err
		}, 0},
		{"PeerAnswers", func(*world, *vipl.VI) error { return nil }, time.Millisecond},
		{"PeerGone", func(w *world, v *vipl.VI) error {
			w.Script(func(int64, *sim.Station, *sim.Station, []byte) sim.Action { return sim.Action{Drop: true} })
			return nil
		}, closeTime},
		{"LinkClosed", func(_ *world, v *vipl.VI) error { return seam.Link(v.NIC()).Close() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 2}) // whose links are the stations themselves
			leaves := c.name == "PeerLeft"
			err := w.pair(nil, func(v *vipl.VI) error {
				if leaves {
					driveFor(v.NIC(), time.Millisecond) // until the other side is connected too
				} else {
					driveFor(v.NIC(), time.Minute)
				}
				return nil
			}, nil, func(v *vipl.VI) error {
				if err := c.life(w, v); err != nil {
					return err
				}
				waits := seam.Link(v.NIC()).Stats().Waits
				began := w.Now()
				v.NIC().Close()
				if took := time.Duration(w.Now() - began); took > c.limit {
					return fmt.Errorf("close took %v, want at most %v", took, c.limit)
				}
				if waited := seam.Link(v.NIC()).Stats().Waits - waits; waited > 40 {
					return fmt.Errorf("close waited %d times", waited)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// bareLink is a link whose frames have no protection of their own.
type bareLink struct{ transport.Link }

func (l bareLink) Info() transport.Info {
	info := l.Link.Info()
	info.Unprotected = true
	return info
}

// TestUnprotectedEnd: if the link of one side has no protection, messages pass in both directions,
// and the frames of both sides have a CRC over the whole frame. The side with the protected link
// learns of this in the handshake.
func TestUnprotectedEnd(t *testing.T) {
	for side := range 2 {
		for _, level := range levels {
			t.Run(fmt.Sprint(level, "/", side), func(t *testing.T) {
				d := &duo{t: t}
				d.bare[side] = true
				attr := &vipl.Attributes{Reliability: level}
				d.set(attr, attr)
				vis := [2]*vipl.VI{d.a, d.b}
				for i, to := range vis {
					in := d.post(to, 100)
					d.links[1-i].onSend = func(frame []byte) {
						var h ethertype.Header
						if _, err := h.Parse(frame); err != nil || h.Flags&ethertype.FlagWholeCRC == 0 {
							t.Errorf("side %d sent %s (%v)", 1-i, framing.Dump(frame), err)
						}
					}
					d.send(vis[1-i], 100)
					d.run()
					got, err := to.RecvDone()
					d.took(got, err, in, vipl.StatusOpReceive)
				}
				if there, here := vis[1-side].RemoteAttributes().WholeCRC, vis[side].RemoteAttributes().WholeCRC; !there || here {
					t.Errorf("the protected side knows of its peer: %t; the other: %t", there, here)
				}
			})
		}
	}
}
