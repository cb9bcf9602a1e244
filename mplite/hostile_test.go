package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// A rank that is not what it says: whatever it sends is counted or ends the
// connection with it, and nothing happens to the others.

// idle is a neighbour that takes no part.
func idle(*intruder, *mplite.Comm) error { return nil }

// TestOthersRequests: a rank that names another one's requests, in all the ways
// there are to end one, ends none.
func TestOthersRequests(t *testing.T) {
	const long = 5000
	over := false
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		if _, err := c.Probe(bg, 1, 3); err != nil {
			return err
		}
		bufs := [][]byte{make([]byte, long), make([]byte, 10)}
		cleared, err1 := c.Irecv(bufs[0], 1, 3)
		posted, err2 := c.Irecv(bufs[1], 1, 4)
		announced, err3 := c.Isend(content(long, 1), 1, 1)
		unmatched, err4 := c.Issend(content(10, 2), 1, 2)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		before, n := c.Snapshot().Strays, uint32(c.Snapshot().Requests)+2
		for id := range n {
			if err := x.says(c, mplite.Word{Kind: mplite.KindClear, SendID: id, Size: 8, Addr: vipl.VirtualAddress(x.window()), Handle: uint32(x.h)},
				mplite.Word{Kind: mplite.KindDone, SendID: id}, mplite.Word{Kind: mplite.KindNack, RecvID: id}); err != nil {
				return err
			}
			if err := x.does(c, func() error { return x.write(vipl.RemoteSegment{}, 0, id) }); err != nil {
				return err
			}
		}
		if err := counts(c, before, 4*uint64(n)); err != nil {
			return err
		}
		over = true
		if err := mplite.Waitall(bg, []mplite.Request{cleared, posted, announced, unmatched}, nil); err != nil {
			return err
		}
		return errors.Join(same(bufs[0], 3), same(bufs[1], 4))
	}, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Isend(content(long, 3), 0, 3)
		if err != nil {
			return err
		}
		if err := x.job.computes(c, func() bool { return over }); err != nil {
			return err
		}
		bufs := [][]byte{make([]byte, long), make([]byte, 10)}
		for i, buf := range bufs {
			if _, err := c.Recv(bg, buf, 0, 1+i); err != nil {
				return err
			}
		}
		if err := c.Send(bg, content(10, 4), 0, 4); err != nil {
			return err
		}
		_, err = r.Wait(bg)
		return errors.Join(err, same(bufs[0], 1), same(bufs[1], 2))
	}))
}

// TestClearOfTooMuch: a receiver that asks for more than was announced to it
// gets nothing, even if the buffer goes on in memory.
func TestClearOfTooMuch(t *testing.T) {
	whole := content(10_000, 1)
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		for _, tc := range []struct {
			size uint64
			hits int
		}{{5001, 0}, {10_000, 0}, {1 << 46, 0}, {5000, 1}, {1, 2}} {
			clear(x.window())
			r, err := c.Isend(whole[:5000], victim, 1)
			if err != nil {
				return err
			}
			w, err := x.last(c, mplite.KindReady)
			if err != nil {
				return err
			}
			if err := x.says(c, mplite.Word{Kind: mplite.KindClear, SendID: w.SendID, Size: tc.size, Addr: vipl.VirtualAddress(x.window()), Handle: uint32(x.h)}); err != nil {
				return err
			}
			if _, done, err := r.Test(); !done || err != nil {
				return fmt.Errorf("after a clear for %d bytes: %v, %w", tc.size, done, err)
			}
			want := make([]byte, windowSize)
			if tc.size <= 5000 {
				copy(want, whole[:tc.size])
			}
			if x.hits != tc.hits || !bytes.Equal(x.window(), want) {
				return fmt.Errorf("after a clear for %d bytes %d writes have come, want %d, or other bytes", tc.size, x.hits, tc.hits)
			}
		}
		return counts(c, 0, 0)
	}, idle))
}

