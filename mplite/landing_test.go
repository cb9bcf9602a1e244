package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// between are sizes between those of eager messages and those that are always announced.
var between = []int{17 << 10, 65_535, 65_536, 65_537, 128 << 10, 200_000}

// TestLanding: once a receiver has been told of some messages of a size between, each further one
// goes by one message, in each direction of a ping-pong, without a credit message. The answer carries its
// acknowledgement, so that nothing else wakes the sender of a message of several frames.
func TestLanding(t *testing.T) {
	const rounds = 20
	for _, size := range append([]int{256 << 10}, between...) {
		check(t, runJob(2, sim.Options{MTU: 65_535}, mplite.Config{EagerSize: 16 << 10}, func(c *mplite.Comm) error {
			exchange := func(id uint64) error {
				buf := make([]byte, size)
				for i := range 2 {
					if c.Rank() == i {
						if err := c.Send(bg, content(size, id), 1-i, 0); err != nil {
							return err
						}
					} else if _, err := c.Recv(bg, buf, i, 0); err != nil {
						return err
					} else if err := same(buf, id); err != nil {
						return err
					}
				}
				return nil
			}
			for id := range uint64(8) {
				if err := exchange(id); err != nil {
					return err
				}
			}
			acks := func() (n uint64) {
				for _, vi := range c.NIC().Snapshot().VIs {
					n += vi.BareAcks
				}
				return n
			}
			before, ackedBare := c.Snapshot(), acks()
			for id := range uint64(rounds) {
				if err := exchange(id); err != nil {
					return err
				}
			}
			s := c.Snapshot()
			if s.LandingSent-before.LandingSent != rounds || s.RendezvousSent != before.RendezvousSent || s.CreditMessages != before.CreditMessages {
				return fmt.Errorf("of %d messages of %d bytes %d have landed, %d were announced, and %d messages returned credits", rounds, size,
					s.LandingSent-before.LandingSent, s.RendezvousSent-before.RendezvousSent, s.CreditMessages-before.CreditMessages)
			}
			if n := acks() - ackedBare; size > 65_535 && n > 1 { // the last one has no answer
				return fmt.Errorf("%d of %d messages of %d bytes were acknowledged by a frame of its own", n, rounds, size)
			}
			return nil
		}))
	}
}

