package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// bell is a duo with a listener at b's side whose requests cq announces, and to
// which b's queues are bound.
type bell struct {
	*duo
	cq      *vipl.CQ
	l       *vipl.Listener
	callers []*vipl.VI // of a, in the order in which they have asked
}

func newBell(t *testing.T, entries int) *bell {
	d, cq := boundPair(t, entries)
	l, err := d.nb.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Bind(cq); err != nil {
		t.Fatal(err)
	}
	return &bell{duo: d, cq: cq, l: l}
}

// call has new VIs ask at the listener.
func (b *bell) call(count int) {
	b.t.Helper()
	for range count {
		v, err := b.na.CreateVI(nil, nil, nil)
		if err == nil {
			err = v.ConnectStart(b.l.Addr(), nil)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.callers = append(b.callers, v)
		b.nb.Poll() // answers by a token
		b.na.Poll()
		b.nb.Poll()
	}
}

// message has one arrive at b.
func (b *bell) message() {
	b.t.Helper()
	b.post(b.b, 8)
	b.send(b.a, 8)
	b.run()
}

// from wants a request to be caller i's.
func (b *bell) from(i int, r *vipl.Request, err error) {
	b.t.Helper()
	if err != nil || r == nil || r.Remote() != b.callers[i].Local() || r.Listener() != b.l {
		b.t.Fatalf("request %v, %v; want that of caller %d", r, err, i)
	}
}

// next wants Done to return an entry of the listener, or of b's receive queue.
func (b *bell) next(listener bool) {
	b.t.Helper()
	v, recv, err := b.cq.Done()
	if err != nil || listener != (v == nil) || !listener && (v != b.b || !recv) {
		b.t.Fatalf("entry %p, %v, %v; want the listener's: %v", v, recv, err, listener)
	}
}

// nothing wants Done to return that there is none.
func (b *bell) nothing() {
	b.t.Helper()
	if v, recv, err := b.cq.Done(); err != vipl.ErrNotDone {
		b.t.Fatalf("entry %p, %v, %v; want ErrNotDone", v, recv, err)
	}
}

// TestBind: Done gives one entry for each request, in turn with completions.
func TestBind(t *testing.T) {
	b := newBell(t, 8)
	b.message()
	b.call(1)
	b.message()
	b.next(false)
	b.next(true)
	r, err := b.l.Poll()
	b.from(0, r, err)
	b.next(false)
	b.nothing()
	b.call(2)
	for i := 1; i < 3; i++ {
		b.next(true)
		r, err := b.l.Poll()
		b.from(i, r, err)
	}
	b.nothing()
}

// TestBindReap takes requests and completions by one call, in order. The
// listener's next request has its turn behind what has come meanwhile.
func TestBindReap(t *testing.T) {
	b := newBell(t, 8)
	b.call(2)
	b.message()
	q := seam.OnQueue(b.cq, 8)
	out, err := q.ReapWait(bg)
	if len(out) != 3 || err != nil {
		t.Fatalf("ReapWait = %+v, %v", out, err)
	}
	b.from(0, out[0].Request, nil)
	b.from(1, out[2].Request, nil)
	if c := out[0]; c.VI != nil || c.Descriptor != nil || c.Err != nil {
		t.Errorf("a request came with %+v", c)
	}
	if c := out[1]; c.Request != nil || c.VI != b.b || !c.Recv || c.Descriptor == nil {
		t.Errorf("a receive came as %+v", c)
	}
	if out, err := q.Poll(); len(out) != 0 || err != vipl.ErrNotDone {
		t.Errorf("Poll of nothing = %d, %v", len(out), err)
	}
}

// TestBindTaken: entries of requests that somebody has taken are passed over,
// and later ones are announced again.
func TestBindTaken(t *testing.T) {
	b := newBell(t, 8)
	b.call(3)
	for i := range 3 {
		r, err := b.l.Poll()
		b.from(i, r, err)
	}
	b.nothing()
	b.call(2)
	r, err := b.l.Poll()
	b.from(3, r, err)
	b.next(true)
	b.nothing()
	if out, err := seam.OnQueue(b.cq, 4).Poll(); len(out) != 0 || err != vipl.ErrNotDone {
		t.Errorf("Poll = %d, %v; the entry has been taken", len(out), err)
	}
	r, err = b.l.Poll()
	b.from(4, r, err)
}

// TestBindFull: a CQ that is full of completions still announces every request,
// and announcements take no place of completions.
func TestBindFull(t *testing.T) {
	b := newBell(t, 2)
	b.call(2)
	for range 3 {
		b.message()
	}
	b.call(3)
	if n := b.nb.Snapshot().CQOverruns; n != 1 {
		t.Errorf("%d overruns counted, want 1: of the third message", n)
	}
	if q := b.cq.Query(); q != (vipl.CQAttributes{Entries: 2, Used: 2, WorkQueues: 2, Listeners: 1}) {
		t.Errorf("%+v", q)
	}
	out, err := seam.OnQueue(b.cq, 16).Poll()
	if err != nil {
		t.Fatal(err)
	}
	messages, requests := 0, 0
	for _, c := range out {
		if c.Request == nil {
			messages++
			continue
		}
		b.from(requests, c.Request, nil)
		requests++
	}
	if messages != 2 || requests != 5 {
		t.Errorf("%d messages, %d requests; want 2 and 5", messages, requests)
	}
}

// TestBindNotify: handlers get one request each, with a nil VI.
func TestBindNotify(t *testing.T) {
	b := newBell(t, 8)
	b.call(1)
	asked := 0
	handle := func(v *vipl.VI, recv bool) {
		if v != nil || recv {
			t.Errorf("told of %p, %v", v, recv)
		}
		r, err := b.l.Poll()
		b.from(asked, r, err)
		asked++
	}
	for i := range 3 {
		if err := b.cq.Notify(handle); err != nil {
			t.Fatal(err)
		}
		if i == 0 && asked != 1 {
			t.Error("the request that was there is not told of at once")
		}
	}
	b.call(4)
	if asked != 3 {
		t.Errorf("three handlers were told %d times", asked)
	}
	for i := 3; i < 5; i++ {
		b.next(true)
		r, err := b.l.Poll()
		b.from(i, r, err)
	}
	b.nothing()
}

// TestBindAgain binds a listener that has requests, moves it to another queue
// and takes it away.
func TestBindAgain(t *testing.T) {
	b := newBell(t, 8)
	first := b.cq
	if err := b.l.Bind(nil); err != nil {
		t.Fatal(err)
	}
	b.call(2)
	b.nothing()
	if err := b.l.Bind(first); err != nil {
		t.Fatal(err)
	}
	b.next(true)
	var err error
	if b.cq, err = b.nb.CreateCQ(1); err != nil {
		t.Fatal(err)
	}
	if err := b.l.Bind(b.cq); err != nil {
		t.Fatal(err)
	}
	if v, _, err := first.Done(); err != vipl.ErrNotDone {
		t.Errorf("the queue that the listener has left: %v, %v", v, err)
	}
	for i := range 2 { // both wait still, and are announced again
		b.next(true)
		r, err := b.l.Poll()
		b.from(i, r, err)
	}
	b.nothing()
	if a, b := first.Query(), b.cq.Query(); a.Listeners != 0 || b.Listeners != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestBindClose: a closed listener leaves the queue, with its entries, and the
// queue cannot be closed before.
func TestBindClose(t *testing.T) {
	b := newBell(t, 8)
	b.message()
	b.call(2)
	b.message()
	b.b.Close() // its entries go, the listener's stay
	b.next(true)
	if err := b.cq.Close(); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("with a listener bound: %v, want ErrResource", err)
	}
	b.call(1)
	if err := b.l.Close(); err != nil {
		t.Fatal(err)
	}
	b.nothing()
	if err := b.l.Bind(b.cq); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("bind a closed listener: %v", err)
	}
	if err := b.cq.Close(); err != nil {
		t.Errorf("after the listener: %v", err)
	}
	l, err := b.nb.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := b.na.CreateCQ(1)
	for _, q := range []*vipl.CQ{b.cq, foreign} {
		if err := l.Bind(q); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("closed or foreign queue: %v", err)
		}
	}
}

