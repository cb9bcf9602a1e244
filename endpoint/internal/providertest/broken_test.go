package providertest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// fault is a promise of the contract that a wrapper around a provider breaks, and the case
// of the suite that is to find it. What is nil is as the provider has it.
type fault struct {
	promise, found string
	rough          providertest.Rough // what the provider below does

	received    func(h *brokenHalf, p *provider.Packet)
	placed      func(h *brokenHalf, slot int)
	wrote       func(h *brokenHalf, slot int)
	undelivered func(h *brokenHalf, i int, reason wire.Reason)
	broken      func(h *brokenHalf, reason wire.Reason, err error)

	post    func(ch *brokenChannel, i, n, together int)
	idle    func(ch *brokenChannel, i int) bool
	grant   func(ch *brokenChannel, slot int, mem []byte) (wire.Window, error)
	revoke  func(ch *brokenChannel, slot int)
	write   func(ch *brokenChannel, slot int, data []byte, to wire.Window)
	writing func(ch *brokenChannel, slot int) bool
	release func(ch *brokenChannel, p *provider.Packet)
	close   func(ch *brokenChannel)
	attach  func(h *brokenHost, up provider.Half, ch provider.Channel)

	node func(n provider.Provider) provider.Provider
}

// brokenHost wraps the host of a node: what its provider calls back goes through a fault.
type brokenHost struct {
	provider.Host
	f      *fault
	memory *provider.Budget
}

func (h *brokenHost) Admit(greeting *wire.Hello) (provider.Half, wire.Reason) {
	up, reason := h.Host.Admit(greeting)
	if reason != 0 {
		return nil, reason
	}
	return &brokenHalf{Half: up, f: h.f}, 0
}

func (h *brokenHost) Attach(up provider.Half, ch provider.Channel) {
	half := up.(*brokenHalf)
	half.ch = &brokenChannel{Channel: ch, f: h.f, up: half, memory: h.memory}
	if h.f.attach != nil {
		h.f.attach(h, half.Half, half.ch)
		return
	}
	h.Host.Attach(half.Half, half.ch)
}

// brokenNode wraps the provider that dials.
type brokenNode struct {
	provider.Provider
	f      *fault
	memory *provider.Budget
}

func (n *brokenNode) Dial(to wire.Name, greeting wire.Hello, up provider.Half) (provider.Channel, error) {
	half := &brokenHalf{Half: up, f: n.f}
	ch, err := n.Provider.Dial(to, greeting, half)
	if err != nil {
		return nil, err
	}
	half.ch = &brokenChannel{Channel: ch, f: n.f, up: half, memory: n.memory}
	return half.ch, nil
}

// brokenHalf is a half as the provider sees it.
type brokenHalf struct {
	provider.Half
	f    *fault
	ch   *brokenChannel
	n    int                // packets that have come
	held []*provider.Packet // by the fault
	last []byte             // the body of the last packet
}

func (h *brokenHalf) Received(p *provider.Packet) {
	if h.n++; h.f.received != nil {
		h.f.received(h, p)
		return
	}
	h.Half.Received(p)
}

func (h *brokenHalf) Placed(slot int) {
	if h.f.placed != nil {
		h.f.placed(h, slot)
		return
	}
	h.Half.Placed(slot)
}

func (h *brokenHalf) Wrote(slot int) {
	if h.f.wrote != nil {
		h.f.wrote(h, slot)
		return
	}
	h.Half.Wrote(slot)
}

func (h *brokenHalf) Undelivered(i int, reason wire.Reason) {
	if h.f.undelivered != nil {
		h.f.undelivered(h, i, reason)
		return
	}
	h.Half.Undelivered(i, reason)
}

func (h *brokenHalf) Broken(reason wire.Reason, err error) {
	if h.f.broken != nil {
		h.f.broken(h, reason, err)
		return
	}
	h.Half.Broken(reason, err)
}

