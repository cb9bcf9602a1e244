package mplite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// shape is a vector's, and where its elements are in the slice.
type shape struct{ count, block, stride, length int }

func randomShape(rng *rand.Rand, elements int) shape {
	s := shape{block: 1 + rng.IntN(4), length: 1}
	for elements%s.block != 0 {
		s.block--
	}
	s.count = elements / s.block
	s.stride = s.block + rng.IntN(4)
	if s.count > 0 {
		s.length = (s.count-1)*s.stride + s.block + rng.IntN(3)
	}
	return s
}

// places are the indices of the elements, said as simply as possible.
func (s shape) places() (at []int) {
	for i := range s.count {
		for k := range s.block {
			at = append(at, i*s.stride+k)
		}
	}
	return at
}

// vectorSenders are the ways to send a vector to rank 1.
func vectorSenders[T any](c *mplite.Comm) []func(v mplite.Vector[T]) error {
	done := func(r mplite.Request, err error) error {
		if err == nil {
			_, err = r.Wait(bg)
		}
		return err
	}
	started := func(r mplite.Request, err error) error {
		if err == nil {
			err = r.Start()
		}
		return done(r, err)
	}
	return []func(v mplite.Vector[T]) error{
		func(v mplite.Vector[T]) error { return v.Send(bg, c, 1, 5) },
		func(v mplite.Vector[T]) error { return v.Ssend(bg, c, 1, 5) },
		func(v mplite.Vector[T]) error { return done(v.Isend(c, 1, 5)) },
		func(v mplite.Vector[T]) error { return done(v.Issend(c, 1, 5)) },
		func(v mplite.Vector[T]) error { return started(v.SendInit(c, 1, 5)) },
		func(v mplite.Vector[T]) error { return started(v.SsendInit(c, 1, 5)) },
		func(v mplite.Vector[T]) error { // and nothing from rank 1
			_, err := v.Sendrecv(bg, c, 1, 5, mplite.Vector[T]{}, mplite.None, 5)
			return err
		},
		func(v mplite.Vector[T]) error {
			packed := make([]T, v.Len())
			v.Pack(packed)
			return mplite.Send(bg, c, packed, 1, 5)
		},
	}
}

// vectorReceivers are the ways to receive one from rank 0.
func vectorReceivers[T any](c *mplite.Comm) []func(v mplite.Vector[T]) (mplite.Status, error) {
	return []func(v mplite.Vector[T]) (mplite.Status, error){
		func(v mplite.Vector[T]) (mplite.Status, error) { return v.Recv(bg, c, 0, 5) },
		func(v mplite.Vector[T]) (mplite.Status, error) {
			r, err := v.Irecv(c, 0, 5)
			if err != nil {
				return mplite.Status{}, err
			}
			return r.Wait(bg)
		},
		func(v mplite.Vector[T]) (mplite.Status, error) {
			r, err := v.RecvInit(c, 0, 5)
			if err == nil {
				err = r.Start()
			}
			if err != nil {
				return mplite.Status{}, err
			}
			return r.Wait(bg)
		},
		func(v mplite.Vector[T]) (mplite.Status, error) {
			return mplite.Vector[T]{}.Sendrecv(bg, c, mplite.None, 5, v, 0, 5)
		},
		func(v mplite.Vector[T]) (mplite.Status, error) {
			packed := make([]T, v.Len())
			st, err := mplite.Recv(bg, c, packed, 0, 5)
			v.Unpack(packed)
			return st, err
		},
	}
}

// TestVectors sends vectors of random shapes, by every form, to vectors of other
// shapes: each element arrives at its place, and nothing else changes.
func TestVectors(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		return runJob(2, sim.Options{Seed: seed, Loss: 0.01}, small, func(c *mplite.Comm) error {
			return errors.Join(
				vectors(c, seed, func(i int) byte { return byte(i) }),
				vectors(c, seed, func(i int) int32 { return int32(-i) }),
				vectors(c, seed, func(i int) float64 { return float64(i) / 3 }),
				vectors(c, seed, func(i int) complex128 { return complex(float64(i), -1) }),
				vectors(c, seed, cellOf),
			)
		})
	})
}

