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
	"github.com/bobnet-go/bobnet/transport/sim"
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
				if want := "it sent a malformed message"; !contains(err, want) {
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

// intruder has joined a job of three as its last rank, by bare VIs, and says
// what it likes. It does what rank 0 asks it to.
type intruder struct {
	job   *testJob
	nic   *vipl.NIC
	vis   [2]*vipl.VI // with rank 0 and rank 1
	mem   []byte      // a message to send, what others may write to, and receives
	h     vipl.MemHandle
	send  vipl.Descriptor
	recvs [2 * intruderReceives]vipl.Descriptor
	segs  [2*intruderReceives + 1][1]vipl.Segment
	heard []mplite.Word // from rank 0
	hits  int           // writes of rank 0 that have ended
	order func() error
	err   error // of the last order
	left  int   // ranks that have finished
}

const (
	intruderReceives = 32 // for each of the others
	intruderRoom     = 2048
	windowSize       = 16 << 10
)

// greeting says that the intruder takes what other ranks do.
var greeting = mplite.Greeting("test", victim, 3, small.EagerSize, 8)

// besieged runs a job whose last rank is an intruder that says hello to rank 0.
// Rank 0 runs fn, rank 1 meanwhile runs neighbour.
func besieged(hello []byte, fn func(x *intruder, c *mplite.Comm) error, neighbour func(x *intruder, c *mplite.Comm) error) error {
	return besiegedWith(small, hello, fn, neighbour)
}

// besiegedWith does so in a job of another configuration.
func besiegedWith(cfg mplite.Config, hello []byte, fn func(x *intruder, c *mplite.Comm) error, neighbour func(x *intruder, c *mplite.Comm) error) error {
	j := newJob(3, sim.Options{}, cfg)
	x := &intruder{job: j}
	for rank, run := range []func(*intruder, *mplite.Comm) error{fn, neighbour} {
		j.host(fmt.Sprintf("rank %d", rank), func(nic *vipl.NIC) error {
			defer func() { x.left++ }()
			return j.rank(nic, rank, func(c *mplite.Comm) error {
				if err := run(x, c); err != nil {
					return err
				}
				j.stays(c, 2)
				return errKilled
			})
		})
	}
	j.host("intruder", func(nic *vipl.NIC) error {
		if err := x.join(nic, hello); err != nil {
			return err
		}
		return x.serve()
	})
	return j.runKilled()
}

func (x *intruder) join(nic *vipl.NIC, hello []byte) (err error) {
	x.nic = nic
	x.mem = make([]byte, windowSize+len(x.segs)*intruderRoom)
	if x.h, err = nic.RegisterMem(x.mem, &vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
		return err
	}
	var nonce uint64
	for rank := range x.vis {
		vi, err := nic.CreateVI(&vipl.Attributes{EnableRDMAWrite: true}, nil, nil)
		if err != nil {
			return err
		}
		x.vis[rank] = vi
		for k := range intruderReceives {
			i := rank*intruderReceives + k
			x.segs[i] = [1]vipl.Segment{{Data: x.part(i), Handle: x.h}}
			x.recvs[i] = vipl.Descriptor{Segs: x.segs[i][:]}
			if err := vi.PostRecv(&x.recvs[i]); err != nil {
				return err
			}
		}
		addr, err := nic.Lookup(bg, fmt.Sprint("job/test/", rank))
		if err != nil {
			return err
		}
		if err := vi.Connect(bg, addr, mplite.OfRun(mplite.Hello("test", victim, 3), nonce)); err != nil {
			return err
		}
		if rank == 0 {
			if nonce, err = x.learn(); err != nil {
				return err
			}
		}
	}
	for rank, body := range [][]byte{hello, mplite.OfRun(greeting, nonce)} {
		if err := x.post(x.vis[rank], mplite.Word{Kind: mplite.KindHello, Body: body}.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// learn hears from rank 0 which run of the job this is.
func (x *intruder) learn() (nonce uint64, err error) {
	d, err := x.vis[0].RecvWait(bg)
	if err != nil {
		return 0, err
	}
	w, ok := mplite.Hear(d.Segs[0].Data[:d.Length])
	if !ok || w.Kind != mplite.KindHello {
		return 0, fmt.Errorf("rank 0 began with %+v", w)
	}
	return mplite.RunOf(d.Segs[0].Data[:d.Length]), x.vis[0].PostRecv(d)
}

// part returns the memory of a receive, or of what is sent.
func (x *intruder) part(i int) []byte { return x.mem[windowSize+i*intruderRoom:][:intruderRoom] }

// window returns the memory that others may write to.
func (x *intruder) window() []byte { return x.mem[:windowSize:windowSize] }

// serve does what it is asked to until the others have finished.
func (x *intruder) serve() error {
	for x.left < len(x.vis) {
		if x.order != nil {
			x.err = x.order()
			x.order = nil
		}
		x.hear()
		x.nic.Poll()
		if err := x.job.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	return errKilled
}

// hear takes what rank 0 has sent.
func (x *intruder) hear() {
	for {
		d, err := x.vis[0].RecvDone()
		if err != nil || d.Status.Failed() {
			return
		}
		if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
			x.hits++
		} else if w, ok := mplite.Hear(d.Segs[0].Data[:d.Length]); ok {
			x.heard = append(x.heard, w)
		}
		if x.vis[0].PostRecv(d) != nil {
			return
		}
	}
}

// post sends b and sees it arrive.
func (x *intruder) post(vi *vipl.VI, b []byte) error {
	mem := x.part(len(x.recvs))
	x.segs[len(x.recvs)] = [1]vipl.Segment{{Data: mem[:copy(mem, b)], Handle: x.h}}
	x.send = vipl.Descriptor{Segs: x.segs[len(x.recvs)][:]}
	return x.posted(vi)
}

// write writes to rank 0's memory and names a receive whose data that is.
func (x *intruder) write(to vipl.RemoteSegment, size int, id uint32) error {
	x.segs[len(x.recvs)] = [1]vipl.Segment{{Data: x.part(len(x.recvs))[:size], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[len(x.recvs)][:], HasImmediate: true, Immediate: id, Remote: to}
	return x.posted(x.vis[0])
}

func (x *intruder) posted(vi *vipl.VI) error {
	if err := vi.PostSend(&x.send); err != nil {
		return err
	}
	ctx, cancel := x.nic.WithTimeout(bg, time.Second)
	defer cancel()
	_, err := vi.SendWait(ctx)
	return err
}

// does has x do something, while rank 0 computes, which then looks at what has
// come of it.
func (x *intruder) does(c *mplite.Comm, what func() error) error {
	x.order = what
	if err := x.job.computes(c, func() bool { return x.order == nil }); err != nil {
		return err
	}
	for range 4 {
		c.Iprobe(c.Rank(), 0)
	}
	if err := x.job.computesFor(c, time.Millisecond); err != nil { // x hears the answers
		return err
	}
	return x.err
}

// says has x send words, one after the other.
func (x *intruder) says(c *mplite.Comm, words ...mplite.Word) error {
	for _, w := range words {
		if err := x.does(c, func() error { return x.post(x.vis[0], w.Bytes()) }); err != nil {
			return fmt.Errorf("%+v: %w", w, err)
		}
	}
	return nil
}

// last returns what x has heard last, which must be of a kind.
func (x *intruder) last(c *mplite.Comm, kind uint8) (w mplite.Word, err error) {
	if err := x.does(c, func() error { return nil }); err != nil {
		return w, err
	}
	if n := len(x.heard); n > 0 {
		w = x.heard[n-1]
	}
	if w.Kind != kind {
		return w, fmt.Errorf("%+v came last, want kind %d", w, kind)
	}
	return w, nil
}

// within is a context that ends soon.
func within(c *mplite.Comm, d time.Duration) (context.Context, context.CancelFunc) {
	return c.NIC().WithTimeout(bg, d)
}

// counts wants so many strays since before.
func counts(c *mplite.Comm, before, want uint64) error {
	if got := c.Snapshot().Strays - before; got != want {
		return fmt.Errorf("%d strays, want %d", got, want)
	}
	return nil
}

// Ranks that keep the credits which others need, or spend some that they do not
// have: what waits for them, and what they send, must not grow without bound.

// answersMax is how many may wait for a rank: as many as there are data credits
// before it gets no more of those, and then one for each that it still has. The
// next message is the end of it.
func answersMax(cfg mplite.Config) int { return 2*cfg.Credits + 1 }

// TestHoardedCredits: a rank returns no control credits and sends on, whether it
// may or not. It is dead before much has gathered.
func TestHoardedCredits(t *testing.T) {
	for name, forge := range map[string]mplite.Word{
		"synchronous": {Kind: mplite.KindEager, Flags: mplite.FlagSync},
		"announced":   {Kind: mplite.KindReady, Size: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
				until, err := c.Irecv(nil, victim, 1)
				for id := uint32(0); err == nil; id++ {
					if got := mplite.Unsaid(c, victim); got > answersMax(small) || id == 1000 {
						return fmt.Errorf("after %d messages %d answers wait, want %d at most", id, got, answersMax(small))
					}
					if _, err := c.Irecv(nil, victim, 0); err != nil {
						return err
					}
					w := forge
					w.SendID = id
					said := x.says(c, w)
					if _, done, why := until.Test(); done {
						return overspent(why)
					}
					err = said
				}
				return err
			}, idle))
		})
	}
}

// TestUnexpectedOverspent: a rank sends messages that nobody receives, more than
// there is room for.
func TestUnexpectedOverspent(t *testing.T) {
	check(t, besiegedWith(noSpill, greeting, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Irecv(nil, victim, 1)
		if err != nil {
			return err
		}
		for range noSpill.Credits + 1 {
			if err := x.says(c, mplite.Word{Kind: mplite.KindEager}); err != nil {
				return err
			}
		}
		_, err = r.Wait(bg)
		return overspent(err)
	}, idle))
}