// brokenChannel is a channel as a half sees it.
type brokenChannel struct {
	provider.Channel
	f       *fault
	up      *brokenHalf
	memory  *provider.Budget
	windows map[int]wire.Window
}

func (ch *brokenChannel) Post(i, n, together int) {
	if ch.f.post != nil {
		ch.f.post(ch, i, n, together)
		return
	}
	ch.Channel.Post(i, n, together)
}

func (ch *brokenChannel) Idle(i int) bool {
	if ch.f.idle != nil {
		return ch.f.idle(ch, i)
	}
	return ch.Channel.Idle(i)
}

func (ch *brokenChannel) Grant(slot int, mem []byte) (wire.Window, error) {
	if ch.f.grant != nil {
		return ch.f.grant(ch, slot, mem)
	}
	return ch.Channel.Grant(slot, mem)
}

func (ch *brokenChannel) Revoke(slot int) {
	if ch.f.revoke != nil {
		ch.f.revoke(ch, slot)
		return
	}
	ch.Channel.Revoke(slot)
}

func (ch *brokenChannel) Write(slot int, data []byte, to wire.Window, await bool) {
	if ch.f.write != nil {
		ch.f.write(ch, slot, data, to)
		return
	}
	ch.Channel.Write(slot, data, to, await)
}

func (ch *brokenChannel) Writing(slot int) bool {
	if ch.f.writing != nil {
		return ch.f.writing(ch, slot)
	}
	return ch.Channel.Writing(slot)
}

func (ch *brokenChannel) Release(p *provider.Packet) {
	if ch.f.release != nil {
		ch.f.release(ch, p)
		return
	}
	ch.Channel.Release(p)
}

func (ch *brokenChannel) Close() {
	if ch.f.close != nil {
		ch.f.close(ch)
		return
	}
	ch.Channel.Close()
}

// recorder is a test that writes down how it fails.
type recorder struct {
	ctx      context.Context
	failures []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Error(args ...any)        { r.failures = append(r.failures, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// runBroken runs the case of the suite that is to find f, and returns how it fails. waits
// is how long a wait may take.
func runBroken(t *testing.T, f *fault, name string, waits time.Duration) []string {
	r := &recorder{ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		providertest.RunCase(r, name, func(client, server *providertest.Host) providertest.Net {
			seg := providertest.NewSegment(3, f.rough)
			v := provider.Provider(seg.Open(&brokenHost{server, f, &server.Budget}, &server.Budget))
			c := provider.Provider(seg.Open(client, &client.Budget))
			to := v.Addr()
			if f.node != nil {
				c, v = f.node(c), f.node(v)
			}
			return providertest.Net{Dialer: &brokenNode{c, f, &client.Budget}, To: to, Nodes: []provider.Provider{c, v}, Polls: 5000, Waits: waits}
		})
	}()
	<-done
	return r.failures
}

// TestBroken: the suite finds each promise that a provider breaks, in the case that is
// about it. The same wrappers without a fault pass all cases.
func TestBroken(t *testing.T) {
	names := []string{messages, keeps, corks, writes, revokes, closes, refuses, accounts, waiting, naming}
	t.Run("none", func(t *testing.T) {
		for _, rough := range []providertest.Rough{{}, {Return: 20}} {
			for _, name := range names {
				if failed := runBroken(t, &fault{rough: rough}, name, 0); len(failed) > 0 {
					t.Errorf("%s: %q", name, failed)
				}
			}
		}
	})
	for _, f := range faults {
		t.Run(f.promise, func(t *testing.T) {
			failed := runBroken(t, &f, f.found, 20*time.Millisecond)
			if len(failed) == 0 {
				t.Errorf("the case %q found nothing", f.found)
			}
			t.Logf("%q", failed)
		})
	}
	for _, name := range names {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.found == name }) {
			t.Errorf("no fault is to be found by the case %q", name)
		}
	}
}
