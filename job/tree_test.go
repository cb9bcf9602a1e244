package job_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestTree: ranks that a launcher has started connect with few others, over a network that
// loses frames, too; each knows where all are and what they tell of themselves; and no rank
// has left before the last one leaves.
func TestTree(t *testing.T) {
	for _, size := range []int{2, 5, 6, 22, 300} {
		most := 5
		if size > 256 {
			most = 17
		}
		seeds(t, 4, func(seed uint64) error {
			w := newWorld(size, sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.1})
			newSpace(t, w)
			leaving, slow := 0, int(seed)%size
			for rank := range size {
				w.host(fmt.Sprint("rank ", rank), time.Duration(seed*uint64(rank)%3)*time.Millisecond, func(nic *vipl.NIC) error {
					m, err := w.join(bg, nic, rank)
					if err != nil {
						return err
					}
					if n := len(nic.Snapshot().VIs); n > most {
						return fmt.Errorf("%d VIs, want %d at the most", n, most)
					}
					for other := range size {
						if other != rank && (m.Params(other) != [2]uint32{uint32(other), 7} || m.Addr(other).MAC != w.stations[other].Info().MAC) {
							return fmt.Errorf("rank %d is at %v with %v", other, m.Addr(other), m.Params(other))
						}
					}
					if rank == slow {
						w.Sleep(200 * time.Millisecond)
					}
					leaving++
					if err := errors.Join(m.Err(), m.Leave(bg)); err != nil || leaving != size {
						return fmt.Errorf("%w, when %d were leaving", err, leaving)
					}
					return nil
				})
			}
			return w.run()
		})
	}
}

// TestTreeFailure: when a rank of the tree is killed, closes its NIC or fails with a reason,
// all others learn which and why, although the ranks within the tree compute and ask for
// nothing.
func TestTreeFailure(t *testing.T) {
	for _, c := range []struct{ victim, size, inner int }{ // from inner on, ranks have nobody below them
		{0, 22, 6}, {1, 22, 6}, {5, 22, 6}, {21, 22, 6}, {0, 300, 19}, {3, 300, 19},
	} {
		victim, size, inner := c.victim, c.size, c.inner
		for how, words := range map[string]string{"killed": "", "closed": "", "reason": "it gave up: no more memory"} {
			seeds(t, 2, func(seed uint64) error {
				w := newWorld(size, sim.Options{Seed: seed, Loss: 0.02})
				newSpace(t, w)
				for rank := range size {
					w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
						m, err := w.join(bg, nic, rank)
						switch {
						case err != nil:
							return err
						case rank == victim:
							computeFor(nic, time.Duration(size)*2*time.Millisecond) // until all have joined
							if how == "killed" {
								w.Kill(w.stations[victim])
							} else if how == "reason" {
								m.Fail(errors.New("test: no more memory"))
							}
							return nil
						case rank < inner:
							computeFor(nic, 2*time.Second)
						default:
							for m.Err() == nil && w.now() < time.Second {
								if err := w.Sleep(time.Millisecond); err != nil {
									return err
								}
							}
						}
						if err := hasFailed(m.Err(), victim, words); err != nil {
							return fmt.Errorf("%s: %w", how, err)
						}
						return hasFailed(m.Leave(bg), victim, words)
					})
				}
				return w.run()
			})
		}
	}
}

// computeFor has a process do nothing for its job for a while, and its NIC go on, as it does by
// a goroutine of its own in real time.
func computeFor(nic *vipl.NIC, while time.Duration) {
	ctx, cancel := nic.WithTimeout(bg, while)
	defer cancel()
	nic.Lookup(ctx, "nobody")
}
