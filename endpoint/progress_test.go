package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
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
		c.send(c.claimSlot(OpRequest), &message{op: OpRequest, handler: 1}, nil, nil, nil, false)
	}
}

// TestPollMakesWay: a poll that has handled nothing lets other goroutines run, once
// one of them had to wait for the node. Else two that poll keep each other from
// it for milliseconds. Alone, and under virtual time, nobody makes way.
func TestPollMakesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that others run only when this one makes way
	for _, virtual := range []bool{false, true} {
		n := bareNode(&idleWay{})
		n.virtual = virtual
		b := newWaiting(t, n).bundle
		if b.Poll(); n.crowded != 0 {
			t.Fatal("the node is crowded by one goroutine")
		}
		var waited atomic.Bool
		n.mu.Lock()
		go func() {
			waited.Store(true)
			b.Poll()
			waited.Store(false)
		}()
		for !waited.Load() {
			runtime.Gosched()
		}
		for range 10 { // it has found the mutex taken
			runtime.Gosched()
		}
		n.mu.Unlock()
		for end := time.Now().Add(10 * time.Second); waited.Load(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("the other goroutine does not get the mutex")
			}
		}
		before := n.crowded
		if virtual {
			if before != 0 {
				t.Error("a simulated node is crowded")
			}
			continue
		}
		if before == 0 {
			t.Fatal("nobody has noticed that a goroutine waited")
		}
		var ran atomic.Bool
		go ran.Store(true)
		polls := 0
		for ; !ran.Load() && polls < before; polls++ { // the scheduler may choose the one that made way again
			b.Poll()
		}
		if !ran.Load() || polls > 100 || n.crowded != before-polls {
			t.Errorf("another has run: %v, after %d empty polls; polls that still make way: %d, before %d", ran.Load(), polls, n.crowded, before)
		}
	}
}

// busyWay is a provider from which something comes at each look, which does not
// concern whoever waits.
type busyWay struct {
	idleWay
	each func()
}

func (w *busyWay) Wait(context.Context) error { return nil }
func (w *busyWay) Deliver(bool) bool          { w.each(); return false }

