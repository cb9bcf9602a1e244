package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var nobody = ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 9, 9, 9}, Port: 77}

// modes are the ways in which a NIC's engine can be driven.
var modes = []struct {
	name string
	cfg  vipl.Config
}{
	{"Spin", vipl.Config{}},
	{"Block", vipl.Config{Spin: -1}},
	{"BlockNoService", vipl.Config{Spin: -1, NoService: true}},
}

// TestManyWaiters has many goroutines wait on many VIs of two NICs. Leadership
// passes from hand to hand, and nobody is left asleep.
func TestManyWaiters(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			nics := vethNICs(t, 1500, m.cfg, nil)
			rounds := 300
			if !need.Full() {
				rounds = 60
			}
			var work [2][]func() error
			for i := range 6 {
				a, b := join(t, nics, &vipl.Attributes{Reliability: reliableLevels[i%2]})
				there, back := newFlow(t, a, b, rounds, 10+i*700, uint64(i)), newFlow(t, b, a, rounds, 2000-i*300, uint64(i)+100)
				work[0] = append(work[0], there.send, back.receive)
				work[1] = append(work[1], there.receive, back.send)
			}
			var through atomic.Int32
			side := func(i int) error {
				err := all(work[i]...)
				for through.Add(1); through.Load() < 2; runtime.Gosched() { // the other side may need acknowledgements
					nics[i].Poll()
				}
				return err
			}
			within(t, "the traffic", func() error {
				return all(func() error { return side(0) }, func() error { return side(1) })
			})
		})
	}
}

