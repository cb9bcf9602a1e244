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