// TestBindNICClose: nothing is announced any more, and the queue can be closed.
func TestBindNICClose(t *testing.T) {
	b := newBell(t, 8)
	b.call(2)
	b.nb.Close()
	if v, _, err := b.cq.Done(); !errors.Is(err, vipl.ErrClosed) || v != nil {
		t.Errorf("Done: %v, %v", v, err)
	}
	if err := b.cq.Close(); err != nil {
		t.Error(err)
	}
	if err := b.l.Bind(nil); !errors.Is(err, vipl.ErrClosed) {
		t.Error(err)
	}
}

// TestBindAnyOrder has requests and messages come in any order, some requests
// taken by Poll, the queue resized and the listener bound anew meanwhile: reaping
// gives the rest of them, each once and in order.
func TestBindAnyOrder(t *testing.T) {
	seeds(t, 60, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		b := newBell(t, 4)
		l := b.l
		asked, messages, got := 0, 0, 0
		q := seam.OnQueue(b.cq, 3)
		took := func(r *vipl.Request) error {
			if r.Remote() != b.callers[asked].Local() {
				return fmt.Errorf("request %d is %v's, want %v's", asked, r.Remote(), b.callers[asked].Local())
			}
			asked++
			return nil
		}
		reap := func() (int, error) {
			out, err := q.Poll()
			if err != nil && err != vipl.ErrNotDone {
				return 0, err
			}
			for _, c := range out {
				if c.Request == nil {
					got++
				} else if err := took(c.Request); err != nil {
					return len(out), err
				}
			}
			return len(out), nil
		}
		for range 60 {
			var err error
			switch rng.IntN(8) {
			case 0, 1:
				b.call(1 + rng.IntN(4))
			case 2, 3:
				if q := b.cq.Query(); q.Used < q.Entries {
					b.message()
					messages++
				}
			case 4, 5:
				_, err = reap()
			case 6:
				if r, none := l.Poll(); none == nil {
					err = took(r)
				}
			case 7:
				if err = b.cq.Resize(max(b.cq.Query().Used, 1+rng.IntN(9))); err == nil && rng.IntN(3) == 0 {
					err = l.Bind(b.cq)
				}
			}
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
		for {
			if n, err := reap(); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			} else if n == 0 {
				break
			}
		}
		if asked != len(b.callers) || got != messages {
			return fmt.Errorf("seed %d: %d of %d requests, %d of %d messages", seed, asked, len(b.callers), got, messages)
		}
		return nil
	})
}