// TestHandOver completes the waits of the leader and of the follower that is
// next in line at the same moment, if it can, so that leadership has to pass
// on to a third, again and again.
func TestHandOver(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{Spin: -1, NoService: true}, nil)
	var vis [3]*vipl.VI
	var outs [3]*buffers
	peers := [3]*vipl.VI{}
	for i := range vis {
		vis[i], peers[i] = join(t, nics, nil)
		outs[i], _ = newBuffers(nics[1], 1, 8)
	}
	post := func(i int) error {
		if _, err := peers[i].SendWait(bg); err != nil && err != vipl.ErrQueueEmpty {
			return err
		}
		return peers[i].PostSend(&outs[i].descs[0])
	}
	within(t, "a follower", func() error {
		for range 300 {
			var got [3]chan error
			for i, v := range vis {
				in, err := newBuffers(nics[0], 1, 8)
				if err != nil {
					return err
				}
				if err := v.PostRecv(&in.descs[0]); err != nil {
					return err
				}
				got[i] = make(chan error, 1)
				go func() {
					_, err := v.RecvWait(bg)
					got[i] <- err
				}()
				runtime.Gosched()
			}
			err := errors.Join(post(0), post(1), <-got[0], <-got[1], post(2), <-got[2])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestFollowerDeadline lets calls time out while another goroutine sleeps on
// the link as the leader, with nothing to wake it.
func TestFollowerDeadline(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			nics := vethNICs(t, 1500, m.cfg, nil)
			v, err := nics[0].CreateVI(nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			in, _ := newBuffers(nics[0], 1, 8)
			if err := v.PostRecv(&in.descs[0]); err != nil {
				t.Fatal(err)
			}
			led := make(chan error, 1)
			waits := seam.Link(nics[0]).Stats().Waits
			go func() {
				_, err := v.RecvWait(bg)
				led <- err
			}()
			for seam.Link(nics[0]).Stats().Waits == waits { // without a service: until it leads and sleeps
				runtime.Gosched()
			}
			within(t, "an echo to nobody", func() error {
				if _, err := nics[0].Echo(bg, nobody, 8); !errors.Is(err, vipl.ErrTimeout) {
					return err
				}
				return nil
			})
			within(t, "a lookup of nobody", func() error {
				ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
				defer cancel()
				if _, err := nics[0].Lookup(ctx, "nobody"); !errors.Is(err, vipl.ErrNameService) {
					return err
				}
				return nil
			})
			nics[0].Close()
			within(t, "the leader", func() error {
				if err := <-led; !errors.Is(err, vipl.ErrDescriptor) { // flushed
					return err
				}
				return nil
			})
		})
	}
}

// waits are the calls that block, each in a state where it has nothing to
// return. call runs one.
type waits struct {
	name string
	call func(ctx context.Context) error
}

func blockingCalls(t *testing.T, nics [2]*vipl.NIC) []waits {
	n := nics[0]
	a, b := join(t, nics, nil)
	cq, err := n.CreateCQ(4)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	fresh, _ := n.CreateVI(nil, nil, nil)
	in, _ := newBuffers(n, 1, 8)
	if err := a.PostRecv(&in.descs[0]); err != nil {
		t.Fatal(err)
	}
	_ = b
	return []waits{
		{"RecvWait", func(ctx context.Context) error { _, err := a.RecvWait(ctx); return err }},
		{"CQ.Wait", func(ctx context.Context) error { _, _, err := cq.Wait(ctx); return err }},
		{"Listener.Wait", func(ctx context.Context) error { _, err := l.Wait(ctx); return err }},
		{"Connect", func(ctx context.Context) error { return fresh.Connect(ctx, nobody, nil) }},
	}
}

// TestContext ends each blocking call by cancellation and by deadline, alone
// and while others wait too.
func TestContext(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			calls := blockingCalls(t, vethNICs(t, 1500, m.cfg, nil))
			end := func(c waits) error {
				ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
				defer cancel()
				if err := c.call(ctx); !errors.Is(err, vipl.ErrTimeout) {
					return fmt.Errorf("%s, deadline: %w", c.name, err)
				}
				ctx, cancel = context.WithCancel(bg)
				time.AfterFunc(5*time.Millisecond, cancel)
				if err := c.call(ctx); !errors.Is(err, vipl.ErrTimeout) || !errors.Is(err, context.Canceled) {
					return fmt.Errorf("%s, cancelled: %w", c.name, err)
				}
				if err := c.call(ctx); !errors.Is(err, vipl.ErrTimeout) {
					return fmt.Errorf("%s, cancelled before: %w", c.name, err)
				}
				return nil
			}
			quiet, err := vethNICs(t, 1500, m.cfg, nil)[0].CreateCQ(1) // no connection, so no keepalive wakes the sleeper
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, waits{"CQ.Wait on a quiet NIC", func(ctx context.Context) error { _, _, err := quiet.Wait(ctx); return err }})
			var together []func() error
			for _, c := range calls {
				within(t, c.name, func() error { return end(c) })
				together = append(together, func() error { return end(c) })
			}
			within(t, "all at once", func() error { return all(together...) })
		})
	}
}

// TestNICCloseWakesWaiters closes a NIC with every kind of waiter on it.
func TestNICCloseWakesWaiters(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for range 5 {
				nics := vethNICs(t, 1500, m.cfg, nil)
				calls := blockingCalls(t, nics)
				work := []func() error{nics[0].Close, nics[0].Close}
				for _, c := range calls {
					work = append(work, func() error {
						err := c.call(bg)
						if c.name == "RecvWait" && errors.Is(err, vipl.ErrDescriptor) { // first it gives the descriptor back
							err = c.call(bg)
						}
						if !errors.Is(err, vipl.ErrClosed) && !(c.name == "Connect" && errors.Is(err, vipl.ErrDisconnected)) {
							return fmt.Errorf("%s returned %w", c.name, err)
						}
						return nil
					})
				}
				within(t, "a waiter", func() error { return all(work...) })
			}
		})
	}
}

