package mplite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// sizes cross every boundary: empty, inside a frame, eager, just over, large.
var sizes = []int{0, 1, 64, 1400, 16_384, 16_385, 100_000}

func TestSendRecv(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		return runJob(2, sim.Options{Seed: seed, Loss: 0.02 * float64((seed-1)%16)}, mplite.Config{}, func(c *mplite.Comm) error {
			peer := 1 - c.Rank()
			for tag, n := range sizes {
				buf := make([]byte, n+10)
				if c.Rank() == 0 {
					if err := c.Send(bg, content(n, uint64(n)), peer, tag); err != nil {
						return err
					}
				}
				st, err := c.Recv(bg, buf, peer, tag)
				if err != nil {
					return err
				}
				if want := (mplite.Status{Source: peer, Tag: tag, Count: n}); st != want {
					return fmt.Errorf("status %+v, want %+v", st, want)
				}
				if err := same(buf[:n], uint64(n)); err != nil {
					return err
				}
				if c.Rank() == 1 {
					if err := c.Send(bg, buf[:n], peer, tag); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// TestSeveralWrites: a message beyond the longest RDMA write takes several.
func TestSeveralWrites(t *testing.T) {
	check(t, runJob(2, sim.Options{Seed: 1, Loss: 0.02}, small, func(c *mplite.Comm) error {
		mplite.SetMaxWrite(c, 10_000)
		for i, n := range []int{9_999, 10_000, 10_001, 20_000, 95_000} {
			if c.Rank() == 0 {
				if err := c.Send(bg, content(n, uint64(i)), 1, 0); err != nil {
					return err
				}
				continue
			}
			buf := make([]byte, n)
			if _, err := c.Recv(bg, buf, 0, 0); err != nil {
				return err
			}
			if err := same(buf, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestTruncationDisturbsNothing(t *testing.T) {
	err := runJob(2, sim.Options{}, mplite.Config{}, func(c *mplite.Comm) error {
		for _, n := range sizes[1:] {
			if c.Rank() == 0 {
				for i := range 3 {
					if err := c.Send(bg, content(n, uint64(i)), 1, 5); err != nil {
						return err
					}
				}
				continue
			}
			for i := range 3 {
				short := n
				if i == 1 {
					short = n / 2
				}
				buf := make([]byte, short)
				_, err := c.Recv(bg, buf, 0, 5)
				var te *mplite.TruncateError
				switch {
				case i != 1 && err != nil:
					return err
				case i == 1 && (!errors.As(err, &te) || !errors.Is(err, mplite.ErrTruncate) || te.Size != n || te.Room != short):
					return fmt.Errorf("message of %d in %d bytes: %v", n, short, err)
				}
				if string(buf) != string(content(n, uint64(i))[:short]) {
					return fmt.Errorf("message %d of %d bytes is damaged", i, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
