package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestRequesterGone: requests of clients that have given up cost a server no
// time-out each. Accept says that they have gone, also when frames are lost.
func TestRequesterGone(t *testing.T) {
	for _, c := range []struct {
		loss  float64
		limit time.Duration // for each of them
	}{{0, time.Millisecond}, {0.3, vipl.DefaultConnectTimeout - time.Millisecond}} {
		t.Run(fmt.Sprint("loss=", c.loss), func(t *testing.T) {
			seeds(t, 20, func(seed uint64) error { return goneRequesters(sim.Options{Seed: seed, Loss: c.loss}, c.limit) })
		})
	}
}

func goneRequesters(opts sim.Options, limit time.Duration) error {
	const tries = 4
	w := newWorld(opts)
	from := sim.Start + int64(time.Second) // when the server begins to look
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		driveFor(n, time.Duration(from-n.Now()))
		for {
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			live := string(r.Data()) == "live"
			began := n.Now()
			err = r.Accept(bg, v)
			took := time.Duration(n.Now() - began)
			switch {
			case live:
				driveFor(n, time.Second)
				return err
			case !errors.Is(err, vipl.ErrDisconnected) || took > limit:
				return fmt.Errorf("accept of one that has given up: %w after %v", err, took)
			}
		}
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		driveFor(n, time.Millisecond)
		to := ethertype.Addr{MAC: server.MAC(), Port: service}
		for range tries {
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
			err = v.Connect(ctx, to, nil)
			cancel()
			if !errors.Is(err, vipl.ErrTimeout) {
				return fmt.Errorf("connect to a server that is busy: %v", err)
			}
			v.Close()
		}
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		ctx, cancel := n.WithTimeout(bg, 30*time.Second)
		defer cancel()
		if err = v.Connect(ctx, to, []byte("live")); err == nil {
			driveFor(n, time.Second)
		}
		return err
	})
	return w.run()
}

// TestPeerTriesAgain: of two that connect as peers, one gives up while the
// other answers it, and tries again. The other has gone on waiting for that.
func TestPeerTriesAgain(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	stations := [2]*sim.Station{w.Station("left"), w.Station("right")}
	const answered = sim.Start + int64(200*time.Millisecond) // until then answers are lost
	resets := 0
	w.Script(func(now int64, _, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		_, err := h.Parse(frame)
		if err == nil && h.Kind == ethertype.KindReset {
			resets++
		}
		return sim.Action{Drop: err == nil && h.Kind == ethertype.KindAccept && now < answered}
	})
	for i, s := range stations {
		other := ethertype.Addr{MAC: stations[1-i].MAC(), Port: stations[1-i].Info().Ports.Lo}
		w.nodeOn(s, s.String(), nil, func(n *vipl.NIC) error {
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if i == 0 { // the lower address: it asks, and the other answers
				ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
				err := v.ConnectPeer(ctx, other, []byte("x"))
				cancel()
				if !errors.Is(err, vipl.ErrTimeout) {
					return fmt.Errorf("first attempt: %v", err)
				}
				driveFor(n, time.Second)
			}
			if err := v.ConnectPeer(bg, other, []byte("x")); err != nil {
				return err
			}
			driveFor(n, time.Second)
			return nil
		})
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if resets == 0 {
		t.Error("nothing told the other that the first attempt is over: the test tests nothing")
	}
}
