package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// idleWay is a provider to which nothing comes but what the test delivers.
type idleWay struct {
	bell  chan struct{}
	batch func()   // runs in the next deliver, as messages that have come do
	has   []uint32 // endpoints
}

func (w *idleWay) opened(id uint32) { w.has = append(w.has, id) }
func (w *idleWay) ended(id uint32) {
	w.has = slices.DeleteFunc(w.has, func(x uint32) bool { return x == id })
}

func (w *idleWay) lookup(context.Context, string) (ethertype.Addr, error) { return w.addr(), nil }

func (w *idleWay) dial(Name, hello, half) (channel, error) { return nil, ErrResource }
func (w *idleWay) addr() ethertype.Addr                    { return ethertype.Addr{Port: 1} }
func (w *idleWay) poll() error                             { return nil }
func (w *idleWay) flush(side)                              {}
func (w *idleWay) catchUp()                                {}
func (w *idleWay) drain(func() bool)                       {}
func (w *idleWay) now() int64                              { return 1 }
func (w *idleWay) advertise(string) error                  { return nil }
func (w *idleWay) withdraw(string)                         {}
func (w *idleWay) close()                                  {}

func (w *idleWay) wait(ctx context.Context) error {
	select {
	case <-w.bell:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *idleWay) deliver(*Bundle) int {
	if w.batch != nil {
		w.batch()
		w.batch = nil
	}
	return 0
}

func (w *idleWay) wake() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// bareNode makes a node without a NIC.
func bareNode(way provider) *Node {
	n := &Node{incarnation: 1, cfg: Config{Credits: DefaultCredits, MaxMedium: 64, MaxConnections: 8, MaxConnectionMemory: 1 << 20, Logger: slog.Default()}, way: way,
		endpoints: map[uint32]*Endpoint{}, services: map[uint32]*Endpoint{}, bundles: map[*Bundle]struct{}{}}
	n.loop.node = n
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
		ok, leader, following := state(), n.leader, n.following
		n.mu.Unlock()
		if ok {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within ten seconds: the leader is %p, %d follow", leader, following)
		}
	}
}

// TestSuccession: when messages come for the leader and for one of those that
// follow it, both leave, and a third that goes on waiting leads. Nobody else
// would take in what comes for it.
func TestSuccession(t *testing.T) {
	for range 20 { // whom the leader wakes is chosen at random
		way := &idleWay{bell: make(chan struct{}, 1)}
		n := bareNode(way)
		sender := newWaiting(t, n)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		var w [3]*waiting
		for i := range w {
			w[i] = newWaiting(t, n)
			if err := sender.ep.Map(i, w[i].ep.Name(), 1); err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(w[i].ended)
				w[i].bundle.WaitPoll(ctx)
			}()
			if err := reached(n, func() bool { return n.leader == w[0].bundle && n.following == i }); err != nil {
				t.Fatal(err)
			}
		}
		way.batch = func() { // as if they had come from elsewhere, at once
			for _, x := range w[:2] {
				x.ep.inject(t, sender.ep)
			}
		}
		way.wake()
		<-w[0].ended
		<-w[1].ended
		if err := reached(n, func() bool { return n.leader == w[2].bundle && n.following == 0 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-w[2].ended
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
