package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

type celsius float32

// TestEveryType sends each numeric type through each typed form, between like
// and unlike byte orders.
func TestEveryType(t *testing.T) {
	err := runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		return errors.Join(
			echo(c, int(-5)), echo(c, int8(-5)), echo(c, int16(-500)), echo(c, int32(-70_000)), echo(c, int64(math.MinInt64+1)),
			echo(c, uint(5)), echo(c, uint8(250)), echo(c, uint16(65_000)), echo(c, uint32(1<<31)), echo(c, uint64(1<<63)), echo(c, uintptr(77)),
			echo(c, float32(1.5)), echo(c, math.Pi), echo(c, complex64(1+2i)), echo(c, complex(math.E, -1)), echo(c, celsius(-40)),
		)
	})
	check(t, err)
}

func echo[T mplite.Number](c *mplite.Comm, v T) error {
	for _, n := range []int{0, 1, 7, 1000} { // 1000 is a rendezvous, but for the smallest types
		want := make([]T, n)
		w := v
		for i := range want {
			want[i] = w
			w++
		}
		for _, foreign := range []bool{false, true} { // is rank 0
			send, recv, got := senders[T](c), receivers[T](c), want
			if c.Rank() == 0 {
				mplite.SetForeign(c, foreign)
				if foreign {
					got = mplite.Foreign(want)
				}
			}
			for form := range max(len(send), len(recv)) {
				var err error
				if c.Rank() == 0 {
					err = send[form%len(send)](got)
				} else {
					err = recv[form%len(recv)](want)
				}
				if err != nil {
					return fmt.Errorf("%d elements of %T, rank 0 foreign: %v, form %d: %w", n, v, foreign, form, err)
				}
			}
		}
	}
	return nil
}

// senders are the ways to send to rank 1; the last one takes the same back.
func senders[T any](c *mplite.Comm) []func([]T) error {
	waited := func(r mplite.Request, err error) error {
		if err == nil {
			_, err = r.Wait(bg)
		}
		return err
	}
	return []func([]T) error{
		func(v []T) error { return mplite.Send(bg, c, v, 1, 1) },
		func(v []T) error { return mplite.Ssend(bg, c, v, 1, 1) },
		func(v []T) error { return waited(mplite.Isend(c, v, 1, 1)) },
		func(v []T) error { return waited(mplite.Issend(c, v, 1, 1)) },
		func(v []T) error {
			got := make([]T, len(v))
			st, err := mplite.Sendrecv(bg, c, v, 1, 1, got, 1, 1)
			return came(got, st, err, v)
		},
	}
}

// receivers are the ways to receive from rank 0, each way to send twice, so
// that each meets each; the last one sends the same back.
func receivers[T any](c *mplite.Comm) []func([]T) error {
	recv := func(want []T) error {
		got := make([]T, len(want)+1)
		st, err := mplite.Recv(bg, c, got, 0, 1)
		return came(got[:len(want)], st, err, want)
	}
	irecv := func(want []T) error {
		got := make([]T, len(want)+1)
		r, err := mplite.Irecv(c, got, 0, 1)
		if err != nil {
			return err
		}
		st, err := r.Wait(bg)
		return came(got[:len(want)], st, err, want)
	}
	both := func(want []T) error {
		got := make([]T, len(want))
		st, err := mplite.Sendrecv(bg, c, want, 0, 1, got, 0, 1)
		return came(got, st, err, want)
	}
	return []func([]T) error{recv, recv, recv, recv, both, irecv, irecv, irecv, irecv, both}
}

// came checks what was received. The bytes are compared: in a foreign memory
// numbers may be NaN.
func came[T any](got []T, st mplite.Status, err error, want []T) error {
	switch {
	case err != nil:
		return err
	case mplite.Elements[T](st) != len(want) || !slices.Equal(mplite.Bytes(got), mplite.Bytes(want)):
		return fmt.Errorf("arrived wrong, as %v", got)
	}
	return nil
}

// TestSwapWhenUnexpected: the byte order is made right also when the message
// came before its receive.
func TestSwapWhenUnexpected(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		want := []uint32{1, 2, 3}
		if c.Rank() == 0 {
			mplite.SetForeign(c, true)
			return mplite.Send(bg, c, mplite.Foreign(want), 1, 1)
		}
		if _, err := c.Probe(bg, 0, 1); err != nil {
			return err
		}
		got := make([]uint32, 3)
		if _, err := mplite.Recv(bg, c, got, 0, 1); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("got %v, %v", got, err)
		}
		return nil
	}))
}

