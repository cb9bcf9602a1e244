package vipl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestProof: a listener gets only requests that come with the token of the Retry that
// answers them. Clients connect to it whatever is lost.
func TestProof(t *testing.T) {
	const forged = 100
	seeds(t, 20, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: float64(seed%2) * 0.2})
		var backlog func() int
		over, accepted := false, 0
		station := w.node("server", nil, func(n *vipl.NIC) error {
			backlog = func() int { return n.Snapshot().Listeners[0].Backlog }
			return takeProven(n, &over, &accepted)
		})
		to := ethertype.Addr{MAC: station.MAC(), Port: service}
		p := newPackets(w, "stranger")
		stormed := false
		w.Go("stranger", func() {
			p.pause(10 * time.Millisecond) // until the server listens
			from := ethertype.Addr{MAC: p.MAC(), Port: 7}
			for p.token == 0 {
				for i := range forged {
					p.throw(asks(to, stranded(i), uint32(i+1), 0))
				}
				p.throw(asks(to, from, 1, 0))
				p.pause(10 * time.Millisecond)
			}
			if accepted+backlog() > 0 {
				w.errs = append(w.errs, fmt.Errorf("%d requests without a token were taken", accepted+backlog()))
			}
			for accepted == 0 { // it may be lost
				p.throw(asks(to, from, 1, p.token))
				p.pause(10 * time.Millisecond)
			}
			for stormed = true; !over; p.pause(10 * time.Millisecond) {
			}
		})
		w.node("client", nil, func(n *vipl.NIC) error {
			defer func() { over = true }()
			for !stormed {
				driveFor(n, time.Millisecond)
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			return v.Connect(bg, to, nil)
		})
		err := w.run()
		if err == nil && accepted != 2 {
			err = fmt.Errorf("%d requests were accepted, want the stranger's and the client's", accepted)
		}
		return err
	})
}

// takeProven accepts whoever has proven its address, while over is not set.
func takeProven(n *vipl.NIC, over *bool, accepted *int) error {
	l, err := n.Listen(service)
	if err != nil {
		return err
	}
	for !*over {
		driveFor(n, time.Millisecond)
		r, err := l.Poll()
		if err != nil {
			continue
		}
		v, err := n.CreateVI(nil, nil, nil)
		if err == nil {
			err = r.AcceptStart(v)
		}
		if err != nil {
			return err
		}
		*accepted++
	}
	return nil
}
