package mplite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestNoAllocations: steady traffic allocates nothing, in both ranks and the simulator together.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: the race detector takes long to count what is counted without it, too")
	}
	const rounds = 200
	for _, tc := range []struct {
		name  string
		round func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error
	}{
		{"ping-pong 64 B", pingPong(64)},
		{"ping-pong 8 KiB", pingPong(8 << 10)},
		{"landing 64 KiB", pingPong(64 << 10)},
		{"rendezvous 64 KiB", synchronous(64 << 10)},
		{"pulled 64 KiB", pulled(64 << 10)},
		{"nonblocking", exchangeAll},
		{"unexpected", unexpected},
		{"persistent 64 B", persistent(64)},
		{"persistent 64 KiB", persistent(64 << 10)},
		{"column of 800 B", column(100, 64)},
		{"column of 64 KiB", column(8<<10, 3)},
		{"columns of 64 KiB, nonblocking", columns(8<<10, 3)},
		{"columns, persistent", persistentColumns(100, 64)},
		{"structs", structs},
		{"sendrecv-replace", func(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
			_, err := c.SendrecvReplace(bg, buf[:2000], 1-c.Rank(), 1, 1-c.Rank(), 1)
			return err
		}},
		{"matched probes", matchedProbes},
		{"allreduce", func(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
			return mplite.Allreduce(bg, c, nil, buf[:8], mplite.Sum[byte]())
		}},
		{"barrier", func(c *mplite.Comm, _ []byte, _ []mplite.Request) error { return c.Barrier(bg) }},
	} {
		var allocs float64
		err := runJob(2, sim.Options{}, mplite.Config{}, func(c *mplite.Comm) error {
			buf := make([]byte, 64<<10)
			reqs := make([]mplite.Request, 2)
			var err error
			step := func() {
				if e := tc.round(c, buf, reqs); e != nil && err == nil {
					err = e
				}
			}
			for range 2 * rounds {
				step()
			}
			if c.Rank() == 0 {
				allocs = testing.AllocsPerRun(rounds, step)
				return err
			}
			for range rounds + 1 {
				step()
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if allocs != 0 {
			t.Errorf("%s allocates %v times a round, want 0", tc.name, allocs)
		}
	}
}

func pingPong(n int) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	return func(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
		if c.Rank() == 0 {
			if err := c.Send(bg, buf[:n], 1, 0); err != nil {
				return err
			}
			_, err := c.Recv(bg, buf, 1, 0)
			return err
		}
		if _, err := c.Recv(bg, buf, 0, mplite.AnyTag); err != nil {
			return err
		}
		return c.Send(bg, buf[:n], 0, 0)
	}
}

// TestTwoLevelsNoAllocations is TestNoAllocations for collectives of ranks that share hosts.
func TestTwoLevelsNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: the race detector takes long to count what is counted without it, too")
	}
	const rounds, n = 50, 32
	sum := mplite.Sum[byte]()
	for name, call := range map[string]func(c *mplite.Comm, part, all []byte) error{
		"barrier":   func(c *mplite.Comm, _, _ []byte) error { return c.Barrier(bg) },
		"bcast":     func(c *mplite.Comm, part, _ []byte) error { return c.Bcast(bg, part, 1) },
		"reduce":    func(c *mplite.Comm, part, all []byte) error { return mplite.Reduce(bg, c, part, all[:n], sum, 1) },
		"allreduce": func(c *mplite.Comm, part, _ []byte) error { return mplite.Allreduce(bg, c, nil, part, sum) },
		"gather":    func(c *mplite.Comm, part, all []byte) error { return mplite.Gather(bg, c, part, all, 1) },
		"scatter":   func(c *mplite.Comm, part, all []byte) error { return mplite.Scatter(bg, c, all, part, 1) },
		"allgather": func(c *mplite.Comm, part, all []byte) error { return mplite.Allgather(bg, c, part, all) },
	} {
		for _, place := range [][]int{blocks(4, 2), cyclic(4, 2)} {
			var allocs float64
			check(t, runOn(place, mplite.Config{}, func(c *mplite.Comm) error {
				part, all := make([]byte, n), make([]byte, n*c.Size())
				var err error
				step := func() {
					if e := errors.Join(call(c, part, all), c.Barrier(bg)); e != nil && err == nil { // the barrier keeps ranks from running ahead
						err = e
					}
				}
				for range 2 * rounds {
					step()
				}
				if c.Rank() == 0 {
					allocs = testing.AllocsPerRun(rounds, step)
					return err
				}
				for range rounds + 1 {
					step()
				}
				return err
			}))
			if allocs != 0 {
				t.Errorf("%s, ranks on hosts %v: %v allocations a round", name, place, allocs)
			}
		}
	}
}

// pulled is pingPong between processes on one host.
func pulled(n int) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	var near [2]bool
	run := pingPong(n)
	return func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
		if !near[c.Rank()] {
			mplite.SetMemory(c, readOwn)
			near[c.Rank()] = true
		}
		return run(c, buf, reqs)
	}
}

