package mplite_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// An affine map x -> a*x+b modulo 2^32, as a<<32|b. Composing two is
// associative and not commutative, so it shows the order of operands.
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

// TestEveryAlgorithm runs each algorithm with each number of ranks, also where
// it would not be chosen, with an operation that shows the order of operands.
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

func equal(name string, n int, got, want []uint64) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s of %d elements is wrong", name, n)
	}
	return nil
}

// TestScanKeepsOrder checks the prefix reductions and ReduceScatter with an
// operation that shows the order of operands.
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

// TestUnequalParts checks the collectives with counts, some of them zero.
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
