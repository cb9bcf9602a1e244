package job_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestJoin: ranks that start in any order meet, over a network that loses and
// reorders frames too; each knows where the others are and what they tell of
// themselves, and all leave in order.
func TestJoin(t *testing.T) {
	for _, size := range []int{1, 2, 5, 16} {
		seeds(t, 4, func(seed uint64) error {
			w := newWorld(size, sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.1})
			runs := map[uint64]bool{}
			for rank := range size {
				w.host(fmt.Sprint("rank ", rank), time.Duration(seed*uint64(rank)%3)*time.Millisecond, func(nic *vipl.NIC) error {
					m, err := w.join(bg, nic, rank)
					if err != nil {
						return err
					}
					runs[m.Identity().Nonce] = true
					for other := range size {
						if other == rank {
							continue
						}
						if got, want := m.Params(other), [2]uint32{uint32(other), 7}; got != want || m.Addr(other).MAC != w.stations[other].Info().MAC {
							return fmt.Errorf("rank %d is at %v with %v, want %v", other, m.Addr(other), got, want)
						}
					}
					if err := errors.Join(m.Err(), m.Close(), m.Close()); err != nil || m.Refused() != 0 {
						return fmt.Errorf("%w, and %d refused", err, m.Refused())
					}
					return nil
				})
			}
			if err := w.run(); err != nil {
				return err
			}
			if len(runs) != 1 {
				return fmt.Errorf("the ranks are of %d runs", len(runs))
			}
			return nil
		})
	}
}

// TestTwoRuns: of two jobs of one name all ranks say so, whoever comes first.
func TestTwoRuns(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		for _, later := range []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond} {
			seeds(t, 4, func(seed uint64) error {
				w := newWorld(size, sim.Options{Seed: seed, Reorder: 0.1})
				for rank := range size {
					for run := range 2 {
						w.fails(fmt.Sprintf("rank %d of run %d", rank, run), rank, time.Duration(run)*later,
							func(err error) error { return isTwice(err, 0) })
					}
				}
				return w.run()
			})
		}
	}
}

// TestRankTwice: all ranks say that one was started twice.
func TestRankTwice(t *testing.T) {
	const size = 4
	for twice := 1; twice < size; twice++ {
		seeds(t, 4, func(seed uint64) error {
			w := newWorld(size, sim.Options{Seed: seed})
			want := func(err error) error { return isTwice(err, twice) }
			for rank := range size {
				w.fails(fmt.Sprint("rank ", rank), rank, time.Duration(rank%2)*time.Millisecond, want)
			}
			w.fails("again", twice, 0, want)
			return w.run()
		})
	}
}

// TestMissing: when time is up, the ranks that are not there are named, by those
// that wait and at once.
func TestMissing(t *testing.T) {
	w := newWorld(4, sim.Options{})
	w.cfg.Timeout = 2 * time.Second
	for rank := range 3 {
		w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
			_, err := w.join(bg, nic, rank)
			var failed *job.RankError
			named := errors.As(err, &failed) && failed.Rank == 3 || contains(err, `rank 3 of job "test" did not appear within 2s`)
			if !named || w.now() > 2500*time.Millisecond {
				return fmt.Errorf("%w, want that rank 3 is missing", err)
			}
			return nil
		})
	}
	check(t, w.run())
}

