package mplite_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestNoAllocations counts what steady traffic allocates, both ranks and the
// simulator together: nothing.
func TestNoAllocations(t *testing.T) {
	const rounds = 200
	for _, tc := range []struct {
		name  string
		round func(c *mplite.Comm, buf []byte, reqs []*mplite.Request) error
	}{
		{"ping-pong 64 B", pingPong(64)},
		{"ping-pong 8 KiB", pingPong(8 << 10)},
		{"rendezvous 64 KiB", pingPong(64 << 10)},
		{"nonblocking", exchangeAll},
		{"unexpected", unexpected},
		{"allreduce", func(c *mplite.Comm, buf []byte, _ []*mplite.Request) error {
			return mplite.Allreduce(bg, c, nil, buf[:8], mplite.Sum[byte]())
		}},
		{"barrier", func(c *mplite.Comm, _ []byte, _ []*mplite.Request) error { return c.Barrier(bg) }},
	} {
		var allocs float64
		err := runJob(2, sim.Options{}, mplite.Config{}, func(c *mplite.Comm) error {
			buf := make([]byte, 64<<10)
			reqs := make([]*mplite.Request, 2)
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

func pingPong(n int) func(c *mplite.Comm, buf []byte, reqs []*mplite.Request) error {
	return func(c *mplite.Comm, buf []byte, _ []*mplite.Request) error {
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

func exchangeAll(c *mplite.Comm, buf []byte, reqs []*mplite.Request) error {
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
func unexpected(c *mplite.Comm, buf []byte, _ []*mplite.Request) error {
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
