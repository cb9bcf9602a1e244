package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostileRank: a rank that sends messages which are right, or nearly so, and
// writes where it was allowed to, or nearly there, breaks nothing: operations
// with it end when it has gone, those of the others are not disturbed, and
// memory beyond the buffers stays as it was.
func TestHostileRank(t *testing.T) {
	const end = 9 // the tag that ends the echo
	seeds(t, 40, func(seed uint64) error {
		return besieged(greeting, func(x *intruder, c *mplite.Comm) error {
			m := &mutants{x: x, rng: rand.New(rand.NewPCG(seed, 3))}
			alive := true
			for i := range 100 {
				if alive {
					if err := m.operate(c); err != nil {
						alive = false
					}
					alive = x.does(c, m.attack) == nil && alive
				}
				if i%10 == 0 {
					if err := echoed(c, uint64(i)); err != nil {
						return err
					}
				}
			}
			if err := x.does(c, func() error { return x.vis[0].Disconnect() }); err != nil {
				return err
			}
			return errors.Join(m.over(c), echoed(c, seed), c.Send(bg, nil, 1, end))
		}, func(_ *intruder, c *mplite.Comm) error {
			buf := make([]byte, 3000)
			for {
				st, err := c.Recv(bg, buf, 0, mplite.AnyTag)
				if err != nil || st.Tag == end {
					return err
				}
				if err := c.Send(bg, buf[:st.Count], 0, st.Tag); err != nil {
					return err
				}
			}
		})
	})
}

// echoed has rank 1 send back messages, eager and not.
func echoed(c *mplite.Comm, id uint64) error {
	for _, n := range []int{100, 3000} {
		buf := make([]byte, n)
		if _, err := c.Sendrecv(bg, content(n, id), 1, 1, buf, 1, 1); err != nil {
			return fmt.Errorf("among the others: %w", err)
		}
		if err := same(buf, id); err != nil {
			return fmt.Errorf("among the others: %w", err)
		}
	}
	return nil
}

// mutants are what an intruder sends, and what rank 0 does meanwhile.
type mutants struct {
	x      *intruder
	rng    *rand.Rand
	reqs   []mplite.Request
	arenas [][]byte // each with a receive buffer in its midst
}

const mutantGuard = 64 // bytes before and behind a receive buffer

// operate starts an operation with the intruder.
func (m *mutants) operate(c *mplite.Comm) error {
	n, tag := m.rng.IntN(3000), m.rng.IntN(3)
	var r mplite.Request
	var err error
	switch m.rng.IntN(3) {
	case 0:
		r, err = c.Isend(make([]byte, n), victim, tag)
	case 1:
		r, err = c.Issend(make([]byte, n), victim, tag)
	default:
		arena := bytes.Repeat([]byte{0xA5}, n+2*mutantGuard)
		m.arenas = append(m.arenas, arena)
		r, err = c.Irecv(arena[mutantGuard:][:n], victim, tag)
	}
	if err == nil {
		m.reqs = append(m.reqs, r)
	}
	return err
}

// over wants all operations to end, and nothing to be written beside the buffers.
func (m *mutants) over(c *mplite.Comm) error {
	ctx, cancel := within(c, time.Second)
	defer cancel()
	for _, r := range m.reqs {
		if _, err := r.Wait(ctx); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("an operation with a rank that has gone: %w", err)
		}
	}
	guard := bytes.Repeat([]byte{0xA5}, mutantGuard)
	for _, b := range m.arenas {
		if !bytes.HasPrefix(b, guard) || !bytes.HasSuffix(b, guard) {
			return fmt.Errorf("memory beside a buffer of %d bytes was written", len(b)-2*mutantGuard)
		}
	}
	_, err := c.Recv(ctx, nil, victim, 5)
	return blames("receive", err)
}

// attack sends a message, or writes.
func (m *mutants) attack() error {
	r, x := m.rng, m.x
	for i, w := range x.heard {
		if w.Kind == mplite.KindClear && r.IntN(6) == 0 {
			x.heard[i].Kind = 0 // once, most of the time
			size := min(int(w.Size), intruderRoom-1) * (1 + r.IntN(2)) / 2
			if r.IntN(40) == 0 {
				x.heard[i], size = w, size+1
			}
			return x.write(vipl.RemoteSegment{Addr: w.Addr, Handle: vipl.MemHandle(w.Handle)}, size, w.RecvID)
		}
	}
	kinds := []uint8{mplite.KindEager, mplite.KindReady, mplite.KindReady, mplite.KindClear, mplite.KindClear, mplite.KindDone, mplite.KindNack}
	w := mplite.Word{
		Kind: kinds[r.IntN(len(kinds))], Flags: uint8(r.IntN(8)), Tag: int32(r.IntN(3)), SendID: uint32(r.IntN(20)), RecvID: uint32(r.IntN(20)),
		Size: uint64(r.IntN(4000)), Addr: vipl.VirtualAddress(x.window()), Handle: uint32(x.h),
	}
	switch {
	case w.Kind == mplite.KindEager:
		w.Body = make([]byte, r.IntN(1000))
		w.Size = uint64(len(w.Body))
	case r.IntN(20) == 0:
		w.Size = r.Uint64N(1 << 46)
	}
	b := w.Bytes()
	b[3], b[4] = uint8(r.IntN(3)), uint8(r.IntN(3)) // credits
	if r.IntN(60) == 0 {
		b[1+r.IntN(len(b)-1)] ^= 1 << r.IntN(8) // another kind could be the end of rank 1, or of all
	}
	return x.post(x.vis[0], b)
}
