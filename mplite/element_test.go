package mplite_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// cell has padding after alive and after level, and fields of every class.
type cell struct {
	alive bool
	_     [2]byte
	level int32
	mass  float64
	field complex64
	flows [3]struct {
		to   uint16
		rate float32
	}
	id byte
}

func cellOf(i int) cell {
	c := cell{alive: i%2 == 0, level: int32(-i), mass: 1 / float64(i+1), field: complex(float32(i), -1), id: byte(i)}
	for k := range c.flows {
		c.flows[k].to, c.flows[k].rate = uint16(i*k), float32(k)/3
	}
	return c
}

// TestStructElements sends structs through each typed form, between like and
// unlike byte orders, eager and not.
func TestStructElements(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, n := range []int{0, 1, 7, 1000} {
			for _, foreign := range []bool{false, true} { // is rank 0
				want := make([]cell, n)
				for i := range want {
					want[i] = cellOf(i)
				}
				if err := throughAll(c, want, foreign); err != nil {
					return fmt.Errorf("%d structs, rank 0 foreign: %v: %w", n, foreign, err)
				}
			}
		}
		return nil
	}))
}

// throughAll sends want from rank 0 to rank 1 and, in the last form, back. Rank
// 0 has it as its memory has it.
func throughAll(c *mplite.Comm, want []cell, foreign bool) error {
	send, recv, mine := senders[cell](c), receivers[cell](c), want
	if c.Rank() == 0 {
		mplite.SetForeign(c, foreign)
		if foreign {
			mine = mplite.Foreign(want)
		}
	}
	for form := range max(len(send), len(recv)) {
		var err error
		if c.Rank() == 0 {
			err = send[form%len(send)](mine)
		} else {
			err = recv[form%len(recv)](want)
		}
		if err != nil {
			return fmt.Errorf("form %d: %w", form, err)
		}
	}
	return nil
}

type point struct{ x, y, z float64 }

// TestRowsOfNumbers: what is nothing but numbers of one kind is that many of
// them.
func TestRowsOfNumbers(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	points := []point{{1, 2, 3}, {4, 5, 6}}
	check(t, mplite.Send(bg, c, points, 0, 0))
	flat := make([]float64, 6)
	st, err := mplite.Recv(bg, c, flat, 0, 0)
	if want := []float64{1, 2, 3, 4, 5, 6}; err != nil || !slices.Equal(flat, want) || mplite.Elements[point](st) != 2 {
		t.Errorf("points arrived as %v, %+v, %v", flat, st, err)
	}
	check(t, mplite.Send(bg, c, flat, 0, 0))
	rows := make([][2]float64, 3)
	if _, err := mplite.Recv(bg, c, rows, 0, 0); err != nil || rows[2] != [2]float64{5, 6} {
		t.Errorf("numbers arrived as %v, %v", rows, err)
	}
	check(t, mplite.Send(bg, c, []float64{}, 0, 0))
	if st, err := mplite.Recv(bg, c, make([]int16, 1), 0, 0); err != nil || st.Count != 0 {
		t.Errorf("no numbers arrived as %+v, %v", st, err)
	}
	check(t, mplite.Send(bg, c, [][2]byte{{1, 2}, {3, 4}}, 0, 0)) // bytes are bytes
	word := make([]uint32, 1)
	if _, err := mplite.Recv(bg, c, word, 0, 0); err != nil {
		t.Error(err)
	}
}

// typed is a way to send and one to receive a hundred elements of a type.
type typed struct {
	name string
	size int
	send func(c *mplite.Comm, dst int) error
	recv func(c *mplite.Comm, src int) (untouched bool, st mplite.Status, err error)
}

func typedAs[T comparable](name string) typed {
	var zero T
	return typed{
		name: name, size: int(unsafe.Sizeof(zero)),
		send: func(c *mplite.Comm, dst int) error { return mplite.Ssend(bg, c, make([]T, 100), dst, 3) },
		recv: func(c *mplite.Comm, src int) (bool, mplite.Status, error) {
			buf := make([]T, 200)
			for i := range mplite.Bytes(buf) {
				mplite.Bytes(buf)[i] = 1
			}
			st, err := mplite.Recv(bg, c, buf, src, 3)
			return !slices.ContainsFunc(mplite.Bytes(buf), func(b byte) bool { return b != 1 }), st, err
		},
	}
}

