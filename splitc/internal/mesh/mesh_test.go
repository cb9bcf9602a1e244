package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var bg = context.Background()

// station is a rank of a test.
type station struct {
	*sim.World
	layer.Config
}

// open makes a VI that can take nothing.
func (s *station) open(int, int) (*vipl.VI, error) { return s.NIC.CreateVI(nil, nil, nil) }

// run runs fn on each of so many ranks of a job.
func run(t *testing.T, procs int, fn func(s *station) error) {
	t.Helper()
	w := sim.New(sim.Options{Limit: 10 * time.Minute})
	var errs []error
	for me := range procs {
		at := w.Station(fmt.Sprint("rank ", me))
		w.Go(at.String(), func() {
			if err := rank(w, at, me, procs, fn); err != nil {
				errs = append(errs, fmt.Errorf("rank %d: %w", me, err))
			}
		})
	}
	if err := errors.Join(append(errs, w.Run())...); err != nil {
		t.Fatal(err)
	}
}

func rank(w *sim.World, at *sim.Station, me, procs int, fn func(s *station) error) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: at, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	m, err := job.Open(bg, &job.Config{Job: "mesh", Rank: me, Size: procs, NIC: nic}, job.Program{Name: "mesh", Version: 1})
	if err != nil {
		return err
	}
	watch := layer.NewWatch(nic, m, time.Minute)
	defer watch.End()
	if err := fn(&station{w, layer.Config{Member: m, NIC: nic, Rank: me, Procs: procs, Watch: watch, Logger: slog.New(slog.DiscardHandler)}}); err != nil {
		m.Fail(err)
		return err
	}
	return m.Leave(bg)
}

// TestPoser: a rank asks another one for the connection of a third before that does. It is
// rejected and counted, and the third gets its connection.
func TestPoser(t *testing.T) {
	rejected := false
	run(t, 3, func(s *station) error {
		switch s.Rank {
		case 0: // the third: it waits until the other has tried
			for !rejected {
				if err := s.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
		case 1:
			if err := pose(s, 0, 2); err == nil {
				return errors.New("rank 2 takes rank 1 for rank 0")
			}
			rejected = true
		}
		vis, strays, err := Connect(bg, Config{Config: s.Config, Name: "test", Kinds: 1, Make: s.open})
		if err != nil {
			return err
		}
		for other, of := range vis {
			if other != s.Rank && of[0].Remote().MAC != s.Member.Addr(other).MAC {
				return fmt.Errorf("its connection to rank %d is with %v", other, of[0].Remote())
			}
		}
		if want := uint64(s.Rank / 2); strays != want {
			return fmt.Errorf("%d requests were rejected, want %d", strays, want)
		}
		return nil
	})
}

// pose asks rank to for the connection of rank as.
func pose(s *station, as, to int) error {
	m := &mesh{Config: Config{Config: s.Config, Name: "test"}}
	ctx, cancel := s.NIC.WithTimeout(bg, time.Minute)
	defer cancel()
	at, err := s.NIC.Lookup(ctx, m.name(to))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	vi, err := s.open(0, 0)
	if err != nil {
		return err
	}
	defer vi.Close()
	data := m.request(to, 0)
	binary.BigEndian.PutUint32(data[8:], uint32(as))
	return vi.Connect(ctx, at, data)
}

var errNotAsked = errors.New("the rank was not found")

// TestPollEnds: a rank whose completions come as fast as it takes them leaves Poll after
// so many.
func TestPollEnds(t *testing.T) {
	const most = 1024
	run(t, 2, func(s *station) error {
		cq, err := seam.NewQueue(s.NIC, 2*batch, batch)
		if err != nil {
			return err
		}
		defer cq.Close()
		vi, err := s.NIC.CreateVI(&vipl.Attributes{QueueDepth: 2 * batch}, cq.CQ, cq.CQ)
		if err != nil {
			return err
		}
		defer vi.Close()
		taken := 0
		b := &Base{Config: s.Config, CQ: cq, Take: func(c *seam.Completion) {
			if taken++; taken < 4*most { // that a Poll without an end ends this test, too
				_ = c.VI.PostSend(c.Descriptor)
			}
		}}
		for range batch { // without a connection a descriptor is complete at once
			if err := vi.PostSend(&vipl.Descriptor{Op: vipl.OpSend}); err != nil {
				return err
			}
		}
		if err := b.Poll(); err != nil {
			return err
		}
		if taken < batch || taken > most {
			return fmt.Errorf("a Poll takes %d completions, want up to %d", taken, most)
		}
		return nil
	})
}
