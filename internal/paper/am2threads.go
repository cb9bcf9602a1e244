package paper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// threadServer is the server of figure 11: each of its endpoints has a thread, which waits on a
// semaphore that an arriving message posts.
type threadServer struct {
	*amNet
	node *endpoint.Node
	wake time.Duration // the processor's time to wake a thread
	free int64         // the time at which the processor has woken all threads so far
	left int           // threads that have not ended
	errs []error
}

// measureThreads makes clients send requests to a server for d. Each has an endpoint of its own,
// with four requests in flight.
func measureThreads(ctx context.Context, cfg amConfig, clients int, d time.Duration) (crowd, error) {
	net, err := newAMNetOf(ctx, topology.NOW(), clients+1, func(host int) amConfig {
		c := cfg
		c.Spin = host > 0 // interrupts wake a server that waits
		return c
	})
	if err != nil {
		return crowd{}, err
	}
	s := &threadServer{amNet: net, wake: cfg.wake, left: clients}
	net.serve = s.serve
	c, err := measureOn(net, amUnderWay, d, one, toOwnEndpoint, shortRequests)
	return c, errors.Join(append(s.errs, err)...)
}

// serve is the program of the server.
func (s *threadServer) serve() error {
	node, err := s.openNode(0)
	if err != nil {
		return err
	}
	s.node = node
	for i := range s.left {
		b, err := node.NewBundle(endpoint.Parallel)
		if err != nil {
			return err
		}
		h := &amHost{net: s.amNet, w: s.w, ctx: s.ctx, node: node, b: b}
		if err := h.newEndpoint(0); err != nil {
			return err
		}
		s.w.Go(fmt.Sprint("thread ", i), func() {
			if err := s.thread(b); err != nil {
				s.errs, s.over = append(s.errs, err), s.clients
			}
			s.left--
		})
	}
	s.opened++
	for s.left > 0 {
		if err := s.w.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return node.Close()
}

// thread waits for messages, handles all arrived messages with events disabled, and waits again.
func (s *threadServer) thread(b *endpoint.Bundle) error {
	for s.clients == 0 || s.over < s.clients {
		b.SetEventMask(endpoint.NotEmpty)
		ctx, cancel := s.node.WithTimeout(s.ctx, 10*time.Millisecond)
		err := b.Wait(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err == nil {
			if err := s.woken(); err != nil {
				return err
			}
		}
		b.SetEventMask(endpoint.NoEvents)
		for served := 1; served > 0; {
			if served, err = b.Poll(); err != nil {
				return err
			}
		}
	}
	return nil
}

// woken returns when the processor, which threads share, has switched to a thread whose semaphore
// was posted.
func (s *threadServer) woken() error {
	s.free = max(s.free, s.w.Now()) + int64(s.wake)
	return s.w.Sleep(time.Duration(s.free - s.w.Now()))
}
