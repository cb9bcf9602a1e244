package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestThreads is figure 11's server: each of its endpoints has a bundle and a goroutine of
// its own, which waits on the semaphore, polls until there is nothing, and waits again. There
// are more endpoints than frames.
func TestThreads(t *testing.T) {
	const clients, each = 10, 40
	s := newSegment(t, myrinet.Options{Ports: 16})
	sw := s.f.Switch("x")
	var cards []*lanai.Card
	for i := range 1 + clients {
		cfg := lanai.Config{Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}, Channels: channels.Config{Timeout: 2_000_000}}
		for k := range 1 + clients {
			if k != i && (k == 0 || i == 0) {
				cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
			}
		}
		c, port := s.card(i, cfg, nil)
		s.join(port, sw.Port(i))
		cards = append(cards, c)
	}
	var node *endpoint.Node
	var names []endpoint.Name
	var errs []error
	left := clients
	s.w.Go("server", func() {
		p, err := newParty(cards[0], endpoint.Config{})
		if err != nil {
			errs = append(errs, err)
			return
		}
		node = p.n
		for i := range clients {
			s.w.Go(fmt.Sprint("thread ", i), func() {
				name, run, err := thread(node)
				names = append(names, name)
				if err == nil {
					err = run(func() bool { return left == 0 })
				}
				if err != nil {
					errs = append(errs, err)
				}
			})
		}
	})
	for i := range clients {
		s.w.Go(fmt.Sprint("client ", i), func() {
			defer func() { left-- }()
			for len(names) < clients {
				s.w.Sleep(time.Microsecond)
			}
			p, err := newParty(cards[1+i], endpoint.Config{})
			if err == nil {
				err = p.ep.Map(0, names[i], tag)
			}
			for n := 0; n < each && err == nil; n++ {
				err = p.ep.Request(t.Context(), 0, hEcho, uint32(n))
			}
			if err == nil {
				err = p.until("all answers", func() bool { return len(p.got) == each })
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	if err := errors.Join(append(errs, s.w.Run())...); err != nil {
		t.Fatal(err)
	}
	if st := cards[0].Snapshot().Stats; st.Unloads == 0 {
		t.Errorf("no endpoint had to leave its frame: %+v", st)
	}
}

// thread makes an endpoint, and returns its server loop.
func thread(node *endpoint.Node) (name endpoint.Name, run func(done func() bool) error, err error) {
	p := &party{n: node}
	if p.b, err = node.NewBundle(endpoint.Parallel); err != nil {
		return name, nil, err
	}
	if p.ep, err = p.newEndpoint(); err != nil {
		return name, nil, err
	}
	return p.ep.Name(), func(done func() bool) error {
		for !done() {
			p.b.SetEventMask(endpoint.NotEmpty)
			ctx, cancel := node.WithTimeout(context.Background(), 10*time.Millisecond)
			err := p.b.Wait(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			p.b.SetEventMask(endpoint.NoEvents)
			for served := 1; served > 0; {
				if served, err = p.b.Poll(); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}