func vectors[T comparable](c *mplite.Comm, seed uint64, element func(i int) T) error {
	rng := rand.New(rand.NewPCG(seed, 11)) // the same at both ranks
	send, recv := vectorSenders[T](c), vectorReceivers[T](c)
	for form := range len(send) * len(recv) {
		n := rng.IntN(1200)
		from, to := randomShape(rng, n), randomShape(rng, n)
		var err error
		if c.Rank() == 0 {
			buf := make([]T, from.length)
			for i := range buf {
				buf[i] = element(i)
			}
			var v mplite.Vector[T]
			if v, err = mplite.NewVector(buf, from.count, from.block, from.stride); err == nil {
				err = send[form%len(send)](v)
			}
		} else {
			err = receiveVector(recv[form/len(send)], from, to, element)
		}
		if err != nil {
			return fmt.Errorf("form %d, %+v to %+v: %w", form, from, to, err)
		}
	}
	return nil
}

func receiveVector[T comparable](recv func(v mplite.Vector[T]) (mplite.Status, error), from, to shape, element func(i int) T) error {
	buf := make([]T, to.length)
	for i := range buf {
		buf[i] = element(200 + i)
	}
	want := slices.Clone(buf)
	places := from.places()
	for i, at := range to.places() {
		want[at] = element(places[i])
	}
	v, err := mplite.NewVector(buf, to.count, to.block, to.stride)
	if err != nil {
		return err
	}
	st, err := recv(v)
	if err != nil || mplite.Elements[T](st) != len(places) || !slices.Equal(buf, want) {
		return fmt.Errorf("got %+v, %w", st, err)
	}
	return nil
}

// TestVectorsOfOthers: vectors are judged as slices are, their byte order is put
// right, and shorter and longer messages do what is said.
func TestVectorsOfOthers(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		column := func(buf []uint32) mplite.Vector[uint32] {
			v, err := mplite.NewVector(buf, len(buf)/3, 1, 3)
			if err != nil {
				panic(err)
			}
			return v
		}
		for _, n := range []int{4, 2000} {
			numbers := make([]uint32, 3*n)
			for i := range numbers {
				numbers[i] = uint32(i)
			}
			if c.Rank() == 0 {
				mplite.SetForeign(c, true)
				out := column(mplite.Foreign(numbers))
				err := errors.Join(out.Send(bg, c, 1, 1), out.Send(bg, c, 1, 2), out.Send(bg, c, 1, 3))
				if err := errors.Join(err, c.Send(bg, mplite.Bytes(numbers[:1])[:3], 1, 4)); err != nil {
					return err
				}
				continue
			}
			got := make([]uint32, 3*n)
			if st, err := column(got).Recv(bg, c, 0, 1); err != nil || st.Count != 4*n || got[3*(n-1)] != uint32(3*(n-1)) || got[1] != 0 {
				return fmt.Errorf("%d numbers of another byte order: %+v, %v, %w", n, st, got[:9], err)
			}
			if _, err := mplite.Recv(bg, c, make([]float32, n), 0, 2); !errors.Is(err, mplite.ErrType) {
				return fmt.Errorf("a vector received as floats: %w", err)
			}
			clear(got)
			if _, err := column(got[:3*(n-1)]).Recv(bg, c, 0, 3); !errors.Is(err, mplite.ErrTruncate) || got[3*(n-2)] != uint32(3*(n-2)) || got[3*(n-1)] != 0 {
				return fmt.Errorf("too long a vector: %v, %w", got, err)
			}
			got[0], got[3] = 0xffffffff, 7
			if st, err := column(got).Recv(bg, c, 0, 4); err != nil || st.Count != 3 || !slices.Contains([]uint32{0xff000000, 0xff}, got[0]) || got[3] != 7 {
				return fmt.Errorf("part of an element: %+v, %x, %w", st, got[0], err)
			}
		}
		return nil
	}))
}