// TestLandingLoss: messages of the sizes between arrive whole, in order and once over a network that loses,
// reorders, duplicates and corrupts frames.
func TestLandingLoss(t *testing.T) {
	seeds(t, 3, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.05, Dup: 0.02, Corrupt: 0.01, Delay: 2000, Bandwidth: 10e9}
		return runJob(3, opts, mplite.Config{}, func(c *mplite.Comm) error {
			next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			for id := range uint64(5) {
				for _, size := range between {
					buf := make([]byte, size)
					st, err := c.Sendrecv(bg, content(size, id), next, int(id), buf, prev, int(id))
					if err != nil || st.Count != size {
						return fmt.Errorf("%d bytes: %+v, %w", size, st, err)
					}
					if err := same(buf, id); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// TestLandingUnexpected: messages that land before their receives, more of them than there is room for, are
// received by any tag in any order, and room that they have left is used again.
func TestLandingUnexpected(t *testing.T) {
	const messages, size = 30, 70_000
	check(t, runJob(2, sim.Options{}, mplite.Config{EagerSize: 1024}, func(c *mplite.Comm) error {
		for round := range 3 {
			if c.Rank() == 0 {
				var reqs []mplite.Request
				for tag := range messages {
					r, err := c.Isend(content(size, uint64(tag)), 1, tag)
					if err != nil {
						return err
					}
					reqs = append(reqs, r)
				}
				if err := mplite.Waitall(bg, reqs, nil); err != nil {
					return err
				}
				if err := c.Barrier(bg); err != nil {
					return err
				}
				continue
			}
			if _, err := c.Probe(bg, 0, messages-1); err != nil { // all are here, or announced
				return err
			}
			buf := make([]byte, size)
			for i := range messages {
				tag := (i*7 + round) % messages
				if _, err := c.Recv(bg, buf, 0, tag); err != nil {
					return err
				}
				if err := same(buf, uint64(tag)); err != nil {
					return fmt.Errorf("tag %d: %w", tag, err)
				}
			}
			if err := c.Barrier(bg); err != nil {
				return err
			}
		}
		s := c.Snapshot()
		if c.Rank() == 0 && (s.LandingSent < 8 || s.RendezvousSent < messages) {
			return fmt.Errorf("%d messages have landed and %d were announced", s.LandingSent, s.RendezvousSent)
		}
		return nil
	}))
}

// TestLandingFlood: many ranks flood one that does not receive. Its memory stays bounded, nobody fails, and
// all arrives when it does.
func TestLandingFlood(t *testing.T) {
	ranks, size := 12, 64<<10
	if need.Full() {
		ranks = 64
	}
	const messages = 12
	j := newJob(ranks, sim.Options{Bandwidth: 10e9, Delay: 2000}, mplite.Config{EagerSize: 1024, Credits: 8})
	j.start(func(c *mplite.Comm) error {
		if c.Rank() > 0 {
			var reqs []mplite.Request
			for id := range uint64(messages) {
				r, err := c.Isend(content(size, id), 0, 0)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
				if id == 2 { // the receiver has granted landing memory
					if _, err := c.Recv(bg, nil, 0, 1); err != nil {
						return err
					}
				}
			}
			return mplite.Waitall(bg, reqs, nil)
		}
		buf := make([]byte, size)
		for from := 1; from < ranks; from++ {
			for id := range uint64(3) {
				if _, err := c.Recv(bg, buf, from, 0); err != nil {
					return err
				}
				if err := same(buf, id); err != nil {
					return err
				}
			}
		}
		for to := 1; to < ranks; to++ {
			if err := c.Send(bg, nil, to, 1); err != nil {
				return err
			}
		}
		for range 20 {
			if err := j.computesFor(c, time.Millisecond); err != nil {
				return err
			}
			if _, _, err := c.Iprobe(1, 2); err != nil { // takes in what has come
				return err
			}
		}
		if n := mplite.Landings(c); n == 0 || n > mplite.LandTotal {
			return fmt.Errorf("%d bytes of landing memory, want some and %d at most", n, mplite.LandTotal)
		}
		if s := c.Snapshot(); s.SpillBytes > 64<<20 || s.RanksFailed > 0 {
			return fmt.Errorf("%d bytes are spilled, %d ranks have failed", s.SpillBytes, s.RanksFailed)
		}
		for from := ranks - 1; from > 0; from-- {
			for id := uint64(3); id < messages; id++ {
				if _, err := c.Recv(bg, buf, from, 0); err != nil {
					return err
				}
				if err := same(buf, id); err != nil {
					return fmt.Errorf("from rank %d: %w", from, err)
				}
			}
		}
		return nil
	})
	check(t, j.run())
}

// TestHostileLanding: a rank that writes to landing memory what it may not is dead, and nobody else is.
func TestHostileLanding(t *testing.T) {
	const mark = 1 << 31
	eager := mplite.Word{Kind: mplite.KindEager, Size: 8, Body: make([]byte, 8)}.Bytes()
	for _, tc := range []struct {
		name  string
		slots []uint32 // one after the other
		at    int      // of the write
		bytes []byte
	}{
		{"slot beyond", []uint32{8}, 0, eager},
		{"any slot", []uint32{1<<31 - 1}, 0, eager},
		{"slot in use", []uint32{0, 0}, 0, eager},
		{"nothing", []uint32{0}, 0, nil},
		{"no message", []uint32{0}, 0, make([]byte, 100)},
		{"too short", []uint32{0}, 0, eager[:20]},
		{"announcement", []uint32{0}, 0, mplite.Word{Kind: mplite.KindReady, Size: 20_000}.Bytes()},
		{"synchronous", []uint32{0}, 0, mplite.Word{Kind: mplite.KindEager, Flags: mplite.FlagSync}.Bytes()},
		{"other size", []uint32{0}, 0, append(eager[:len(eager):len(eager)], 1)},
		{"another slot's memory", []uint32{1}, 0, eager}, // where nothing has come
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
				at, err := x.granted(c)
				if err != nil {
					return err
				}
				r, err := c.Irecv(nil, victim, 9)
				if err != nil {
					return err
				}
				copy(x.part(len(x.recvs)), tc.bytes)
				for _, slot := range tc.slots {
					to := vipl.RemoteSegment{Addr: at.Addr + uint64(tc.at), Handle: vipl.MemHandle(at.Handle)}
					if err := x.does(c, func() error { return x.write(to, len(tc.bytes), mark|slot) }); err != nil {
						return err
					}
				}
				_, err = r.Wait(bg)
				return errors.Join(blames("receive", err), c.Send(bg, nil, 1, 1))
			}, func(_ *intruder, c *mplite.Comm) error {
				_, err := c.Recv(bg, nil, 0, 1)
				return err
			}))
		})
	}
}

// TestFalseSlots: a rank that returns slots which it has not been sent is dead.
func TestFalseSlots(t *testing.T) {
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Irecv(nil, victim, 9)
		if err != nil {
			return err
		}
		b := mplite.Word{Kind: mplite.KindEager}.Bytes()
		b[2] = 1
		if err := x.does(c, func() error { return x.post(x.vis[0], b) }); err != nil {
			return err
		}
		_, err = r.Wait(bg)
		return blames("receive", err)
	}, idle))
}

// granted has rank 0 grant landing memory to the intruder, and returns where.
func (x *intruder) granted(c *mplite.Comm) (w mplite.Word, err error) {
	var reqs []mplite.Request
	for id := range uint32(2) {
		r, err := c.Irecv(make([]byte, 20_000), victim, 0)
		if err == nil {
			err = x.says(c, mplite.Word{Kind: mplite.KindReady, Size: 20_000, SendID: id})
		}
		if err != nil {
			return w, err
		}
		reqs = append(reqs, r)
	}
	if w, err = x.last(c, mplite.KindLand); err != nil {
		return w, err
	}
	for _, h := range x.heard {
		if h.Kind == mplite.KindClear {
			if err := x.says(c, mplite.Word{Kind: mplite.KindNack, RecvID: h.RecvID}); err != nil {
				return w, err
			}
		}
	}
	for _, r := range reqs {
		if _, err := r.Wait(bg); !errors.Is(err, mplite.ErrCanceled) {
			return w, fmt.Errorf("a receive whose message was withdrawn: %w", err)
		}
	}
	return w, nil
}