// synchronous is pingPong by Ssend.
func synchronous(n int) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	return func(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
		for i := range 2 {
			if c.Rank() == i {
				if err := c.Ssend(bg, buf[:n], 1-i, 0); err != nil {
					return err
				}
			} else if _, err := c.Recv(bg, buf, i, 0); err != nil {
				return err
			}
		}
		return nil
	}
}

func exchangeAll(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	var err error
	if reqs[0], err = c.Irecv(buf[:1000], 1-c.Rank(), 1); err != nil {
		return err
	}
	if reqs[1], err = c.Isend(buf[1000:2000], 1-c.Rank(), 1); err != nil {
		return err
	}
	return mplite.Waitall(bg, reqs, nil)
}

// unexpected makes messages arrive before their receives.
func unexpected(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
	const n = 100
	if c.Rank() == 0 {
		for tag := range n {
			if err := c.Send(bg, buf[:100], 1, tag); err != nil {
				return err
			}
		}
		_, err := c.Recv(bg, buf, 1, 0)
		return err
	}
	for tag := n - 1; tag >= 0; tag-- {
		if st, err := c.Recv(bg, buf, mplite.AnySource, tag); err != nil || st.Count != 100 {
			return fmt.Errorf("message %d: %+v, %w", tag, st, err)
		}
	}
	return c.Send(bg, buf[:1], 0, 0)
}

// persistent exchanges n bytes by persistent requests.
func persistent(n int) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	return started(func(c *mplite.Comm, buf []byte) (recv, send mplite.Request, err error) {
		if recv, err = c.RecvInit(buf[:n], 1-c.Rank(), 1); err == nil {
			send, err = c.SendInit(make([]byte, n), 1-c.Rank(), 1)
		}
		return recv, send, err
	})
}

// started starts requests and waits for them. init creates them in the first round.
func started(init func(c *mplite.Comm, buf []byte) (recv, send mplite.Request, err error)) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	return func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
		if reqs[0].Null() {
			var err error
			if reqs[0], reqs[1], err = init(c, buf); err != nil {
				return err
			}
		}
		if err := mplite.Startall(reqs); err != nil {
			return err
		}
		return mplite.Waitall(bg, reqs, nil)
	}
}

var matrix [2][1 << 16]float64 // by rank

func columnOf(c *mplite.Comm, rows, width, at int) mplite.Vector[float64] {
	v, err := mplite.NewVector(matrix[c.Rank()][at:], rows, 1, width)
	if err != nil {
		panic(err)
	}
	return v
}

// column sends and receives columns of a matrix.
func column(rows, width int) func(c *mplite.Comm, _ []byte, _ []mplite.Request) error {
	return func(c *mplite.Comm, _ []byte, _ []mplite.Request) error {
		out, in := columnOf(c, rows, width, 1), columnOf(c, rows, width, 0)
		if _, err := out.Sendrecv(bg, c, 1-c.Rank(), 1, in, 1-c.Rank(), 1); err != nil {
			return err
		}
		if c.Rank() == 0 {
			if err := out.Send(bg, c, 1, 1); err != nil {
				return err
			}
			_, err := in.Recv(bg, c, 1, 1)
			return err
		}
		if _, err := in.Recv(bg, c, 0, 1); err != nil {
			return err
		}
		return out.Send(bg, c, 0, 1)
	}
}

func columns(rows, width int) func(c *mplite.Comm, _ []byte, reqs []mplite.Request) error {
	return func(c *mplite.Comm, _ []byte, reqs []mplite.Request) error {
		var err error
		if reqs[0], err = columnOf(c, rows, width, 0).Irecv(c, 1-c.Rank(), 1); err != nil {
			return err
		}
		if reqs[1], err = columnOf(c, rows, width, 1).Isend(c, 1-c.Rank(), 1); err != nil {
			return err
		}
		return mplite.Waitall(bg, reqs, nil)
	}
}

func persistentColumns(rows, width int) func(c *mplite.Comm, buf []byte, reqs []mplite.Request) error {
	return started(func(c *mplite.Comm, _ []byte) (recv, send mplite.Request, err error) {
		if recv, err = columnOf(c, rows, width, 0).RecvInit(c, 1-c.Rank(), 1); err == nil {
			send, err = columnOf(c, rows, width, 1).SendInit(c, 1-c.Rank(), 1)
		}
		return recv, send, err
	})
}

var cells [2][100]cell // by rank

func structs(c *mplite.Comm, _ []byte, _ []mplite.Request) error {
	mine := cells[c.Rank()][:]
	_, err := mplite.Sendrecv(bg, c, mine[:50], 1-c.Rank(), 1, mine[50:], 1-c.Rank(), 1)
	return err
}

func matchedProbes(c *mplite.Comm, buf []byte, _ []mplite.Request) error {
	if err := c.Send(bg, buf[:100], 1-c.Rank(), 1); err != nil {
		return err
	}
	m, err := c.Mprobe(bg, mplite.AnySource, 1)
	if err != nil {
		return err
	}
	_, err = m.Mrecv(bg, buf[:m.Status().Count])
	return err
}
