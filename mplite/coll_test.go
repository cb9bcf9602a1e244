package mplite_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// ranks are the rank counts that collectives are tested with.
func ranks() []int {
	if !need.Full() {
		return []int{1, 2, 3, 5, 8}
	}
	n := make([]int, 17)
	for i := range n {
		n[i] = i + 1
	}
	return n
}

// small is the configuration for many ranks in one process.
var small = mplite.Config{EagerSize: 1024, Credits: 8}

// value is what rank contributes as element i: small integers, so that sums
// are exact and the expected result does not depend on the order.
func value(rank, i int) float64 { return float64((rank*31+i*7)%23 - 11) }

func vector(rank, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = value(rank, i)
	}
	return v
}

// summed is the sum of the vectors of ranks lo up to hi.
func summed(lo, hi, n int) []float64 {
	v := make([]float64, n)
	for r := lo; r < hi; r++ {
		for i := range v {
			v[i] += value(r, i)
		}
	}
	return v
}

// joined is the vectors of all ranks, one after another.
func joined(size, n int) []float64 {
	var v []float64
	for r := range size {
		v = append(v, vector(r, n)...)
	}
	return v
}

func expect(what string, got, want []float64) error {
	if !slices.Equal(got, want) {
		i := 0
		for i < len(got) && i < len(want) && got[i] == want[i] {
			i++
		}
		return fmt.Errorf("%s of %d elements is wrong from element %d on", what, len(want), i)
	}
	return nil
}

// checks are the collectives, each against a naive result, as called by one
// rank with vectors of n elements.
var checks = []struct {
	name string
	run  func(c *mplite.Comm, n int) error
}{
	{"barrier", func(c *mplite.Comm, n int) error { return c.Barrier(bg) }},
	{"bcast", func(c *mplite.Comm, n int) error {
		for _, root := range []int{0, c.Size() / 2, c.Size() - 1} {
			buf := make([]float64, n)
			if c.Rank() == root {
				buf = vector(root, n)
			}
			if err := mplite.Bcast(bg, c, buf, root); err != nil {
				return err
			}
			if err := expect("bcast", buf, vector(root, n)); err != nil {
				return err
			}
		}
		return nil
	}},
	{"reduce", func(c *mplite.Comm, n int) error {
		for _, root := range []int{0, c.Size() / 2, c.Size() - 1} {
			var recv []float64
			if c.Rank() == root {
				recv = make([]float64, n)
			}
			if err := mplite.Reduce(bg, c, vector(c.Rank(), n), recv, mplite.Sum[float64](), root); err != nil {
				return err
			}
			if c.Rank() == root {
				if err := expect("reduce", recv, summed(0, c.Size(), n)); err != nil {
					return err
				}
			}
		}
		return nil
	}},
	{"allreduce", func(c *mplite.Comm, n int) error {
		recv := make([]float64, n)
		if err := mplite.Allreduce(bg, c, vector(c.Rank(), n), recv, mplite.Sum[float64]()); err != nil {
			return err
		}
		return expect("allreduce", recv, summed(0, c.Size(), n))
	}},
	{"gather", func(c *mplite.Comm, n int) error {
		root := c.Size() / 2
		var recv []float64
		if c.Rank() == root {
			recv = make([]float64, n*c.Size())
		}
		if err := mplite.Gather(bg, c, vector(c.Rank(), n), recv, root); err != nil || c.Rank() != root {
			return err
		}
		return expect("gather", recv, joined(c.Size(), n))
	}},
	{"scatter", func(c *mplite.Comm, n int) error {
		root := c.Size() / 2
		var send []float64
		if c.Rank() == root {
			send = joined(c.Size(), n)
		}
		recv := make([]float64, n)
		if err := mplite.Scatter(bg, c, send, recv, root); err != nil {
			return err
		}
		return expect("scatter", recv, vector(c.Rank(), n))
	}},
	{"allgather", func(c *mplite.Comm, n int) error {
		recv := make([]float64, n*c.Size())
		if err := mplite.Allgather(bg, c, vector(c.Rank(), n), recv); err != nil {
			return err
		}
		return expect("allgather", recv, joined(c.Size(), n))
	}},
	{"alltoall", func(c *mplite.Comm, n int) error {
		var send, want []float64
		for r := range c.Size() {
			send = append(send, vector(100*c.Rank()+r, n)...)
			want = append(want, vector(100*r+c.Rank(), n)...)
		}
		recv := make([]float64, len(send))
		if err := mplite.Alltoall(bg, c, send, recv); err != nil {
			return err
		}
		return expect("alltoall", recv, want)
	}},
	{"scan", func(c *mplite.Comm, n int) error {
		recv := make([]float64, n)
		if err := mplite.Scan(bg, c, vector(c.Rank(), n), recv, mplite.Sum[float64]()); err != nil {
			return err
		}
		return expect("scan", recv, summed(0, c.Rank()+1, n))
	}},
	{"exscan", func(c *mplite.Comm, n int) error {
		recv := make([]float64, n)
		if err := mplite.Exscan(bg, c, vector(c.Rank(), n), recv, mplite.Sum[float64]()); err != nil {
			return err
		}
		return expect("exscan", recv, summed(0, c.Rank(), n))
	}},
}

// lengths reach every algorithm, with 17 ranks and with 1.
func lengths(name string, size int) []int {
	switch name {
	case "barrier":
		return []int{0}
	case "gather", "scatter", "allgather", "alltoall":
		return []int{0, 1, 33, 700, 20_000 / size}
	}
	if size > 7 && size < 17 { // the long algorithms do not change with more ranks
		return []int{0, 1, 17, 2500}
	}
	return []int{0, 1, 17, 2500, 40_000}
}

func TestCollectives(t *testing.T) {
	for _, size := range ranks() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			err := runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
				for _, check := range checks {
					for _, n := range lengths(check.name, size) {
						if err := check.run(c, n); err != nil {
							return fmt.Errorf("%s of %d: %w", check.name, n, err)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCollectivesUnderLoss runs them all over a bad network.
func TestCollectivesUnderLoss(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.05, Dup: 0.02, Reorder: 0.05}
		return runJob(5, opts, small, func(c *mplite.Comm) error {
			for _, check := range checks {
				for _, n := range []int{1, 300, 5000} {
					if err := check.run(c, n); err != nil {
						return fmt.Errorf("%s of %d: %w", check.name, n, err)
					}
				}
			}
			return nil
		})
	})
}
