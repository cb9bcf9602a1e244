package mplite_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

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