func TestElementSizesMustAgree(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, n := range []int{10, 1000} {
			if c.Rank() == 0 {
				if err := mplite.Send(bg, c, make([]int64, n), 1, 1); err != nil {
					return err
				}
				continue
			}
			if _, err := mplite.Recv(bg, c, make([]int32, 2*n), 0, 1); !errors.Is(err, mplite.ErrType) {
				return fmt.Errorf("int64 received as int32: %v", err)
			}
		}
		return nil
	}))
}

func reduceAll[T mplite.Number](c *mplite.Comm, op mplite.Op[T], mine []T) []T {
	v := slices.Clone(mine)
	if err := mplite.Allreduce(bg, c, nil, v, op); err != nil {
		panic(err)
	}
	return v
}

func TestOps(t *testing.T) {
	check(t, runJob(3, sim.Options{}, small, func(c *mplite.Comm) error {
		me := c.Rank() // 0, 1, 2
		x := []int16{int16(me) + 1, int16(me), 3, -int16(me)}
		for _, tc := range []struct {
			name string
			op   mplite.Op[int16]
			want []int16
		}{
			{"sum", mplite.Sum[int16](), []int16{6, 3, 9, -3}},
			{"prod", mplite.Prod[int16](), []int16{6, 0, 27, 0}},
			{"min", mplite.Min[int16](), []int16{1, 0, 3, -2}},
			{"max", mplite.Max[int16](), []int16{3, 2, 3, 0}},
			{"land", mplite.LogicalAnd[int16](), []int16{1, 0, 1, 0}},
			{"lor", mplite.LogicalOr[int16](), []int16{1, 1, 1, 1}},
			{"lxor", mplite.LogicalXor[int16](), []int16{1, 0, 1, 0}},
			{"band", mplite.BitAnd[int16](), []int16{0, 0, 3, 0}},
			{"bor", mplite.BitOr[int16](), []int16{3, 3, 3, -1}},
			{"bxor", mplite.BitXor[int16](), []int16{0, 3, 3, 1}},
			{"own", mplite.NewOp(true, func(a, b int16) int16 { return max(a, b) }), []int16{3, 2, 3, 0}},
		} {
			if got := reduceAll(c, tc.op, x); !slices.Equal(got, tc.want) {
				return fmt.Errorf("%s: %v, want %v", tc.name, got, tc.want)
			}
		}
		z := reduceAll(c, mplite.Sum[complex128](), []complex128{complex(float64(me), 1)})
		if z[0] != 3+3i {
			return fmt.Errorf("sum of complex numbers: %v", z)
		}
		return nil
	}))
}

// TestReductionsRepeat: floating-point results are the same bits on all ranks
// and in every run, though the values cannot be added exactly.
func TestReductionsRepeat(t *testing.T) {
	for _, size := range []int{3, 4, 7} {
		for _, n := range []int{1, 3000, 40_000} {
			var first []float64
			seeds(t, 2, func(seed uint64) error {
				return runJob(size, sim.Options{Seed: seed, Jitter: 100 * time.Microsecond}, small, func(c *mplite.Comm) error {
					v := make([]float64, n)
					for i := range v {
						v[i] = 1 / float64(3+i+c.Rank()*n)
					}
					v = reduceAll(c, mplite.Sum[float64](), v)
					if first == nil {
						first = v
					}
					if !slices.Equal(v, first) {
						return fmt.Errorf("%d ranks, %d elements: rank %d got other bits", size, n, c.Rank())
					}
					return nil
				})
			})
		}
	}
}

// TestContextEndsAWait: what cannot have begun yet is withdrawn and leaves no
// trace; a request survives the end of one wait for it.
func TestContextEndsAWait(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{EagerSize: 64})
	check(t, err)
	ended := canceled()
	if _, err := c.Recv(ended, make([]byte, 4), 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("receive: %v", err)
	}
	if err := c.Ssend(ended, []byte("lost"), 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("synchronous send: %v", err)
	}
	if _, found, _ := c.Iprobe(0, 1); found {
		t.Error("a withdrawn send can be probed")
	}
	r, err := c.Issend([]byte("kept"), 0, 1)
	check(t, err)
	if _, err := r.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	buf := make([]byte, 4)
	_, err = c.Recv(bg, buf, 0, 1)
	check(t, err)
	if string(buf) != "kept" {
		t.Errorf("received %q", buf)
	}
	_, err = r.Wait(bg)
	check(t, err)
	if _, err := r.Wait(bg); !errors.Is(err, mplite.ErrRequest) {
		t.Errorf("second wait: %v", err)
	}
}

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