// TestServiceMakesProgress lets nobody call into one NIC: its service
// goroutine receives, acknowledges, takes RDMA writes and answers connection
// requests and echoes.
func TestServiceMakesProgress(t *testing.T) {
	for _, cfg := range []vipl.Config{{}, {Spin: -1}} {
		nics := vethNICs(t, 1500, cfg, nil)
		a, b := join(t, nics, &vipl.Attributes{EnableRDMAWrite: true})
		const count, size = 40, 5000
		in := &inbox{count: count, size: size, seed: 1}
		if err := in.post(b); err != nil {
			t.Fatal(err)
		}
		window, _ := newBuffers(nics[1], 1, size)
		l, err := nics[1].Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "the active side", func() error {
			if err := sendAll(a, count, size, 1); err != nil {
				return err
			}
			out, _ := newBuffers(nics[0], 1, size)
			content(3, 3, out.mem)
			out.descs[0].Op, out.descs[0].Remote = vipl.OpRDMAWrite, vipl.RemoteSegment{Addr: vipl.VirtualAddress(window.mem), Handle: window.h}
			if err := a.PostSend(&out.descs[0]); err != nil {
				return err
			}
			if err := drain(a); err != nil {
				return err
			}
			if _, err := nics[0].Echo(bg, nics[1].Addr(), 64); err != nil {
				return err
			}
			wrong := l.Addr()
			wrong.Port += 100
			v, err := nics[0].CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := v.Connect(bg, wrong, nil); !errors.Is(err, vipl.ErrNoMatch) {
				return fmt.Errorf("request to no listener: %w", err)
			}
			return v.ConnectStart(l.Addr(), []byte("hello"))
		})
		if err := in.receive(b); err != nil {
			t.Error(err)
		}
		if err := check(3, 3, window.mem); err != nil {
			t.Error("RDMA write:", err)
		}
		within(t, "the request", func() error {
			r, err := l.Wait(bg)
			if err == nil && string(r.Data()) != "hello" {
				err = fmt.Errorf("private data %q", r.Data())
			}
			return err
		})
	}
}

// withQueue runs fn, as a process of a simulated world, with a completion queue.
func withQueue(t *testing.T, fn func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ)) {
	t.Helper()
	w := sim.New(sim.Options{})
	station := w.Station("waits")
	w.Go("waits", func() {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station})
		if err != nil {
			t.Error(err)
			return
		}
		defer nic.Close()
		cq, err := nic.CreateCQ(4)
		if err != nil {
			t.Error(err)
			return
		}
		fn(w, nic, cq)
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestWaitSinceLimit: its time and the context's are told apart, whichever is first.
func TestWaitSinceLimit(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		q := seam.OnQueue(cq, 1)
		q.Reap()
		for _, tc := range []struct{ limit, context, want time.Duration }{
			{50 * time.Millisecond, 0, 50 * time.Millisecond},
			{50 * time.Millisecond, time.Second, 50 * time.Millisecond},
			{50 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
			{0, 10 * time.Millisecond, 10 * time.Millisecond},
		} {
			ctx, cancel := bg, func() {}
			if tc.context > 0 {
				ctx, cancel = nic.WithTimeout(bg, tc.context)
			}
			want := vipl.ErrNotDone
			if tc.want == tc.context {
				want = vipl.ErrTimeout
			}
			began := w.Now()
			err := q.WaitSince(ctx, tc.limit, q.Seen())
			cancel()
			if took := time.Duration(w.Now() - began); took != tc.want || !errors.Is(err, want) {
				t.Errorf("%+v: %v after %v", tc, err, took)
			}
		}
	})
}