// TestStrangers: who does not belong to the job is refused in words and counted, and
// the job comes together all the same.
func TestStrangers(t *testing.T) {
	strangers := []struct {
		id    job.Identity
		words string
	}{
		{job.Identity{Job: "other", Rank: 1, Size: 2, Version: 2}, "not of this job"},
		{job.Identity{Job: "test", Rank: 1, Size: 2, Version: 3}, "Test wire version 3, this rank uses 2"},
		{job.Identity{Job: "test", Rank: 1, Size: 3, Version: 2}, "has 3 ranks according to rank 1 and 2 according to rank 0"},
		{job.Identity{Job: "test", Rank: 2, Size: 2, Version: 2}, "rank 2 of 2 asks rank 0"},
		{job.Identity{Job: "test", Rank: 0, Size: 2, Version: 2}, `rank 0 of job "test" already exists`},
		{job.Identity{Job: "test", Rank: 1, Size: 2, Version: 2, Nonce: 1}, "another run of job"},
	}
	w := newWorld(2, sim.Options{})
	meet := func(nic *vipl.NIC, rank int) error {
		m, err := w.join(bg, nic, rank)
		if err != nil {
			return err
		}
		if got := m.Refused(); rank == 0 && got != uint64(len(strangers)) {
			return fmt.Errorf("%d requests were refused, want %d", got, len(strangers))
		}
		return m.Leave(bg)
	}
	w.host("rank 0", 0, func(nic *vipl.NIC) error { return meet(nic, 0) })
	w.host("rank 1", 0, func(nic *vipl.NIC) error {
		addr, err := nic.Lookup(bg, "job/test/0")
		if err != nil {
			return err
		}
		for _, s := range strangers {
			vi, err := nic.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			var b [joining.HelloSize]byte
			hello := s.id.Hello([2]uint32{})
			hello.Put(b[:])
			if err := vi.Connect(bg, addr, b[:]); !errors.Is(err, vipl.ErrReject) || !contains(err, s.words) {
				return fmt.Errorf("a stranger got %w, want a refusal with %q", err, s.words)
			}
			vi.Close()
		}
		return meet(nic, 1)
	})
	check(t, w.run())
}

// TestReasonIsTold: a rank that ends Join for a reason of its own tells it to all
// others, whether they are there already or come a little later.
func TestReasonIsTold(t *testing.T) {
	const size = 4
	canceled, cancel := context.WithCancel(bg)
	cancel()
	for leaver := 1; leaver < size; leaver++ {
		for _, late := range []time.Duration{0, 150 * time.Millisecond} {
			w := newWorld(size, sim.Options{})
			for rank := range size {
				if rank != leaver {
					w.fails(fmt.Sprint("rank ", rank), rank, late*time.Duration(rank/(size-1)),
						func(err error) error { return hasFailed(err, leaver, "context canceled") })
				}
			}
			w.host("leaver", 0, func(nic *vipl.NIC) error {
				if _, err := w.join(canceled, nic, leaver); !errors.Is(err, context.Canceled) || !contains(err, "test: init: ") {
					return fmt.Errorf("join: %w", err)
				}
				return nil
			})
			check(t, w.run())
		}
	}
}

// TestFailure: when a rank of a job that has come together is killed, closes its NIC
// or fails with a reason, all others learn which and why, and Leave says so.
func TestFailure(t *testing.T) {
	const size, victim = 4, 2
	for how, words := range map[string]string{"killed": "", "closed": "", "reason": "it gave up: no more memory"} {
		w := newWorld(size, sim.Options{})
		for rank := range size {
			w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
				m, err := w.join(bg, nic, rank)
				if err != nil {
					return err
				}
				if rank != victim {
					for m.Err() == nil && w.now() < 5*time.Second {
						if err := w.Sleep(time.Millisecond); err != nil {
							return err
						}
					}
					if err := hasFailed(m.Err(), victim, words); err != nil {
						return err
					}
					return hasFailed(m.Leave(bg), victim, words)
				}
				w.Sleep(100 * time.Millisecond)
				switch how {
				case "killed":
					w.Kill(w.stations[victim])
				case "reason":
					m.Fail(errors.New("test: no more memory"))
				}
				return nil
			})
		}
		if err := w.run(); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestSharedNIC: two jobs use one NIC at a time, and a job of one rank needs none.
func TestSharedNIC(t *testing.T) {
	const size = 3
	w := newWorld(size, sim.Options{})
	other := *w
	other.cfg.Job = "other"
	for rank := range size {
		w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
			one, err := w.join(bg, nic, rank)
			if err != nil {
				return err
			}
			two, err := other.join(bg, nic, (rank+1)%size)
			if err != nil {
				return err
			}
			if got := two.Addr(rank); rank != (rank+1)%size && got.MAC == w.stations[rank].Info().MAC {
				return fmt.Errorf("rank %d of the other job is at %v, which is here", rank, got)
			}
			return errors.Join(one.Leave(bg), two.Close(), one.Close(), two.Close())
		})
	}
	check(t, w.run())
	m, err := job.Open(bg, &job.Config{Size: 1}, job.Program{Name: "Test"})
	check(t, err)
	check(t, errors.Join(m.Err(), m.Close(), m.Close()))
}