// TestBindWakes has a server wait for everything in one place, without a time
// limit: a request wakes it when it arrives, not later, and so does the first
// message.
func TestBindWakes(t *testing.T) {
	const calm, soon = 3 * time.Second, time.Millisecond
	for name, wait := range map[string]func(q *vipl.CQ, l *vipl.Listener) (*vipl.Request, *vipl.Descriptor, error){
		"ReapWait": func(q *vipl.CQ, _ *vipl.Listener) (*vipl.Request, *vipl.Descriptor, error) {
			out, err := seam.OnQueue(q, 1).ReapWait(bg)
			if err != nil {
				return nil, nil, err
			}
			return out[0].Request, out[0].Descriptor, nil
		},
		"Wait": func(q *vipl.CQ, l *vipl.Listener) (r *vipl.Request, d *vipl.Descriptor, err error) {
			v, _, err := q.Wait(bg)
			if err != nil {
				return nil, nil, err
			}
			if v == nil {
				r, err = l.Poll()
				return r, nil, err
			}
			d, err = v.RecvDone()
			return nil, d, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 1})
			asked, sent := int64(0), int64(0)
			station := w.node("server", nil, func(n *vipl.NIC) error {
				l, q, v, err := oneWait(n)
				if err != nil {
					return err
				}
				r, _, err := wait(q, l)
				if err != nil || r == nil {
					return fmt.Errorf("request %v, %w", r, err)
				}
				if late := time.Duration(n.Now() - asked); late > soon {
					return fmt.Errorf("woken %v after the request was sent", late)
				}
				if err := r.AcceptStart(v); err != nil {
					return err
				}
				_, d, err := wait(q, l)
				if late := time.Duration(n.Now() - sent); err != nil || d == nil || late > soon {
					return fmt.Errorf("message %v, %w, after %v", d, err, late)
				}
				driveFor(n, time.Second)
				return nil
			})
			w.node("client", nil, func(n *vipl.NIC) error {
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				driveFor(n, calm)
				asked = n.Now()
				if err := v.Connect(bg, ethertype.Addr{MAC: station.MAC(), Port: service}, nil); err != nil {
					return err
				}
				driveFor(n, calm)
				sent = n.Now()
				return sendAll(v, 1, 8, 1)
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// oneWait makes a listener and a VI with a posted receive, both of one CQ.
func oneWait(n *vipl.NIC) (l *vipl.Listener, q *vipl.CQ, v *vipl.VI, err error) {
	if q, err = n.CreateCQ(8); err != nil {
		return nil, nil, nil, err
	}
	if v, err = n.CreateVI(nil, q, q); err != nil {
		return nil, nil, nil, err
	}
	in, err := newBuffers(n, 1, 8)
	if err != nil {
		return nil, nil, nil, err
	}
	if l, err = n.Listen(service); err != nil {
		return nil, nil, nil, err
	}
	return l, q, v, errors.Join(v.PostRecv(&in.descs[0]), l.Bind(q))
}

// TestBindFollower: who waits at the queue is woken although another goroutine
// drives the NIC, and waits for something else.
func TestBindFollower(t *testing.T) {
	var nics [2]*vipl.NIC
	for side := range nics {
		var err error
		if nics[side], err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm"}); err != nil {
			t.Fatal(err)
		}
		defer nics[side].Close()
	}
	n := nics[0]
	idle, err := n.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := n.CreateCQ(1)
	if err := l.Bind(q); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	go idle.Wait(ctx)
	until := func(led bool, followers int) {
		within(t, "the wait", func() error {
			for {
				if a, b := n.Waiting(); a == led && b == followers {
					return nil
				}
				runtime.Gosched()
			}
		})
	}
	until(true, 0)
	reaped := make(chan error, 1)
	go func() {
		out, err := seam.OnQueue(q, 1).ReapWait(bg)
		if err != nil || out[0].Request == nil {
			reaped <- fmt.Errorf("%+v, %w", out, err)
			return
		}
		reaped <- out[0].Request.Reject("heard")
	}()
	until(true, 1)
	v, _ := nics[1].CreateVI(nil, nil, nil)
	if err := v.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	within(t, "the waiter", func() error { return <-reaped })
}

// TestBindAllocations wants nothing allocated for a message that is reaped from
// a queue with a listener.
func TestBindAllocations(t *testing.T) {
	b := newBell(t, 8)
	in, _ := newBuffers(b.nb, 4, 64)
	out, _ := newBuffers(b.na, 1, 64)
	for i := range in.descs {
		if err := b.b.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	q := seam.OnQueue(b.cq, 4)
	received := 0
	round := func() {
		if err := b.a.PostSend(&out.descs[0]); err != nil {
			t.Fatal(err)
		}
		for sent, got := false, false; !sent || !got; {
			if reaped, err := q.Poll(); err == nil {
				received += len(reaped)
				got = true
				b.b.PostRecv(reaped[0].Descriptor)
			}
			if _, err := b.a.SendDone(); err == nil {
				sent = true
			}
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
	if received != 301 {
		t.Errorf("%d messages, want 301", received)
	}
}
