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

// settling is a NIC in virtual time with a VI whose receives a queue collects.
type settling struct {
	w   *sim.World
	nic *vipl.NIC
	cq  *seam.Queue
	vi  *vipl.VI
}

// settle has a station of w do what, as a process.
func settle(t *testing.T, w *sim.World, name string, what func(s *settling) error) {
	station := w.Station(name)
	w.Go(name, func() {
		s := &settling{w: w}
		var err error
		if s.nic, err = vipl.Open(t.Context(), &vipl.Config{Link: station}); err != nil {
			t.Error(err)
			return
		}
		defer s.nic.Close()
		if s.cq, err = seam.NewQueue(s.nic, 4, 1); err == nil {
			s.vi, err = s.nic.CreateVI(nil, nil, s.cq.CQ)
		}
		if err == nil {
			err = what(s)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// settled waits at the queue alone until the attempt to connect is over.
func (s *settling) settled() error {
	ctx, cancel := s.nic.WithTimeout(bg, time.Minute)
	defer cancel()
	for {
		s.cq.Reap()
		if s.vi.State() != vipl.StateConnectPending {
			return s.vi.ConnectDone()
		}
		if err := s.cq.WaitSince(ctx, 0, s.cq.Seen()); err != nil {
			return err
		}
	}
}

// TestWaitSinceConnects: the end of an attempt to connect ends a WaitSince at the queue of the
// VI's receives, on both sides and where it is refused. Nobody has to look again by a clock.
func TestWaitSinceConnects(t *testing.T) {
	w := sim.New(sim.Options{})
	var addr ethertype.Addr // where the server listens, when the client has slept
	settle(t, w, "server", func(s *settling) error {
		l, err := s.nic.Listen(0)
		if err != nil {
			return err
		}
		addr = l.Addr()
		r, err := l.Wait(bg)
		if err == nil {
			err = r.Reject("no")
		}
		if err == nil {
			r, err = l.Wait(bg)
		}
		if err == nil {
			err = r.AcceptStart(s.vi)
		}
		if err == nil {
			err = s.settled()
		}
		return errors.Join(err, w.Sleep(time.Second)) // until the client has looked
	})
	settle(t, w, "client", func(s *settling) error {
		if err := w.Sleep(time.Second); err != nil {
			return err
		}
		if err := s.vi.ConnectStart(addr, nil); err != nil {
			return err
		}
		if err := s.settled(); !errors.Is(err, vipl.ErrReject) {
			return fmt.Errorf("want a refusal, not: %w", err)
		}
		if err := s.vi.ConnectStart(addr, nil); err != nil {
			return err
		}
		return s.settled()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
