package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/loop"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// idleWay is a provider to which nothing comes but what the test delivers.
type idleWay struct {
	bell  chan struct{}
	batch func()   // runs in the next deliver, as messages that have come do
	has   []uint32 // endpoints
}

func (w *idleWay) Opened(id uint32)      { w.has = append(w.has, id) }
func (*idleWay) Tagged(uint32, wire.Tag) {}

func (w *idleWay) Ended(id uint32) {
	w.has = slices.DeleteFunc(w.has, func(x uint32) bool { return x == id })
}

func (w *idleWay) Lookup(context.Context, ethertype.Addr, string) (ethertype.Addr, error) {
	return w.Addr(), nil
}

func (w *idleWay) Dial(Name, wire.Hello, provider.Half) (provider.Channel, error) {
	return nil, ErrResource
}
func (w *idleWay) Addr() ethertype.Addr   { return ethertype.Addr{Port: 1} }
func (w *idleWay) Poll() error            { return nil }
func (w *idleWay) Flush(wire.Side)        {}
func (w *idleWay) CatchUp()               {}
func (w *idleWay) Drain(func() bool)      {}
func (w *idleWay) Now() int64             { return 1 }
func (w *idleWay) Advertise(string) error { return nil }
func (w *idleWay) Withdraw(string)        {}
func (w *idleWay) Close() error           { return nil }
func (w *idleWay) Virtual() bool          { return false }
func (w *idleWay) Gate() provider.Gate    { return make(idleGate, 1) }

// idleGate is a gate in real time.
type idleGate chan struct{}

func (g idleGate) Open() {
	select {
	case g <- struct{}{}:
	default: // it is open
	}
}

func (g idleGate) Wait(ctx context.Context) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *idleWay) Wait(ctx context.Context) error {
	select {
	case <-w.bell:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *idleWay) Deliver(bool) bool {
	if w.batch != nil {
		w.batch()
		w.batch = nil
	}
	return false
}

func (w *idleWay) Wake() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// bareNode makes a node without a NIC.
func bareNode(way provider.Provider) *Node {
	n := &Node{incarnation: 1, cfg: Config{Credits: DefaultCredits, MaxMedium: 64, MaxConnections: 8, MaxConnectionMemory: 1 << 20, Logger: slog.Default()}, way: way,
		endpoints: map[uint32]*Endpoint{}, services: map[uint32]*Endpoint{}}
	n.budget.Most = n.cfg.MaxConnectionMemory
	n.loop = loop.New((*host)(n), &n.budget)
	return n
}

// waiting is a goroutine that waits for one message to an endpoint.
type waiting struct {
	bundle *Bundle
	ep     *Endpoint
	ended  chan struct{}
}

func newWaiting(t *testing.T, n *Node) *waiting {
	t.Helper()
	b, err := n.NewBundle(Sequential)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := b.NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	ep.SetTag(TagAll)
	ep.SetHandler(1, func(Token, []uint32, []byte) {})
	return &waiting{bundle: b, ep: ep, ended: make(chan struct{})}
}

// reached spins until the node is in some state, or for ten seconds.
func reached(n *Node, state func() bool) error {
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		n.mu.Lock()
		ok, leader, following := state(), n.leader, len(n.followers.list)
		n.mu.Unlock()
		if ok {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within ten seconds: the leader is %p, %d follow", leader, following)
		}
	}
}

// gather has three goroutines wait, the first of which leads. waits counts how often
// each has begun to.
func (w *idleWay) gather(t *testing.T, ctx context.Context) (n *Node, sender *waiting, all [3]*waiting, waits [3]*atomic.Int64) {
	n = bareNode(w)
	sender = newWaiting(t, n)
	for i := range all {
		x := newWaiting(t, n)
		all[i], waits[i] = x, new(atomic.Int64)
		if err := sender.ep.Map(i, x.ep.Name(), 1); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(x.ended)
			x.bundle.WaitPoll(watched{ctx, waits[i]})
		}()
		if err := reached(n, func() bool { return n.leader == all[0].bundle && len(n.followers.list) == i }); err != nil {
			t.Fatal(err)
		}
	}
	return n, sender, all, waits
}

// watched counts who waits for its end.
type watched struct {
	context.Context
	waits *atomic.Int64
}

func (c watched) Done() <-chan struct{} {
	c.waits.Add(1)
	return c.Context.Done()
}

// come has messages for some arrive at once.
func (w *idleWay) come(t *testing.T, sender *waiting, to ...*waiting) {
	w.batch = func() { // as if they had come from elsewhere
		for _, x := range to {
			x.ep.inject(t, sender.ep)
		}
	}
	w.Wake()
}

