package job_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// program is a program on a Member that connects on first use.
func program(m *job.Member) (joining.Job, error) {
	j, err := joining.On(joining.Program{Name: "Users", Version: 1, Timeout: time.Second}, m)
	if err == nil {
		j.OnUse(func() {})
	}
	return j, err
}

// await has a rank handle what comes until done, or until the time is up.
func (w *world) await(m *job.Member, done func() bool) bool {
	for end := w.now() + 10*time.Second; !done(); {
		if m.Err(); w.now() > end || w.Sleep(100*time.Microsecond) != nil {
			return false
		}
	}
	return true
}

// allLeave reports whether the Member has said that all ranks leave.
func allLeave(j joining.Job) bool {
	for {
		ev, ok := j.Next()
		if !ok || ev.Rank < 0 {
			return ok
		}
	}
}

// TestLeftThenDied: a rank that has left dies, and rank 0 learns of that before the ranks between count
// again. It does not take that rank for two, and so waits for the last one, which works on and has no link at
// that time, because the rank above it is dead as well.
func TestLeftThenDied(t *testing.T) {
	const size, between, last, left = 10, 2, 9, 5 // between is above last, and rank 1 above left
	seeds(t, 4, func(seed uint64) error {
		w := newWorld(size, sim.Options{Seed: seed})
		w.cfg.PeerTimeout = 5 * time.Second
		ready, leaving, told, ended := 0, 0, false, false
		w.Script(func(_ int64, from, to *sim.Station, _ []byte) sim.Action {
			a, b := w.stations[0], w.stations[last]
			return sim.Action{Drop: told && !ended && (from == a && to == b || from == b && to == a)}
		})
		for rank := range size {
			w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
				m, err := w.join(bg, nic, rank)
				if err != nil {
					return err
				}
				j, err := program(m)
				if err != nil {
					return err
				}
				ready++
				w.await(m, func() bool { return ready == size })
				switch rank {
				case 0:
					w.await(m, func() bool { return leaving == size-3 })
					w.await(m, func() bool { return w.now() > time.Second }) // rank 0 has heard all who leave
					j.Leave()
					told = true
					j.Failed(between, errors.New("a test"))
					j.Failed(left, errors.New("a test"))
					early := false
					w.await(m, func() bool { early = early || allLeave(j); return early || w.now() > 2*time.Second })
					if ended = true; early {
						return errors.New("rank 0 takes the job for ended while a rank works on")
					}
				case between:
					w.await(m, func() bool { return told })
					m.Fail(errors.New("test: the end"))
					return nil
				case last:
					w.await(m, func() bool { return ended })
					j.Leave()
				default:
					j.Leave()
					leaving++
				}
				if rank == left {
					w.await(m, func() bool { return told })
					m.Fail(errors.New("test: the end"))
					return nil
				}
				if !w.await(m, func() bool { return allLeave(j) }) {
					return errors.New("nobody says that all leave")
				}
				w.Sleep(time.Second)
				m.Fail(errors.New("test: the end"))
				return nil
			})
		}
		return w.run()
	})
}

// TestLinkEndsAtOnce: a rank asks another one for a link, which accepts, sends a message and ends the link before the
// first one looks. That one goes on.
func TestLinkEndsAtOnce(t *testing.T) {
	const size, foe, asker = 6, 5, 2 // between them there is no link
	w := newWorld(size, sim.Options{})
	joined, over := 0, false
	var at ethertype.Addr
	for rank := range size {
		w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err != nil {
				return err
			}
			joined++
			w.await(m, func() bool { return joined == size })
			switch rank {
			case foe:
				err = acceptAndEnd(nic, &at)
				w.Sleep(time.Millisecond)
				over = true
			case asker:
				w.await(m, func() bool { return !at.IsZero() })
				job.LinkAt(m, foe, at)
				for !over && w.Sleep(100*time.Microsecond) == nil { // it computes
					nic.Poll()
				}
			}
			w.await(m, func() bool { return over })
			return errors.Join(err, m.Err(), m.Leave(bg))
		})
	}
	check(t, w.run())
}

// acceptAndEnd accepts one connection, at an address that it sets, sends a message and ends the connection.
func acceptAndEnd(nic *vipl.NIC, at *ethertype.Addr) error {
	l, err := nic.Listen(0)
	if err != nil {
		return err
	}
	defer l.Close()
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	defer vi.Close()
	mem, handle, err := nic.AllocMem(4096, nil)
	if err != nil {
		return err
	}
	defer nic.DeregisterMem(handle)
	*at = l.Addr()
	r, err := l.Wait(bg)
	if err != nil {
		return err
	}
	if err := r.Accept(bg, vi); err != nil {
		return err
	}
	mem[0] = 'a'
	err = vi.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[:1], Handle: handle}}})
	vi.Disconnect()
	return err
}

// TestTwiceIsToldOnce: each rank passes on once that two processes claim a rank, although its neighbours
// pass that on to it in turn.
func TestTwiceIsToldOnce(t *testing.T) {
	const size = 6
	w := newWorld(size, sim.Options{})
	joined := 0
	for rank := range size {
		w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err != nil {
				return err
			}
			joined++
			w.await(m, func() bool { return joined == size })
			if rank == 3 {
				at := func(port uint16) ethertype.Addr {
					return ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: port}
				}
				job.SayTwice(m, &job.DuplicateError{Job: "test", Rank: 1, First: at(1), Second: at(2)})
			}
			end := w.now() + 100*time.Millisecond
			w.await(m, func() bool { return w.now() > end })
			if n := job.Reports(m); n != 1 {
				return fmt.Errorf("rank %d has passed on %d reports, want 1", rank, n)
			}
			if err := isTwice(m.Err(), 1); err != nil {
				return err
			}
			m.Fail(m.Err())
			return nil
		})
	}
	check(t, w.run())
}
