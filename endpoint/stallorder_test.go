package endpoint

import (
	"context"
	"slices"
	"sync"
	"testing"
)

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