// TestSuccession: when messages come for the leader and for one of those that
// follow it, both leave, and a third that goes on waiting leads. Nobody else
// would take in what comes for it.
func TestSuccession(t *testing.T) {
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		way := &idleWay{bell: make(chan struct{}, 1)}
		n, sender, w, _ := way.gather(t, ctx)
		leaves, stays := w[1+i%2], w[2-i%2]
		way.come(t, sender, w[0], leaves)
		<-w[0].ended
		<-leaves.ended
		if err := reached(n, func() bool { return n.leader == stays.bundle && len(n.followers.list) == 0 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-stays.ended
	}
}

// TestWakeOne: a message wakes whom it is for, and nobody else, and the leader
// leads on.
func TestWakeOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	way := &idleWay{bell: make(chan struct{}, 1)}
	n, sender, w, waits := way.gather(t, ctx)
	if err := reached(n, func() bool { return waits[2].Load() > 0 }); err != nil { // it is among the followers before it waits
		t.Fatal(err)
	}
	before := waits[2].Load()
	way.come(t, sender, w[1])
	<-w[1].ended
	if err := reached(n, func() bool { return n.leader == w[0].bundle && len(n.followers.list) == 1 }); err != nil {
		t.Fatal(err)
	}
	if again := waits[2].Load() - before; again != 0 {
		t.Errorf("another has been woken %d times", again)
	}
	cancel()
	<-w[0].ended
	<-w[2].ended
}

// TestLeaderEnds: whichever call a goroutine led in, another leads when its context
// has ended.
func TestLeaderEnds(t *testing.T) {
	calls := map[string]func(ctx context.Context, w *waiting) error{
		"WaitPoll": func(ctx context.Context, w *waiting) error { _, err := w.bundle.WaitPoll(ctx); return err },
		"Wait": func(ctx context.Context, w *waiting) error {
			w.bundle.SetEventMask(NotEmpty)
			return w.bundle.Wait(ctx)
		},
		"Request": func(ctx context.Context, w *waiting) (err error) {
			for err == nil { // until there is no credit
				err = w.ep.Request(ctx, 0, 1)
			}
			return err
		},
		"Call": func(ctx context.Context, w *waiting) error {
			_, err := Call[int32, int32](ctx, w.ep, 0, 1, 5)
			return err
		},
	}
	for name, call := range calls {
		n := bareNode(&idleWay{bell: make(chan struct{}, 1)})
		first, second, silent := newWaiting(t, n), newWaiting(t, n), newWaiting(t, n)
		first.ep.Map(0, silent.ep.Name(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { defer close(first.ended); err = call(ctx, first) }()
		if err := reached(n, func() bool { return n.leader == first.bundle }); err != nil {
			t.Fatal(name, err)
		}
		all, end := context.WithCancel(t.Context())
		go func() { defer close(second.ended); second.bundle.WaitPoll(all) }()
		if err := reached(n, func() bool { return len(n.followers.list) == 1 }); err != nil {
			t.Fatal(name, err)
		}
		cancel()
		if <-first.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if err := reached(n, func() bool { return n.leader == second.bundle }); err != nil {
			t.Error(name, err)
		}
		end()
		<-second.ended
	}
}

// TestNextLeaderFirst: nobody leads before one who is about to, and who may have been woken
// together with many.
func TestNextLeaderFirst(t *testing.T) {
	n := bareNode(&idleWay{bell: make(chan struct{}, 1)})
	w := newWaiting(t, n)
	n.followers.nextLeaders = 1
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(w.ended); w.bundle.WaitPoll(ctx) }()
	if err := reached(n, func() bool { return n.leader == nil && len(n.followers.list) == 1 }); err != nil {
		t.Error(err)
	}
	cancel()
	<-w.ended
}

// TestLeadMeanwhile: while a handler runs, another leads.
func TestLeadMeanwhile(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	way := &idleWay{bell: make(chan struct{}, 1)}
	n, sender, w, _ := way.gather(t, ctx)
	led := make(chan error, 1)
	w[0].ep.SetHandler(1, func(Token, []uint32, []byte) {
		led <- reached(n, func() bool { return n.leader != nil && n.leader != w[0].bundle })
	})
	way.come(t, sender, w[0])
	if err := <-led; err != nil {
		t.Error(err)
	}
	cancel()
	for _, x := range w {
		<-x.ended
	}
}

// inject delivers a short message for handler 1. The node's mutex is held.
func (ep *Endpoint) inject(t *testing.T, from *Endpoint) {
	for i, tr := range from.translations {
		if tr == nil || tr.to.ID != ep.id {
			continue
		}
		c, err := from.connect(i, tr)
		if err != nil {
			t.Error(err)
			return
		}
		c.send(c.take(OpRequest), &message{op: OpRequest, handler: 1}, nil, nil, nil)
	}
}