// TestWaitSinceLooks: what has come, or been said by Wake, since the look that seen is
// of ends a wait at once; so do entries that were left, and the queue's end.
func TestWaitSinceLooks(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		var descs [3]vipl.Descriptor
		q := seam.OnQueue(cq, 1)
		began := w.Now()
		q.Reap()
		for i := range descs {
			if err := vi.PostSend(&descs[i]); err != nil { // it completes at once, flushed: the VI is idle
				t.Error(err)
			}
		}
		for range descs {
			if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
				t.Errorf("wait with an entry: %v", err)
			}
			if n := len(q.Reap()); n != 1 {
				t.Errorf("reaped %d", n)
			}
		}
		q.Wake()
		if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
			t.Errorf("wait after Wake: %v", err)
		}
		for i := range descs {
			if err := vi.PostSend(&descs[i]); err != nil {
				t.Error(err)
			}
		}
		q.Reap()
		seam.OnQueue(cq, len(descs)).Reap() // by another goroutine
		if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
			t.Errorf("wait after entries that were left: %v", err)
		}
		vi.Close()
		q.Reap()
		if err := cq.Close(); err != nil {
			t.Error(err)
		}
		q.WaitSince(bg, 0, q.Seen()) // the end counts as something new
		q.Reap()
		if err := q.WaitSince(bg, 0, q.Seen()); !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("wait at a closed queue: %v", err)
		}
		if took := w.Now() - began; took != 0 {
			t.Errorf("that took %v", time.Duration(took))
		}
	})
}

// TestWaitSinceShared: goroutines that wait under one lock each get on when what they
// wait for is done, whoever has taken the completion, or when another one does it.
func TestWaitSinceShared(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		const waiters = 4
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		var mu sync.Mutex
		q := seam.OnQueue(cq, 2)
		var done [waiters + 1]bool
		var order []int
		for i := range done {
			w.Go(fmt.Sprint("waiter ", i), func() {
				mu.Lock()
				defer mu.Unlock()
				for !done[i] {
					looked := q.Seen()
					mu.Unlock()
					err := q.WaitSince(bg, 0, looked)
					mu.Lock()
					if err != nil {
						t.Errorf("waiter %d: %v", i, err)
						return
					}
					for _, c := range q.Reap() {
						done[c.Descriptor.Context.(int)] = true
					}
				}
				order = append(order, i)
			})
		}
		w.Sleep(time.Millisecond)
		for _, i := range []int{2, 0, 3, 1} {
			if err := vi.PostSend(&vipl.Descriptor{Context: i}); err != nil {
				t.Error(err)
			}
			w.Sleep(time.Millisecond)
		}
		mu.Lock()
		done[waiters] = true
		mu.Unlock()
		q.Wake()
		w.Sleep(time.Millisecond)
		if want := []int{2, 0, 3, 1, waiters}; !slices.Equal(order, want) {
			t.Errorf("they get on in the order %v, want %v", order, want)
		}
	})
}

// settling is a NIC in virtual time with a VI whose receives a queue collects.
type settling struct {
	w   *sim.World
	nic *vipl.NIC
	cq  *seam.Queue
	vi  *vipl.VI
}

