package mplite_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestUnlikeByteOrders runs the typed collectives on ranks of which one has
// the other byte order.
func TestUnlikeByteOrders(t *testing.T) {
	for _, size := range []int{2, 3, 5, 8} {
		for _, foreign := range []int{0, size / 2, size - 1} {
			check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
				mplite.SetForeign(c, c.Rank() == foreign)
				for _, n := range []int{1, 17, 2500} {
					if err := unlike(c, foreign, n, func(i int) uint32 { return uint32(i) << 7 }); err != nil {
						return err
					}
				}
				if size != 5 || foreign != size/2 {
					return nil
				}
				// Long enough for the algorithms for long vectors.
				return unlike(c, foreign, 35_000, func(i int) complex64 { return complex(float32(i), float32(-i)) })
			}))
		}
	}
}

func unlike[T mplite.Number](c *mplite.Comm, foreign, n int, number func(i int) T) error {
	h := &host[T]{Comm: c, foreign: c.Rank() == foreign, n: n, number: number}
	for _, test := range []struct {
		name string
		run  func() error
	}{
		{"Bcast", h.bcast}, {"Reduce", h.reduce}, {"Allreduce", h.allreduce}, {"ReduceScatter", h.reduceScatter}, {"Scan", h.scan},
		{"Gather", h.gather}, {"Scatter", h.scatter}, {"Allgather", h.allgather}, {"Alltoall", h.alltoall},
	} {
		if err := test.run(); err != nil {
			return fmt.Errorf("%s of %d elements of %T on %d ranks, foreign is rank %d: %w", test.name, n, number(0), c.Size(), foreign, err)
		}
	}
	return nil
}

// host is a rank with its byte order.
type host[T mplite.Number] struct {
	*mplite.Comm
	foreign bool
	n       int
	number  func(i int) T
}

// mem returns numbers as this host has them in memory.
func (h *host[T]) mem(v []T) []T {
	if h.foreign {
		return mplite.Foreign(v)
	}
	return slices.Clone(v)
}

// part is what a rank contributes to a collective, n numbers of it.
func (h *host[T]) part(rank, n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = h.number((rank*31 + i*7) % 23)
	}
	return v
}

// joined is the parts of all ranks.
func (h *host[T]) joined(n int) (all []T) {
	for rank := range h.Size() {
		all = append(all, h.part(rank, n)...)
	}
	return all
}

// sum adds up the parts of the ranks below end.
func (h *host[T]) sum(end int) []T {
	v := make([]T, h.n)
	for rank := range end {
		for i, x := range h.part(rank, h.n) {
			v[i] += x
		}
	}
	return v
}

// add is the sum as this host computes it.
func (h *host[T]) add() mplite.Op[T] {
	return mplite.NewOp(true, func(a, b T) T {
		if !h.foreign {
			return a + b
		}
		return h.mem([]T{h.mem([]T{a})[0] + h.mem([]T{b})[0]})[0]
	})
}

// same compares what is in this host's memory. A buffer that is none of its
// rank's business is nil.
func (h *host[T]) same(got, want []T, err error) error {
	if err != nil || got == nil {
		return err
	}
	got = h.mem(got)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("rank %d has %v as element %d, want %v", h.Rank(), got[i], i, want[i])
		}
	}
	return nil
}

// at returns a buffer of n elements at root, else nil.
func (h *host[T]) at(root, n int) []T {
	if h.Rank() != root {
		return nil
	}
	return make([]T, n)
}

func (h *host[T]) bcast() error {
	for root := range h.Size() {
		buf := make([]T, h.n)
		if h.Rank() == root {
			buf = h.mem(h.part(root, h.n))
		}
		if err := h.same(buf, h.part(root, h.n), mplite.Bcast(bg, h.Comm, buf, root)); err != nil {
			return err
		}
	}
	return nil
}

func (h *host[T]) reduce() error {
	for _, root := range []int{0, h.Size() - 1} {
		recv := h.at(root, h.n)
		err := mplite.Reduce(bg, h.Comm, h.mem(h.part(h.Rank(), h.n)), recv, h.add(), root)
		if err := h.same(recv, h.sum(h.Size()), err); err != nil {
			return err
		}
	}
	return nil
}

