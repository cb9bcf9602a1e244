package endpoint

import (
	"context"
	"errors"
	"sync"
	"testing"
)

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