// allTyped has every kind of element, each matching itself alone.
var allTyped = []typed{
	typedAs[int8]("int8"), typedAs[int16]("int16"), typedAs[int32]("int32"), typedAs[int64]("int64"),
	typedAs[uint16]("uint16"), typedAs[uint32]("uint32"), typedAs[uint64]("uint64"),
	typedAs[float32]("float32"), typedAs[float64]("float64"), typedAs[complex64]("complex64"), typedAs[complex128]("complex128"),
	typedAs[bool]("bool"), typedAs[cell]("a struct of signature"),
	typedAs[struct {
		a int32
		b float64
	}]("a struct of signature"),
	typedAs[struct {
		a float64
		b int32
	}]("a struct of signature"),
}

// TestElementsMustAgree: a message whose elements are of another kind than the
// receive's is refused, by name, whether it came before the receive or not and
// eager or not; the buffer stays as it is, the sender goes on, and so do later
// messages.
func TestElementsMustAgree(t *testing.T) {
	for _, eager := range []int{64, 4096} { // none is eager, or all are
		check(t, runJob(2, sim.Options{}, mplite.Config{EagerSize: eager}, func(c *mplite.Comm) error {
			for i, from := range allTyped {
				for k, to := range allTyped {
					if c.Rank() == 0 {
						if err := from.send(c, 1); err != nil {
							return err
						}
						continue
					}
					if k%2 == 0 {
						if _, err := c.Probe(bg, 0, 3); err != nil {
							return err
						}
					}
					untouched, st, err := to.recv(c, 0)
					switch {
					case i == k && (err != nil || st.Count != 100*from.size):
						return fmt.Errorf("%s received as itself: %+v, %v", from.name, st, err)
					case i != k && (!untouched || st.Count != 0 || !errors.Is(err, mplite.ErrType) || !contains(err, from.name) || !contains(err, "wants "+to.name)):
						return fmt.Errorf("%s received as %s: %+v, %v, untouched: %v", from.name, to.name, st, err, untouched)
					}
				}
			}
			return nil
		}))
	}
}

// TestBytesMatchEverything: what is sent or received as bytes is not judged, and
// keeps its byte order.
func TestBytesMatchEverything(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, n := range []int{3, 2000} {
			want := make([]float64, n)
			for i := range want {
				want[i] = float64(i) / 7
			}
			if c.Rank() == 0 {
				mplite.SetForeign(c, true)
				if err := errors.Join(mplite.Send(bg, c, want, 1, 1), c.Send(bg, mplite.Bytes(want), 1, 2)); err != nil {
					return err
				}
				continue
			}
			raw, got := make([]byte, 8*n), make([]float64, n)
			_, err := c.Recv(bg, raw, 0, 1)
			_, err2 := mplite.Recv(bg, c, got, 0, 2)
			if err := errors.Join(err, err2); err != nil || !slices.Equal(raw, mplite.Bytes(want)) || !slices.Equal(got, want) {
				return fmt.Errorf("%d numbers through bytes: %v", n, err)
			}
		}
		return nil
	}))
}

// TestNoElements: types that no other process can understand are refused, and
// the error names the field.
func TestNoElements(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	defer c.Finalize(bg)
	for _, tc := range []struct {
		err  error
		text string
	}{
		{mplite.Send(bg, c, []string{"a"}, 0, 0), "string is a string"},
		{mplite.Ssend(bg, c, []*int{nil}, 0, 0), "*int is a ptr"},
		{second(mplite.Recv(bg, c, []any{1}, 0, 0)), "is a interface"},
		{second(mplite.Recv(bg, c, []struct{}{{}}, 0, 0)), "has no size"},
		{third(mplite.Isend(c, []struct{ _ int }{{}}, 0, 0)), "nothing but padding"},
		{third(mplite.Issend(c, []struct{ a [2]struct{ s []int } }{{}}, 0, 0)), ".a[0].s is a slice"},
		{third(mplite.Irecv(c, []map[int]int{nil}, 0, 0)), "is a map"},
		{second(mplite.Sendrecv(bg, c, []func(){nil}, 0, 0, []func(){nil}, 0, 0)), "is a func"},
		{mplite.Send(bg, c, make([][5000]struct {
			a int8
			b int16
		}, 1), 0, 0), "more than 4096 changes"},
	} {
		if !errors.Is(tc.err, mplite.ErrType) || !strings.Contains(tc.err.Error(), tc.text) {
			t.Errorf("got %v, want ErrType with %q", tc.err, tc.text)
		}
	}
	if _, found, err := c.Iprobe(0, mplite.AnyTag); found || err != nil {
		t.Errorf("something was sent: %v, %v", found, err)
	}
}

func third(_ mplite.Request, err error) error { return err }