func (h *host[T]) allreduce() error {
	recv := make([]T, h.n)
	err := mplite.Allreduce(bg, h.Comm, h.mem(h.part(h.Rank(), h.n)), recv, h.add())
	return h.same(recv, h.sum(h.Size()), err)
}

// counts are parts of unequal sizes, and ends where each begins and the next
// one does.
func (h *host[T]) counts(n int) (counts, ends []int) {
	ends = []int{0}
	for rank := range h.Size() {
		counts = append(counts, n/h.Size()+rank%2)
		ends = append(ends, ends[rank]+counts[rank])
	}
	return counts, ends
}

func (h *host[T]) reduceScatter() error {
	counts, ends := h.counts(h.n)
	whole := &host[T]{h.Comm, h.foreign, ends[h.Size()], h.number}
	recv := make([]T, counts[h.Rank()])
	err := mplite.ReduceScatter(bg, h.Comm, h.mem(h.part(h.Rank(), whole.n)), recv, counts, h.add())
	return h.same(recv, whole.sum(h.Size())[ends[h.Rank()]:ends[h.Rank()+1]], err)
}

func (h *host[T]) scan() error {
	recv := make([]T, h.n)
	err := mplite.Scan(bg, h.Comm, h.mem(h.part(h.Rank(), h.n)), recv, h.add())
	if err := h.same(recv, h.sum(h.Rank()+1), err); err != nil {
		return err
	}
	clear(recv)
	err = mplite.Exscan(bg, h.Comm, h.mem(h.part(h.Rank(), h.n)), recv, h.add())
	return h.same(recv, h.sum(h.Rank()), err)
}

func (h *host[T]) gather() error {
	const root = 0
	n := h.n / h.Size()
	recv := h.at(root, n*h.Size())
	if err := h.same(recv, h.joined(n), mplite.Gather(bg, h.Comm, h.mem(h.part(h.Rank(), n)), recv, root)); err != nil {
		return err
	}
	counts, ends := h.counts(h.n)
	recv = h.at(root, ends[h.Size()])
	mine := h.part(0, ends[h.Size()])[ends[h.Rank()]:ends[h.Rank()+1]]
	return h.same(recv, h.part(0, ends[h.Size()]), mplite.Gatherv(bg, h.Comm, h.mem(mine), recv, counts, root))
}

func (h *host[T]) scatter() error {
	root := h.Size() - 1
	n := h.n / h.Size()
	var all []T
	if h.Rank() == root {
		all = h.mem(h.joined(n))
	}
	recv := make([]T, n)
	if err := h.same(recv, h.part(h.Rank(), n), mplite.Scatter(bg, h.Comm, all, recv, root)); err != nil {
		return err
	}
	counts, ends := h.counts(h.n)
	whole := h.part(0, ends[h.Size()])
	if h.Rank() == root {
		all = h.mem(whole)
	}
	recv = make([]T, counts[h.Rank()])
	return h.same(recv, whole[ends[h.Rank()]:ends[h.Rank()+1]], mplite.Scatterv(bg, h.Comm, all, counts, recv, root))
}

func (h *host[T]) allgather() error {
	n := h.n / h.Size()
	recv := make([]T, n*h.Size())
	if err := h.same(recv, h.joined(n), mplite.Allgather(bg, h.Comm, h.mem(h.part(h.Rank(), n)), recv)); err != nil {
		return err
	}
	counts, ends := h.counts(h.n)
	whole := h.part(0, ends[h.Size()])
	recv = make([]T, len(whole))
	return h.same(recv, whole, mplite.Allgatherv(bg, h.Comm, h.mem(whole[ends[h.Rank()]:ends[h.Rank()+1]]), recv, counts))
}

// alltoall sends from rank a to rank b what rank 8*a+b would contribute.
func (h *host[T]) alltoall() error {
	n := max(h.n/h.Size(), 1)
	var send, want []T
	counts := make([]int, h.Size())
	for rank := range h.Size() {
		send = append(send, h.part(8*h.Rank()+rank, n)...)
		want = append(want, h.part(8*rank+h.Rank(), n)...)
		counts[rank] = n
	}
	recv := make([]T, len(send))
	if err := h.same(recv, want, mplite.Alltoall(bg, h.Comm, h.mem(send), recv)); err != nil {
		return err
	}
	clear(recv)
	return h.same(recv, want, mplite.Alltoallv(bg, h.Comm, h.mem(send), counts, recv, counts))
}