// settle has a station of w do what, as a process.
func settle(t *testing.T, w *sim.World, name string, what func(s *settling) error) {
	station := w.Station(name)
	w.Go(name, func() {
		s := &settling{w: w}
		var err error
		if s.nic, err = vipl.Open(t.Context(), &vipl.Config{Link: station}); err != nil {
			t.Error(err)
			return
		}
		defer s.nic.Close()
		if s.cq, err = seam.NewQueue(s.nic, 4, 1); err == nil {
			s.vi, err = s.nic.CreateVI(nil, nil, s.cq.CQ)
		}
		if err == nil {
			err = what(s)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// settled waits at the queue alone until the attempt to connect is over.
func (s *settling) settled() error {
	ctx, cancel := s.nic.WithTimeout(bg, time.Minute)
	defer cancel()
	for {
		s.cq.Reap()
		if s.vi.State() != vipl.StateConnectPending {
			return s.vi.ConnectDone()
		}
		if err := s.cq.WaitSince(ctx, 0, s.cq.Seen()); err != nil {
			return err
		}
	}
}

// TestWaitSinceConnects: the end of an attempt to connect ends a WaitSince at the queue of the
// VI's receives, on both sides and where it is refused. Nobody has to look again by a clock.
func TestWaitSinceConnects(t *testing.T) {
	w := sim.New(sim.Options{})
	var addr ethertype.Addr // where the server listens, when the client has slept
	settle(t, w, "server", func(s *settling) error {
		l, err := s.nic.Listen(0)
		if err != nil {
			return err
		}
		addr = l.Addr()
		r, err := l.Wait(bg)
		if err == nil {
			err = r.Reject("no")
		}
		if err == nil {
			r, err = l.Wait(bg)
		}
		if err == nil {
			err = r.AcceptStart(s.vi)
		}
		if err == nil {
			err = s.settled()
		}
		return errors.Join(err, w.Sleep(time.Second)) // until the client has looked
	})
	settle(t, w, "client", func(s *settling) error {
		if err := w.Sleep(time.Second); err != nil {
			return err
		}
		if err := s.vi.ConnectStart(addr, nil); err != nil {
			return err
		}
		if err := s.settled(); !errors.Is(err, vipl.ErrReject) {
			return fmt.Errorf("want a refusal, not: %w", err)
		}
		if err := s.vi.ConnectStart(addr, nil); err != nil {
			return err
		}
		return s.settled()
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestAttend: the function is called once for all entries until they are reaped, again
// for entries that a reap has left, for those that were there before, and not after the
// queue's end.
func TestAttend(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		q, calls := seam.OnQueue(cq, 2), 0
		expect := func(want int, what string) {
			t.Helper()
			if calls != want {
				t.Errorf("%s: called %d times, want %d", what, calls, want)
			}
		}
		post := func() {
			t.Helper()
			if err := vi.PostSend(&vipl.Descriptor{}); err != nil { // it completes at once, flushed: the VI is idle
				t.Error(err)
			}
		}
		post()
		if err := q.Attend(func() { calls++ }); err != nil {
			t.Error(err)
		}
		expect(1, "an entry was there")
		post()
		post()
		expect(1, "nobody has reaped")
		if n := len(q.Reap()); n != 2 {
			t.Errorf("reaped %d", n)
		}
		expect(2, "a reap has left one")
		q.Reap()
		expect(2, "all are reaped")
		post()
		expect(3, "a new one")
		vi.Close()
		cq.Close()
		if err := q.Attend(func() {}); !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("attend of a closed queue: %v", err)
		}
	})
}

// TestAttendWrites: an RDMA write without immediate data ends a WaitSince at a queue that
// is attended, although it makes no entry.
func TestAttendWrites(t *testing.T) {
	var target vipl.RemoteSegment
	var mem []byte
	w := newWorld(sim.Options{})
	var server *vipl.Listener
	w.node("server", nil, func(n *vipl.NIC) error {
		q, err := seam.NewQueue(n, 8, 0)
		if err != nil {
			return err
		}
		if err := q.Attend(func() {}); err != nil {
			return err
		}
		var h vipl.MemHandle
		if mem, h, err = n.AllocMem(64, &vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
			return err
		}
		target = vipl.RemoteSegment{Addr: vipl.VirtualAddress(mem), Handle: h}
		vi, err := n.CreateVI(nil, q.CQ, q.CQ)
		if err != nil {
			return err
		}
		if server, err = n.Listen(0); err != nil {
			return err
		}
		r, err := server.Wait(bg)
		if err != nil {
			return err
		}
		if err := r.Accept(bg, vi); err != nil {
			return err
		}
		q.Reap()
		for mem[63] == 0 {
			if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
				return err
			}
			q.Reap()
		}
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		for server == nil {
			w.Sleep(time.Millisecond)
		}
		vi, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		if err := vi.Connect(bg, server.Addr(), nil); err != nil {
			return err
		}
		w.Sleep(time.Second)
		buf, h, err := n.AllocMem(64, nil)
		if err != nil {
			return err
		}
		copy(buf, bytes.Repeat([]byte{7}, 64))
		d := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: buf, Handle: h}}, Remote: target}
		if err := vi.PostSend(d); err != nil {
			return err
		}
		_, err = vi.SendWait(bg)
		return err
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestPostLate: a send that is posted for later leaves with the engine's next turn, and
// not before; behind it what is posted next.
func TestPostLate(t *testing.T) {
	d := newDuo(t, nil, nil)
	first, second, third := d.post(d.b, 5000), d.post(d.b, 5000), d.post(d.b, 16)
	data, h := d.buffer(d.na, 5000, nil)
	send := &vipl.Descriptor{Segs: []vipl.Segment{{Data: data, Handle: h}}}
	wire := d.links[1]
	before := wire.tail
	if err := seam.PostLate(d.a, send); err != nil {
		t.Fatal(err)
	}
	if wire.tail != before {
		t.Fatal("it was sent at once")
	}
	d.na.Poll()
	if wire.tail == before {
		t.Fatal("a turn of the engine has not sent it")
	}
	d.run()
	got, err := d.b.RecvDone()
	d.took(got, err, first, vipl.StatusOpReceive)
	if got, err := d.a.SendDone(); got != send || err != nil {
		t.Fatal(got, err)
	}
	if err := seam.PostLate(d.a, send); err != nil {
		t.Fatal(err)
	}
	d.send(d.a, 16)
	d.run()
	got, err = d.b.RecvDone()
	d.took(got, err, second, vipl.StatusOpReceive)
	got, err = d.b.RecvDone()
	d.took(got, err, third, vipl.StatusOpReceive)
}

// TestWords: whatever the alignment and length of an RDMA write, all of its bytes arrive
// and no others change.
func TestWords(t *testing.T) {
	attr := vipl.DefaultAttributes()
	d := newDuo(t, attr, attr)
	const room = 4096
	buf, h := d.buffer(d.nb, room, &vipl.MemAttributes{EnableRDMAWrite: true})
	data, lh := d.buffer(d.na, room, nil)
	want := make([]byte, room)
	for i := range data {
		data[i] = byte(1 + i%251)
	}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 33, 64, 100, 1400, 1449, 1456, 3001} {
		for at := range 17 {
			clear(buf)
			clear(want)
			copy(want[at:], data[at%3:][:n])
			w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: data[at%3:][:n], Handle: lh}},
				Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf[at:]), Handle: h}}
			if err := d.a.PostSend(w); err != nil {
				t.Fatal(err)
			}
			err := vipl.ErrNotDone
			for i := 0; errors.Is(err, vipl.ErrNotDone) && i < 100; i++ {
				d.run()
				_, err = d.a.SendDone()
			}
			if err != nil || !bytes.Equal(buf, want) {
				t.Fatalf("%d bytes at %d: %v, or others arrived", n, at, err)
			}
		}
	}
}

