package main

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint"
)

// store is a client's connection to the server. Only one goroutine may use it.
type store struct {
	node   *endpoint.Node
	bundle *endpoint.Bundle
	ep     *endpoint.Endpoint
	// Results of the handlers.
	answered bool
	found    bool
	value    []byte
	back     error // the request was returned
}

func dial(ctx context.Context, node *endpoint.Node, word string) (*store, error) {
	name, err := node.Find(ctx, word)
	if err != nil {
		return nil, err
	}
	s := &store{node: node}
	if s.bundle, err = node.NewBundle(endpoint.Sequential); err != nil {
		return nil, err
	}
	if s.ep, err = s.bundle.NewEndpoint(); err != nil {
		return nil, err
	}
	s.ep.SetTag(tag)
	answer := func(found bool) endpoint.Handler {
		return func(_ endpoint.Token, _ []uint32, data []byte) {
			s.answered, s.found = true, found
			s.value = append(s.value[:0], data...) // data belong to the library after the handler returns
		}
	}
	s.ep.SetHandler(hOK, answer(true))
	s.ep.SetHandler(hValue, answer(true))
	s.ep.SetHandler(hNone, answer(false))
	s.ep.SetReturnHandler(func(r *endpoint.Returned) {
		s.answered, s.back = true, fmt.Errorf("the store at %v: %v", r.To, r.Reason)
	})
	return s, s.ep.Map(0, name, tag)
}

// put stores a value, and returns when the server has it.
func (s *store) put(ctx context.Context, key string, value []byte) error {
	data := append(append(make([]byte, 0, 256), key...), value...)
	return s.ask(ctx, hPut, data, uint32(len(key)))
}

// get returns a value, which is valid until the next call.
func (s *store) get(ctx context.Context, key string) (value []byte, found bool, err error) {
	err = s.ask(ctx, hGet, []byte(key))
	return s.value, s.found, err
}

// bye reports to the server that this client has finished. A returned message is not an error: the
// server leaves soon after the last client has finished, and its answer may be lost.
func (s *store) bye(ctx context.Context) error {
	if err := s.ask(ctx, hBye, nil); s.back == nil {
		return err
	}
	return nil
}

// ask sends a request and runs handlers until one of them has received the answer.
func (s *store) ask(ctx context.Context, handler uint8, data []byte, args ...uint32) error {
	s.answered, s.back = false, nil
	if err := s.ep.RequestMedium(ctx, 0, handler, data, args...); err != nil {
		return err
	}
	for !s.answered {
		if _, err := s.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return s.back
}