// TestAnswersToAnAbandonedSend: a sender has given up before its message was
// asked for. It says so, once, to who asks, and nothing else ends that.
func TestAnswersToAnAbandonedSend(t *testing.T) {
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		clears := func(w mplite.Word, size uint64) error {
			return x.says(c, mplite.Word{Kind: mplite.KindClear, SendID: w.SendID, RecvID: 9, Size: size, Addr: vipl.VirtualAddress(x.window()), Handle: uint32(x.h)})
		}
		r, err := c.Isend(make([]byte, 5000), victim, 1) // its record serves the next send
		if err != nil {
			return err
		}
		w, err := x.last(c, mplite.KindReady)
		if err != nil {
			return err
		}
		if err := clears(w, 5000); err != nil {
			return err
		}
		if _, err := r.Wait(bg); err != nil {
			return err
		}
		ctx, cancel := within(c, time.Millisecond)
		defer cancel()
		if err := mplite.Send(ctx, c, make([]uint64, 1000), victim, 1); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if w, err = x.last(c, mplite.KindReady); err != nil {
			return err
		}
		if err := x.says(c, mplite.Word{Kind: mplite.KindNack, RecvID: w.SendID}); err != nil {
			return err
		}
		if err := x.does(c, func() error { return x.write(vipl.RemoteSegment{}, 0, w.SendID) }); err != nil {
			return err
		}
		if err := counts(c, 0, 2); err != nil {
			return fmt.Errorf("what is for receives only: %w", err)
		}
		if err := clears(w, 100); err != nil {
			return err
		}
		if w, err := x.last(c, mplite.KindNack); err != nil || w.RecvID != 9 {
			return fmt.Errorf("the answer is %+v: %w", w, err)
		}
		if err := clears(w, 100); err != nil {
			return err
		}
		return counts(c, 0, 3)
	}, idle))
}

// TestFalseReports: a report that a rank is dead which there is not, or which
// hears it itself, is counted; one of its sender is believed.
func TestFalseReports(t *testing.T) {
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		for _, rank := range []int32{-1, math.MinInt32, 3, math.MaxInt32, 0} {
			if err := x.says(c, mplite.Word{Kind: mplite.KindFail, Tag: rank}); err != nil {
				return err
			}
		}
		if failed := c.Snapshot().RanksFailed; failed != 0 {
			return fmt.Errorf("%d ranks are dead", failed)
		}
		if err := counts(c, 0, 5); err != nil {
			return err
		}
		if err := x.says(c, mplite.Word{Kind: mplite.KindFail, Tag: victim}); err != nil {
			return err
		}
		_, err := c.Recv(bg, nil, victim, 0)
		return blames("receive", err)
	}, idle))
}

// TestGarbled: what no rank sends ends the connection with its sender, and
// nothing else.
func TestGarbled(t *testing.T) {
	patched := func(at int, with byte, w mplite.Word) []byte {
		b := w.Bytes()
		b[at] = with
		return b
	}
	eager := mplite.Word{Kind: mplite.KindEager}
	for name, b := range map[string][]byte{
		"too short":          eager.Bytes()[:31],
		"no kind":            mplite.Word{}.Bytes(),
		"kind beyond":        mplite.Word{Kind: mplite.KindEnd}.Bytes(),
		"flags beyond":       patched(1, 8, eager),
		"unit of 3":          patched(2, 3, eager),
		"not zero":           patched(6, 1, eager),
		"tag below 0":        mplite.Word{Kind: mplite.KindEager, Tag: -1}.Bytes(),
		"less than it says":  mplite.Word{Kind: mplite.KindEager, Size: 6, Body: make([]byte, 5)}.Bytes(),
		"ready for too much": mplite.Word{Kind: mplite.KindReady, Size: 1<<46 + 1}.Bytes(),
		"clear for too much": mplite.Word{Kind: mplite.KindClear, Size: 1<<46 + 1}.Bytes(),
		"clear for nowhere":  mplite.Word{Kind: mplite.KindClear}.Bytes()[:32],
		"hello again":        mplite.Word{Kind: mplite.KindHello, Body: greeting}.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
				r, err := c.Irecv(nil, victim, 0)
				if err != nil {
					return err
				}
				if err := x.does(c, func() error { return x.post(x.vis[0], b) }); err != nil {
					return err
				}
				_, err = r.Wait(bg)
				if err := blames("receive", err); err != nil {
					return err
				}
				if want := "it sent a message that is not one"; !contains(err, want) {
					return fmt.Errorf("receive: %w, want %q", err, want)
				}
				return c.Send(bg, nil, 1, 1)
			}, func(x *intruder, c *mplite.Comm) error {
				_, err := c.Recv(bg, nil, 0, 1)
				return err
			}))
		})
	}
}

// TestFalseHello: a rank that says first what cannot be ends Init for the
// others, which name it.
func TestFalseHello(t *testing.T) {
	for name, hello := range map[string][]byte{
		"another rank": mplite.Greeting("test", 1, 3, 1024, 8),
		"no room":      mplite.Greeting("test", victim, 3, 1024, 1),
		"small room":   mplite.Greeting("test", victim, 3, 63, 8),
		"another job":  mplite.Greeting("toast", victim, 3, 1024, 8),
		"another size": mplite.Greeting("test", victim, 4, 1024, 8),
	} {
		t.Run(name, func(t *testing.T) {
			err := besieged(hello, idle, idle)
			check(t, blames("init", err))
		})
	}
}