// TestWordsReversed: the frames of an RDMA write arrive from the last to the first. Its last whole word, with what
// follows it, shows when all of them have arrived, and no word is in two frames.
func TestWordsReversed(t *testing.T) {
	attr := vipl.DefaultAttributes()
	attr.EnableRDMAWrite = true
	d := newDuo(t, attr, attr)
	const room = 6000
	buf, h := d.buffer(d.nb, room, &vipl.MemAttributes{EnableRDMAWrite: true})
	data, lh := d.buffer(d.na, room, nil)
	for i := range data {
		data[i] = byte(1 + i%251)
	}
	wire := d.links[1]
	for _, n := range []int{1448 * 3, 1448*2 + 1, 1448*2 + 11, 3 * 1400, 1452, 1453, 2900, 2903} {
		for at := range 9 {
			clear(buf)
			from := wire.tail
			w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: data[:n], Handle: lh}},
				Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf[at:]), Handle: h}}
			if err := d.a.PostSend(w); err != nil {
				t.Fatal(err)
			}
			to := wire.tail
			for i, k := from, to-1; i < k; i, k = i+1, k-1 {
				i, k := i%memSlots, k%memSlots
				wire.slots[i], wire.slots[k] = wire.slots[k], wire.slots[i]
				wire.lens[i], wire.lens[k] = wire.lens[k], wire.lens[i]
			}
			for i := from; i < to; i++ {
				wire.tail = i + 1
				d.nb.Poll()
				_, tail := latch.Edges(buf[at:][:n])
				if shows := !bytes.Equal(buf[at+n-tail:][:tail], make([]byte, tail)); shows != (i == to-1) {
					t.Fatalf("%d bytes at %d: behind frame %d of %d the last word shows: %v", n, at, i-from, to-from, shows)
				}
				for k := -at & 7; k+8 <= n; k += 8 {
					word := buf[at+k:][:8]
					if (word[0] == 0) != (word[7] == 0) {
						t.Fatalf("%d bytes at %d: half of the word at %d shows", n, at, k)
					}
				}
			}
			d.run()
			if got, err := d.a.SendDone(); got != w || err != nil || !bytes.Equal(buf[at:][:n], data[:n]) {
				t.Fatalf("%d bytes at %d: %v, or others arrived", n, at, err)
			}
		}
	}
}