// TestContextWhileBusy: a context ends a wait for an answer, for a credit, or for
// the place of data, although other messages keep coming, for the bundle or for
// others.
func TestContextWhileBusy(t *testing.T) {
	const enough, most = 1000, 1_000_000 // messages until the context ends, and until the test gives up
	for name, wait := range map[string]func(ctx context.Context, ep *Endpoint) error{
		"an answer": func(ctx context.Context, ep *Endpoint) error {
			_, err := Call[string, string](ctx, ep, 0, 1, "x")
			return err
		},
		"a credit": func(ctx context.Context, ep *Endpoint) error {
			for {
				if err := ep.Request(ctx, 0, 1); err != nil {
					return err
				}
			}
		},
		"the place of data": func(ctx context.Context, ep *Endpoint) error {
			err := ep.RequestBulk(ctx, 0, 1, make([]byte, 1000), 0)
			return errors.Join(err, ctx.Err()) // it copies the data, and returns nil
		},
		"a message": func(ctx context.Context, ep *Endpoint) error {
			_, err := ep.bundle.WaitPoll(ctx)
			return err
		},
	} {
		for _, own := range []bool{true, false} {
			if own && name == "a message" { // then there is one
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			way := &busyWay{}
			n := bareNode(way)
			busy, mute, sender := newWaiting(t, n), newWaiting(t, n), newWaiting(t, n)
			busy.ep.Map(0, mute.ep.Name(), 1)
			sender.ep.Map(0, busy.ep.Name(), 1)
			came := 0
			come := func() (goOn bool) {
				if came++; came == enough {
					cancel()
				}
				return came < most
			}
			busy.ep.SetHandler(1, func(Token, []uint32, []byte) {
				if come() {
					sender.ep.Request(context.Background(), 0, 1)
				}
			})
			way.each = func() {
				if !come() {
					n.closed = true // the test has failed
				}
			}
			if own {
				if err := sender.ep.Request(context.Background(), 0, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := wait(ctx, busy.ep); !errors.Is(err, context.Canceled) || came > 2*enough {
				t.Errorf("waiting for %s while messages come, own: %v: %v after %d of them", name, own, err, came)
			}
			cancel()
		}
	}
}

// doorWay is a provider whose wait goes on, after Close has woken, until another
// goroutine has polled.
type doorWay struct {
	idleWay
	once  sync.Once
	enter func()
}

func (w *doorWay) Wake() {
	w.once.Do(func() {
		go func() {
			w.enter()
			w.idleWay.Wake()
		}()
	})
}

// TestNobodyEntersClosed: while Close waits for a goroutine to get out of the
// way, others come in; none of them runs a handler any more, whose data Close
// would take away.
func TestNobodyEntersClosed(t *testing.T) {
	for name, enter := range map[string]func(w *waiting, c *call) error{
		"Poll":     func(w *waiting, _ *call) error { _, err := w.bundle.Poll(); return err },
		"WaitPoll": func(w *waiting, _ *call) error { _, err := w.bundle.WaitPoll(context.Background()); return err },
		"Request":  func(w *waiting, _ *call) error { return w.ep.Request(context.Background(), 0, 1) },
		"the wait of a call": func(w *waiting, c *call) error { // between the request and this it held no mutex
			return w.ep.awaitCall(context.Background(), c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			way := &doorWay{idleWay: idleWay{bell: make(chan struct{}, 1)}}
			n := bareNode(way)
			lead, w := newWaiting(t, n), newWaiting(t, n)
			ran := 0
			w.ep.SetHandler(1, func(Token, []uint32, []byte) { ran++ })
			if err := w.ep.Map(0, w.ep.Name(), 1); err != nil {
				t.Fatal(err)
			}
			n.mu.Lock()
			w.ep.inject(t, w.ep)
			n.mu.Unlock()
			go func() {
				defer close(lead.ended)
				lead.bundle.WaitPoll(context.Background())
			}()
			if err := reached(n, func() bool { return n.leader == lead.bundle }); err != nil {
				t.Fatal(err)
			}
			var entered error
			way.enter = func() { entered = enter(w, &call{}) }
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			<-lead.ended
			if ran > 0 || !errors.Is(entered, ErrClosed) {
				t.Errorf("%d handlers ran while the node was closing; the call returned: %v", ran, entered)
			}
		})
	}
}

// TestStalledGoroutines: of several goroutines that wait for a credit when the
// connection breaks each gets its request back, in the order in which they began to
// wait. One whose context has ended before is left out.
func TestStalledGoroutines(t *testing.T) {
	n := bareNode(&idleWay{bell: make(chan struct{}, 1)})
	server := newWaiting(t, n)
	b, err := n.NewBundle(Parallel)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := b.NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	var back []uint32
	ep.SetReturnHandler(func(r *Returned) { back = append(back, r.Args[0]) })
	ep.Map(0, server.ep.Name(), 5)
	requests := uint32(n.cfg.Credits.total())
	for i := range requests {
		if err := ep.Request(context.Background(), 0, 1, i); err != nil {
			t.Fatal(err)
		}
	}
	const stalled = 5
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	for i := range stalled {
		with := context.Background()
		if i == 1 {
			with = ctx
		}
		sending.Go(func() {
			if err := ep.Request(with, 0, 1, requests+uint32(i)); (err != nil) != (i == 1) {
				t.Errorf("request %d: %v", i, err)
			}
		})
		c := ep.translations[0].client
		if err := reached(n, func() bool { return len(c.stalled) == i+1 }); err != nil {
			t.Fatal(err)
		}
	}
	c := ep.translations[0].client
	cancel()
	if err := reached(n, func() bool { return len(c.stalled) == stalled-1 }); err != nil {
		t.Fatal(err)
	}
	if err := server.ep.Free(); err != nil {
		t.Fatal(err)
	}
	sending.Wait()
	want := []uint32{0, 1, 2, 3, 4, 6, 7, 8}
	if !slices.Equal(back, want) {
		t.Errorf("came back %d, want %d", back, want)
	}
}

// dearWay has a clock of its own.
type dearWay struct {
	idleWay
	now int64
}

func (w *dearWay) Now() int64 { return w.now }

// dearChannel takes longer for a message that goes alone than what requests that come one
// by one are apart, as a slow machine does. Nothing is answered.
type dearChannel struct {
	provider.Channel
	way   *dearWay
	alone int
}

func (c *dearChannel) Post(_, _, together int) {
	if c.way.now += 200; together == provider.Uncork {
		c.alone++
		c.way.now += pollSpacing + 2000
	}
}

// TestPace: requests that come one by one go alone, and those of a stream do not, however long
// it takes to send one alone.
func TestPace(t *testing.T) {
	way := &dearWay{idleWay: idleWay{bell: make(chan struct{}, 1)}, now: 1}
	n := bareNode(way)
	n.cfg.Credits = Credits{Short: 250}
	w := newWaiting(t, n)
	w.ep.Map(0, w.ep.Name(), TagAll)
	send := func(times int, apart int64) {
		for range times {
			way.now += apart
			if err := w.ep.Request(t.Context(), 0, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(1, 0)
	var c *client
	for c = range w.ep.clients.places { // there is one
	}
	ch := &dearChannel{Channel: c.ch, way: way}
	c.ch = ch
	for range 2 {
		ch.alone = 0
		send(20, 5*pollSpacing)
		if ch.alone < 15 {
			t.Errorf("%d of 20 requests went alone that came one by one", ch.alone)
		}
		ch.alone = 0
		send(60, 0)
		if ch.alone > 15 {
			t.Errorf("%d of 60 requests of a stream went alone", ch.alone)
		}
	}
}
