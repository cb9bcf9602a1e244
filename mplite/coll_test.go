package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// ranks returns the numbers of ranks with which collectives are tested.
func ranks() []int {
	if !need.Full() {
		return []int{1, 2, 3, 5, 8, 14}
	}
	n := make([]int, 33)
	for i := range n {
		n[i] = i + 1
	}
	return n
}

// small is the configuration for many ranks in one process.
var small = mplite.Config{EagerSize: 1024, Credits: 8}

// value returns element i of a rank's contribution. The values are small integers, so that sums are
// exact and do not depend on the order.
func value(rank, i int) float64 { return float64((rank*31+i*7)%23 - 11) }

func vector(rank, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = value(rank, i)
	}
	return v
}

// summed returns the sum of the vectors of ranks lo up to hi.
func summed(lo, hi, n int) []float64 {
	v := make([]float64, n)
	for r := lo; r < hi; r++ {
		for i := range v {
			v[i] += value(r, i)
		}
	}
	return v
}

// joined returns the vectors of all ranks, one after another.
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

// checks has a check for each collective. One rank calls it with vectors of n elements, and
// compares the result with a naive one.
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

// lengths returns lengths with which every algorithm is used, for 1 to 33 ranks.
func lengths(name string, size int) []int {
	switch name {
	case "barrier":
		return []int{0}
	case "gather", "scatter", "allgather", "alltoall":
		return []int{0, 1, 33, 700, 20_000 / size}
	}
	if size > 7 && size < 33 { // the algorithms for long vectors are the same for more ranks
		return []int{0, 1, 17, 2500}
	}
	if name == "bcast" {
		return []int{0, 1, 17, 2500, 66_000}
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

// TestCollectivesUnderLoss runs all collectives over a network that loses, duplicates and reorders
// frames.
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

// compose composes two affine maps x -> a*x+b modulo 2^32, each encoded as a<<32|b. The operation
// is associative but not commutative, so it shows the order of operands.
func compose(left, right uint64) uint64 {
	a1, b1, a2, b2 := uint32(left>>32), uint32(left), uint32(right>>32), uint32(right)
	return uint64(a2*a1)<<32 | uint64(a2*b1+b2)
}

func maps(rank, n int) []uint64 {
	v := make([]uint64, n)
	for i := range v {
		v[i] = uint64(2*rank+3)<<32 | uint64(5*i+7*rank+1)
	}
	return v
}

// TestEveryAlgorithm runs each algorithm with each number of ranks, also if it would not be
// selected. The operation shows the order of operands.
func TestEveryAlgorithm(t *testing.T) {
	sum := mplite.Sum[uint64]()
	for _, size := range ranks() {
		err := runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			for _, n := range []int{0, 1, 5, 16, 300} {
				wantMap, wantSum := maps(0, n), maps(0, n)
				for r := 1; r < size; r++ {
					for i, m := range maps(r, n) {
						wantMap[i] = compose(wantMap[i], m)
						wantSum[i] += m
					}
				}
				for _, root := range []int{0, size / 2} {
					ordered := func(name string, got []uint64) error { return equal(name, n, got, wantMap) }
					if err := mplite.Algorithms(bg, c, maps(c.Rank(), n), mplite.NewOp(false, compose), root, ordered); err != nil {
						return err
					}
					summed := func(name string, got []uint64) error { return equal(name, n, got, wantSum) }
					if err := mplite.Algorithms(bg, c, maps(c.Rank(), n), sum, root, summed); err != nil {
						return err
					}
					part := func(id int) []byte { return content(n, uint64(id)) }
					moved := func(name string, got, want []byte) error {
						if !bytes.Equal(got, want) {
							return fmt.Errorf("%s of %d bytes from root %d is wrong", name, n, root)
						}
						return nil
					}
					if root == 0 {
						if err := reduceScatters(c, n, sum); err != nil {
							return err
						}
					}
					if err := mplite.Movers(bg, c, n, root, part, moved); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
	}
}

// reduceScatters runs each algorithm of ReduceScatter with parts of 0, n and 2n elements.
func reduceScatters(c *mplite.Comm, n int, sum mplite.Op[uint64]) error {
	counts, total, lo := make([]int, c.Size()), 0, 0
	for r := range counts {
		counts[r] = (r + 1) % 3 * n
		if r == c.Rank() {
			lo = total
		}
		total += counts[r]
	}
	want := make([]uint64, total)
	for r := range c.Size() {
		for i, m := range maps(r, total) {
			want[i] += m
		}
	}
	return mplite.ReduceScatters(bg, c, maps(c.Rank(), total), counts, sum, func(name string, got []uint64) error {
		return equal(name, n, got, want[lo:lo+counts[c.Rank()]])
	})
}

func equal(name string, n int, got, want []uint64) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s of %d elements is wrong", name, n)
	}
	return nil
}

// TestSelection: the package comment contains the table by which algorithms are selected.
func TestSelection(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, line := range mplite.Selection() {
		want += "//\t" + line + "\n"
	}
	if !strings.Contains(string(doc), want) {
		t.Errorf("the package comment lacks the table of algorithms:\n%s", want)
	}
}

// TestScanKeepsOrder checks the order of operands in the prefix reductions and in ReduceScatter.
func TestScanKeepsOrder(t *testing.T) {
	for _, size := range ranks() {
		err := runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			const n = 10
			op := mplite.NewOp(false, compose)
			prefix := make([][]uint64, size)
			for r := range prefix {
				prefix[r] = maps(r, n)
				for i := range n {
					if r > 0 {
						prefix[r][i] = compose(prefix[r-1][i], prefix[r][i])
					}
				}
			}
			got := make([]uint64, n)
			if err := mplite.Scan(bg, c, maps(c.Rank(), n), got, op); err != nil {
				return err
			}
			if err := equal("scan", n, got, prefix[c.Rank()]); err != nil {
				return err
			}
			want := slices.Repeat([]uint64{42}, n)
			copy(got, want)
			if c.Rank() > 0 {
				want = prefix[c.Rank()-1]
			}
			if err := mplite.Exscan(bg, c, maps(c.Rank(), n), got, op); err != nil {
				return err
			}
			return equal("exscan", n, got, want)
		})
		if err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
	}
}