// overspent wants an error to say that the victim has sent too much.
func overspent(err error) error {
	if err := blames("receive", err); err != nil {
		return err
	}
	if want := "it sent more messages than its credits allow"; !contains(err, want) {
		return fmt.Errorf("%w, want %q", err, want)
	}
	return nil
}

// TestManyAnswers: two ranks owe each other many more answers than may wait. All
// get through, though neither gives receive buffers back meanwhile.
func TestManyAnswers(t *testing.T) {
	const messages = 400
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		other := 1 - c.Rank()
		var reqs []mplite.Request
		for i := range messages {
			r, err := c.Irecv(make([]byte, 3000), other, i)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		for i := range messages {
			r, err := c.Issend(content(i%2*3000, uint64(i)), other, i)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		most := 0
		err := j.computes(c, func() bool {
			done, err := mplite.Testall(reqs, nil)
			most = max(most, mplite.Unsaid(c, other))
			return done || err != nil
		})
		// Besides, a write for each message that it has announced.
		if limit := answersMax(small) + messages/2; err == nil && most > limit {
			err = fmt.Errorf("%d answers waited, want %d at most", most, limit)
		}
		return err
	})
	check(t, j.run())
}

// TestGuessedTarget: a rank that has guessed where another one has been cleared
// to write, address and handle, cannot write there: it ends its own connection,
// and what the other one sends arrives.
func TestGuessedTarget(t *testing.T) {
	const long = 5000
	guessed := false
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		if _, err := c.Probe(bg, 1, 3); err != nil {
			return err
		}
		buf := make([]byte, long)
		cleared, err := c.Irecv(buf, 1, 3)
		if err != nil {
			return err
		}
		to := mplite.ClearedTo(cleared)
		if to.Addr != vipl.VirtualAddress(buf) || to.Handle == 0 {
			return fmt.Errorf("the buffer at %#x is cleared at %+v", vipl.VirtualAddress(buf), to)
		}
		garbage := x.part(len(x.recvs))[:100]
		for i := range garbage {
			garbage[i] = 0xA5
		}
		attack := x.does(c, func() error { return x.write(to, len(garbage), 9) })
		if !bytes.Equal(buf, make([]byte, long)) {
			return errors.New("it has written into the buffer of another one's message")
		}
		if attack == nil {
			return errors.New("its write has ended as if it had been allowed")
		}
		_, err = c.Recv(bg, nil, victim, 0)
		if err := blames("receive", err); err != nil {
			return err
		}
		guessed = true
		if _, err := cleared.Wait(bg); err != nil {
			return err
		}
		return same(buf, 3)
	}, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Isend(content(long, 3), 0, 3)
		if err != nil {
			return err
		}
		if err := x.job.computes(c, func() bool { return guessed }); err != nil {
			return err
		}
		_, err = r.Wait(bg)
		return err
	}))
}

// TestTagsGivenBack: a rank gives all protection tags back that it has taken of a
// NIC that is not its own.
func TestTagsGivenBack(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	for rank := range j.size {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			if err := j.rank(nic, rank, func(c *mplite.Comm) error { return around(c, 1) }); err != nil {
				return err
			}
			for range nic.Query().MaxPtags {
				if _, err := nic.CreatePtag(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, j.run())
}
