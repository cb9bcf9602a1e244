package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// connected is when every handshake on a segment that loses little is over.
const connected = sim.Start + 100_000_000

// TestBlackhole lets all frames vanish for 5 s in the middle of a transfer. The
// default PeerTimeout bears it, and nothing is lost.
func TestBlackhole(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		const hole, count, size = int64(5 * time.Second), 60, 20_000
		w := newWorld(sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.01})
		begin := connected + int64(1+seed%80)*100_000
		w.Script(func(now int64, from, to *sim.Station, frame []byte) sim.Action {
			return sim.Action{Drop: now >= begin && now < begin+hole}
		})
		var through int64
		in := &inbox{count: count, size: size, seed: seed}
		attr := &vipl.Attributes{Reliability: reliableLevels[seed%2]}
		err := w.pair(attr, func(v *vipl.VI) error {
			driveFor(v.NIC(), time.Duration(connected-w.Now()))
			return sendAll(v, count, size, seed)
		}, in.post, func(v *vipl.VI) error {
			err := in.receive(v)
			through = w.Now()
			driveFor(v.NIC(), vipl.DefaultPeerTimeout) // the last acknowledgement may be lost
			return err
		})
		if err != nil {
			return err
		}
		if through < begin+hole {
			return fmt.Errorf("the transfer was over at %v, before the blackhole was: it tests nothing", time.Duration(through))
		}
		return nil
	})
}

// TestPeerTimeout lets a peer fall silent for good: in the middle of a
// transfer, and on an idle connection, where keepalives must find out.
func TestPeerTimeout(t *testing.T) {
	for _, idle := range []bool{false, true} {
		for _, limit := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 0, time.Minute} {
			t.Run(fmt.Sprintf("idle=%v/%v", idle, limit), func(t *testing.T) {
				if err := silence(idle, limit); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func silence(idle bool, limit time.Duration) error {
	w := newWorld(sim.Options{Seed: 5})
	var since int64
	w.Script(func(now int64, from, to *sim.Station, frame []byte) sim.Action {
		return sim.Action{Drop: since != 0 && now >= since}
	})
	attr := &vipl.Attributes{PeerTimeout: limit}
	if limit == 0 {
		limit = vipl.DefaultPeerTimeout
	}
	end := func(v *vipl.VI) error {
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		if since == 0 {
			since = w.Now() + int64(time.Second)
		}
		driveFor(v.NIC(), 2*time.Second)
		if limit > time.Second && v.State() != vipl.StateConnected {
			return fmt.Errorf("gave up too early: %v", v.Err())
		}
		if !idle {
			out, _ := newBuffers(v.NIC(), 1, 1)
			if err := v.PostSend(&out.descs[0]); err != nil {
				return err
			}
		}
		d, err := v.RecvWait(bg)
		took := time.Duration(w.Now() - since)
		switch {
		case err != vipl.ErrDescriptor || d.Status != vipl.StatusDone|vipl.StatusOpReceive|vipl.StatusFlushed:
			return fmt.Errorf("receive: %v", err)
		case !errors.Is(v.Err(), vipl.ErrUnreachable) || v.State() != vipl.StateError:
			return fmt.Errorf("VI: %v, %v", v.State(), v.Err())
		case took < limit-time.Second && limit > 2*time.Second || took > limit+limit/4+2*time.Second:
			return fmt.Errorf("gave up %v after the peer fell silent, want about %v", took, limit)
		}
		return nil
	}
	return w.pair(attr, end, nil, end)
}

// TestIdleUnderLoss wants keepalives not to take a lossy peer for a dead one.
func TestIdleUnderLoss(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3})
		end := func(v *vipl.VI) error {
			if state := endState(v); state != vipl.StateConnected {
				return fmt.Errorf("%v: %w", state, v.Err())
			}
			return nil
		}
		return w.pair(nil, end, nil, end)
	})
}

// TestLinkClosedUnderTheNIC wants every wait to end when the link goes away.
func TestLinkClosedUnderTheNIC(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	station := w.Station("server")
	w.nodeOn(station, "server", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		w.At(w.Now()+1000, func() { station.Close() })
		if _, err := v.RecvWait(bg); !errors.Is(err, vipl.ErrLink) {
			return fmt.Errorf("idle VI: %v, want ErrLink", err)
		}
		if err := v.Connect(bg, ethertype.Addr{MAC: ethertype.MAC{2, 7}, Port: 3}, nil); !errors.Is(err, vipl.ErrLink) {
			return fmt.Errorf("connect: %v, want ErrLink", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	w = newWorld(sim.Options{Seed: 1})
	err := w.pair(nil, func(v *vipl.VI) error { driveFor(v.NIC(), time.Second); return nil }, nil, func(v *vipl.VI) error {
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		w.At(w.Now()+1000, func() { seam.Link(v.NIC()).Close() })
		if _, err := v.RecvWait(bg); err != vipl.ErrDescriptor || !errors.Is(v.Err(), vipl.ErrLink) {
			return fmt.Errorf("connected VI: %v, %w", err, v.Err())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestProbesApart: the frames of a keepalive probe, which say the same, share no Ethernet frame: one
// is heard if another is lost.
func TestProbesApart(t *testing.T) {
	attr := &vipl.Attributes{PeerTimeout: 16 * time.Second}
	d := newDuo(t, attr, attr)
	d.run()
	before, sent := d.na.Snapshot().TxJoined, d.a.Snapshot().BareAcks
	for range 150 {
		*d.links[0].clock += int64(time.Second / 10) // with longer gaps this process had no processor
		d.na.Poll()                                  // and the other one is silent
	}
	if n := d.a.Snapshot().BareAcks - sent; n < 20 {
		t.Errorf("%d frames ask whether the peer lives", n)
	}
	if n := d.na.Snapshot().TxJoined - before; n > 0 {
		t.Errorf("%d of them share an Ethernet frame with another", n)
	}
}