// TestUnequalParts checks the collectives with counts. Some counts are zero.
func TestUnequalParts(t *testing.T) {
	for _, size := range ranks() {
		for _, scale := range []int{1, 900} {
			err := runJob(size, sim.Options{}, small, func(c *mplite.Comm) error { return unequal(c, scale) })
			if err != nil {
				t.Fatalf("%d ranks, scale %d: %v", size, scale, err)
			}
		}
	}
}

func unequal(c *mplite.Comm, scale int) error {
	me, size, root := c.Rank(), c.Size(), c.Size()-1
	counts := make([]int, size)
	var all []float64
	for r := range counts {
		counts[r] = r % 4 * scale
		all = append(all, vector(r, counts[r])...)
	}
	mine, got := vector(me, counts[me]), make([]float64, len(all))
	if err := mplite.Gatherv(bg, c, mine, got, counts, root); err != nil {
		return err
	}
	if me == root {
		if err := expect("gatherv", got, all); err != nil {
			return err
		}
	}
	part := make([]float64, counts[me])
	if err := mplite.Scatterv(bg, c, all, counts, part, root); err != nil {
		return err
	}
	if err := expect("scatterv", part, mine); err != nil {
		return err
	}
	clear(got)
	if err := mplite.Allgatherv(bg, c, mine, got, counts); err != nil {
		return err
	}
	if err := expect("allgatherv", got, all); err != nil {
		return err
	}
	var send, want []float64
	sendCounts, recvCounts := make([]int, size), make([]int, size)
	for r := range size {
		sendCounts[r], recvCounts[r] = (me+2*r)%3*scale, (r+2*me)%3*scale
		send = append(send, vector(10*me+r, sendCounts[r])...)
		want = append(want, vector(10*r+me, recvCounts[r])...)
	}
	recv := make([]float64, len(want))
	if err := mplite.Alltoallv(bg, c, send, sendCounts, recv, recvCounts); err != nil {
		return err
	}
	if err := expect("alltoallv", recv, want); err != nil {
		return err
	}
	if err := mplite.ReduceScatter(bg, c, vector(me, len(all)), part, counts, mplite.Sum[float64]()); err != nil {
		return err
	}
	lo := 0
	for _, n := range counts[:me] {
		lo += n
	}
	return expect("reduce_scatter", part, summed(0, size, len(all))[lo:lo+counts[me]])
}

// TestMinLocMaxLoc compares MinLoc and MaxLoc with naive results, with equal values at several
// ranks and a length for each algorithm.
func TestMinLocMaxLoc(t *testing.T) {
	for _, size := range []int{1, 2, 5, 8} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			for _, n := range []int{1, 5, 3000} {
				if err := located(c, n); err != nil {
					return fmt.Errorf("%d elements on %d ranks: %w", n, size, err)
				}
			}
			return nil
		}))
	}
}

func located(c *mplite.Comm, n int) error {
	of := func(rank int) []mplite.Loc[float32] {
		v := make([]mplite.Loc[float32], n)
		for i := range v {
			v[i] = mplite.Loc[float32]{Value: float32((rank*5 + i) % 4), Index: rank}
		}
		return v
	}
	smallest, largest := of(0), of(0)
	for r := 1; r < c.Size(); r++ {
		for i, x := range of(r) {
			if x.Value < smallest[i].Value {
				smallest[i] = x
			}
			if x.Value > largest[i].Value {
				largest[i] = x
			}
		}
	}
	got := make([]mplite.Loc[float32], n)
	if err := mplite.Allreduce(bg, c, of(c.Rank()), got, mplite.MinLoc[float32]()); err != nil || !slices.Equal(got, smallest) {
		return fmt.Errorf("minloc is wrong: %w", err)
	}
	if err := mplite.Reduce(bg, c, of(c.Rank()), got, mplite.MaxLoc[float32](), 0); err != nil || c.Rank() == 0 && !slices.Equal(got, largest) {
		return fmt.Errorf("maxloc is wrong: %w", err)
	}
	nan := []mplite.Loc[float64]{{Value: 1, Index: c.Rank()}}
	if c.Rank() == 0 {
		nan[0].Value = math.NaN()
	}
	if err := mplite.Allreduce(bg, c, nil, nan, mplite.MinLoc[float64]()); err != nil || nan[0].Index != 0 {
		return fmt.Errorf("the smallest is %v: %w", nan[0], err)
	}
	return nil
}

// waitedFor is a context that has ended. It records whether a caller waits for its end.
type waitedFor struct {
	context.Context
	noted bool
}

func (w *waitedFor) Done() <-chan struct{} {
	w.noted = true
	return w.Context.Done()
}

// TestLateFailure: a collective whose last message fails does not wait for its earlier messages.
func TestLateFailure(t *testing.T) {
	late := errors.New("a test")
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Close()
	ctx := &waitedFor{Context: canceled()}
	if err := mplite.FinishLate(ctx, c, 0, late); err != late || ctx.noted {
		t.Errorf("it ended with %v, want the failure of the send; it has waited: %v", err, ctx.noted)
	}
}
