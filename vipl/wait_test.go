package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
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
						if c.name == "RecvWait" && err == vipl.ErrDescriptor { // first it gives the descriptor back
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