// TestPostCatchesUp: a send of one VI takes along the acknowledgement that another owes
// by now, and does not leave it for the next call.
func TestPostCatchesUp(t *testing.T) {
	d := newDuo(t, nil, nil)
	other := *d
	var err error
	if other.a, err = d.na.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if other.b, err = d.nb.CreateVI(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	other.connect()
	other.send(other.a, 8) // so that the next one is not alone
	in := d.post(d.a, 8)
	d.send(d.b, 8)
	x, err := d.a.RecvDone()
	d.took(x, err, in, vipl.StatusOpReceive)
	*d.links[0].clock += 100_000_000
	before := d.links[0].frames
	other.send(other.a, 8)
	if sent := d.links[0].frames - before; sent < 2 {
		t.Errorf("%d frames, want the message and the acknowledgement", sent)
	}
}

// sleepyLink notes how long the engine would sleep after a message that came alone and
// does not ask to be acknowledged at once.
type sleepyLink struct {
	transport.Link
	now    atomic.Int64
	lone   atomic.Bool
	sleeps chan time.Duration
}

func (l *sleepyLink) Now() int64 {
	now := l.Link.Now()
	l.now.Store(now)
	return now
}

func (l *sleepyLink) Recv(views [][]byte) (int, error) {
	n, err := l.Link.Recv(views)
	if n > 0 {
		var h ethertype.Header
		_, bad := h.Parse(views[0])
		l.lone.Store(n == 1 && bad == nil && h.Kind == ethertype.KindData && h.Flags&ethertype.FlagAckNow == 0)
	}
	return n, err
}

func (l *sleepyLink) Wait(until int64) error {
	if l.lone.Swap(false) {
		select {
		case l.sleeps <- time.Duration(until - l.now.Load()):
		default:
		}
	}
	return l.Link.Wait(until)
}

// TestServiceSleep sends messages to a program that makes no calls: its NIC's
// service takes them in, and must not sleep past the time of their acknowledgement.
func TestServiceSleep(t *testing.T) {
	const messages = 20
	sleepy := &sleepyLink{sleeps: make(chan time.Duration, messages)}
	nics := vethNICs(t, 1500, vipl.Config{}, func(side int, l transport.Link) transport.Link {
		if side == 1 {
			return l
		}
		sleepy.Link = l
		return sleepy
	})
	a, b := join(t, nics, nil)
	in, err := newBuffers(nics[0], messages, 64)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newBuffers(nics[1], 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.descs {
		if err := a.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for len(sleepy.sleeps) > 0 {
		<-sleepy.sleeps
	}
	within(t, "the acknowledgements", func() error {
		for range messages {
			if err := b.PostSend(&out.descs[0]); err != nil {
				return err
			}
			if _, err := b.SendWait(bg); err != nil {
				return err
			}
		}
		return nil
	})
	if len(sleepy.sleeps) < messages/2 {
		t.Errorf("the service slept after %d messages of %d", len(sleepy.sleeps), messages)
	}
	for len(sleepy.sleeps) > 0 {
		if nap := <-sleepy.sleeps; nap > time.Millisecond {
			t.Errorf("a sleep of %v, when an acknowledgement was due", nap)
		}
	}
}
