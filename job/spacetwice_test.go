package job_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSpaceFalseRank: where ranks meet by a space, one who claims to be a rank that has not come,
// and does not know the nonce, is refused by all: also by rank 0, which waits for that rank, and to
// whom ranks may come without where there is no space. The rank itself is taken when it comes.
func TestSpaceFalseRank(t *testing.T) {
	const size, late = 4, 1
	for _, nonce := range []uint64{0, 1} {
		seeds(t, 4, func(seed uint64) error {
			w := newWorld(size, sim.Options{Seed: seed, Loss: 0.02})
			s := newSpace(t, w)
			for rank := range size {
				w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
					m, err := w.join(bg, nic, rank)
					if err != nil {
						return err
					}
					if got := m.Refused(); rank == 0 && got != 1 {
						return fmt.Errorf("%d requests were refused, want 1", got)
					}
					if rank != late && m.Params(late) != [2]uint32{late, 7} {
						return fmt.Errorf("rank %d is another one: it tells %v", late, m.Params(late))
					}
					return m.Leave(bg)
				})
			}
			w.Isolate(w.stations[late])
			w.At(sim.Start+int64(500*time.Millisecond), w.Heal)
			for rank := range size {
				if rank == late {
					continue
				}
				w.host(fmt.Sprint("false one at ", rank), 10*time.Millisecond, func(nic *vipl.NIC) error {
					addr, _, _, err := job.ParseValue(s.puts[fmt.Sprint("bobnet-", rank)])
					if err != nil {
						return err
					}
					return wantRefused(nic, addr, rank == 0, job.Identity{Job: "test", Rank: late, Size: size, Version: 2, Nonce: nonce})
				})
			}
			return w.run()
		})
	}
}

// wantRefused asks a rank for a connection, and wants to be refused, as one of another run if
// the rank waits.
func wantRefused(nic *vipl.NIC, addr ethertype.Addr, waits bool, id job.Identity) error {
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	defer vi.Close()
	var b [joining.HelloSize]byte
	hello := id.Hello([2]uint32{9, 9})
	hello.Put(b[:])
	if err := vi.Connect(bg, addr, b[:]); !errors.Is(err, vipl.ErrReject) || waits && !contains(err, "another run of job") {
		return fmt.Errorf("a false rank got %w", err)
	}
	return nil
}

// TestSpaceRankTwice: where ranks meet by a space, and two processes claim one rank, one of them at
// least ends with an error, and all end when time is up at the latest, whatever the launcher makes of what
// both put. If it refuses what comes second, all others meet; of two that are rank 0 and meet
// the others in the launcher's barrier the one says so that finds what the other one has put.
func TestSpaceRankTwice(t *testing.T) {
	const size = 4
	for name, again := range map[string]func(first, second string) (string, error){
		"refused":    nil,
		"first wins": func(first, _ string) (string, error) { return first, nil },
		"last wins":  func(_, second string) (string, error) { return second, nil },
	} {
		for twice := range size {
			for _, after := range []time.Duration{0, 30 * time.Microsecond, 10 * time.Millisecond} {
				seeds(t, 2, func(seed uint64) error {
					ends, err := spaceRankTwice(t, seed, size, twice, after, again)
					failed := ends[twice]
					if len(failed) != 2 || failed[0] == nil && failed[1] == nil {
						return fmt.Errorf("%s: both have met as rank %d, after %v: %w", name, twice, after, err)
					}
					for rank, errs := range ends {
						if rank != twice && name == "refused" && errs[0] != nil {
							return fmt.Errorf("rank %d failed because another rank was there twice: %w", rank, errs[0])
						}
					}
					var both *job.DuplicateError
					if came := after < time.Millisecond; name != "refused" && twice == 0 && came && !errors.As(errors.Join(failed...), &both) {
						return fmt.Errorf("%s: rank 0, after %v: %w, want that one says that there are two", name, after, errors.Join(failed...))
					}
					if one := errors.Join(failed...); name == "refused" && (failed[0] != nil && failed[1] != nil || !contains(one, "cannot be put")) {
						return fmt.Errorf("rank %d, after %v: %w", twice, after, one)
					}
					return err
				})
			}
		}
	}
}

// spaceRankTwice has a job meet of which one rank is started twice. It returns how the processes of
// each rank ended, and an error if one took too long.
func spaceRankTwice(t *testing.T, seed uint64, size, twice int, after time.Duration, again func(string, string) (string, error)) ([][]error, error) {
	w := newWorld(size, sim.Options{Seed: seed})
	w.cfg.Timeout = 5 * time.Second
	w.cfg.Logger = slog.New(slog.DiscardHandler)
	newSpace(t, w).again = again
	ends := make([][]error, size)
	process := func(name string, rank int, after time.Duration) {
		w.host(name, after, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err == nil {
				err = m.Leave(bg)
			}
			ends[rank] = append(ends[rank], err)
			if took := w.now() - after; took > w.cfg.Timeout+time.Second {
				return fmt.Errorf("it ended after %v: %w", took, err)
			}
			return nil
		})
	}
	for rank := range size {
		process(fmt.Sprint("rank ", rank), rank, time.Duration(rank%2)*time.Millisecond)
	}
	process("again", twice, after)
	return ends, w.run()
}