// TestNewVector: what does not lie in the slice, or on itself, is refused.
func TestNewVector(t *testing.T) {
	buf := make([]int, 10)
	const huge = 1 << 62
	for _, s := range []shape{{4, 1, 3, 0}, {2, 5, 5, 0}, {1, 10, 0, 0}, {0, 7, -3, 0}, {7, 0, 1, 0}, {10, 1, 1, 0}} {
		v, err := mplite.NewVector(buf, s.count, s.block, s.stride)
		if err != nil || v.Len() != s.count*s.block {
			t.Errorf("%+v: %d elements, %v", s, v.Len(), err)
		}
	}
	for _, s := range []shape{{5, 1, 3, 0}, {2, 5, 6, 0}, {2, 3, 2, 0}, {1, 11, 0, 0}, {-1, 1, 1, 0}, {1, -1, 1, 0}, {huge, 1, 4, 0}, {2, 1, huge, 0}, {huge, huge, huge, 0}} {
		if _, err := mplite.NewVector(buf, s.count, s.block, s.stride); !errors.Is(err, mplite.ErrArgument) {
			t.Errorf("%+v: %v, want ErrArgument", s, err)
		}
	}
	if _, err := mplite.NewVector([]string{""}, 1, 1, 1); !errors.Is(err, mplite.ErrType) {
		t.Errorf("strings: %v", err)
	}
}

// TestCanceledVector: a receive that is cancelled, or that its rank's death ends,
// changes nothing, and staging memory is bounded.
func TestCanceledVector(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	buf := []int{1, 2, 3, 4}
	v, err := mplite.NewVector(buf, 2, 1, 2)
	check(t, err)
	r, err := v.Irecv(c, 0, 1)
	check(t, err)
	r.Cancel()
	if st, err := r.Wait(bg); !st.Canceled || err != nil || !slices.Equal(buf, []int{1, 2, 3, 4}) {
		t.Errorf("%+v, %v, %v", st, err, buf)
	}
	var reqs []mplite.Request
	big := make([]byte, 5<<20)
	wide, err := mplite.NewVector(big, 1, len(big), 0)
	check(t, err)
	for range 5 {
		r, err := wide.Irecv(c, 0, 1)
		check(t, err)
		reqs = append(reqs, r)
	}
	for _, r := range reqs {
		r.Cancel()
	}
	check(t, mplite.Waitall(bg, reqs, nil))
	if kept := mplite.Staged(c); kept == 0 || kept > 16<<20 {
		t.Errorf("%d bytes of staging memory are kept", kept)
	}
}

// TestSendrecvReplace: a ring of it moves what is in the buffers on, and None
// leaves them alone.
func TestSendrecvReplace(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		check(t, runJob(size, sim.Options{}, small, func(c *mplite.Comm) error {
			next, prev := (c.Rank()+1)%size, (c.Rank()+size-1)%size
			for _, n := range []int{0, 100, 4000} {
				buf, numbers := content(n, uint64(c.Rank())), []float64{float64(c.Rank()), 0.5}
				st, err := c.SendrecvReplace(bg, buf, next, 1, prev, mplite.AnyTag)
				if want := (mplite.Status{Source: prev, Tag: 1, Count: n}); err != nil || st != want {
					return fmt.Errorf("%d bytes: %+v, %w", n, st, err)
				}
				if err := same(buf, uint64(prev)); err != nil {
					return err
				}
				if _, err := mplite.SendrecvReplace(bg, c, numbers, prev, 2, next, 2); err != nil || numbers[0] != float64(next) {
					return fmt.Errorf("numbers: %v, %w", numbers, err)
				}
				if st, err := c.SendrecvReplace(bg, buf, mplite.None, 1, mplite.None, 1); err != nil || st != fromNone {
					return fmt.Errorf("none: %+v, %w", st, err)
				}
				if err := same(buf, uint64(prev)); err != nil {
					return err
				}
			}
			if _, err := mplite.SendrecvReplace(bg, c, []string{""}, next, 2, prev, 2); !errors.Is(err, mplite.ErrType) {
				return fmt.Errorf("strings: %w", err)
			}
			_, err := c.SendrecvReplace(bg, nil, size, 1, prev, 1)
			if !errors.Is(err, mplite.ErrRank) {
				return fmt.Errorf("rank %d of %d: %w", size, size, err)
			}
			return nil
		}))
	}
}
