package main

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
)

// The handlers of the server, and of the client.
const (
	hPut = 1 // data: the key of args[0] bytes, followed by the value
	hGet = 2 // data: the key
	hBye = 3 // the client has finished

	hOK    = 1 // put
	hValue = 2 // data: the value
	hNone  = 3 // no such key
)

// tag separates this store's messages from others.
const tag endpoint.Tag = 0x6b76

// drainTime is how long the server waits for its last answers to arrive.
const drainTime = 100 * time.Millisecond

// serve holds the table until all clients have finished, and returns the number of keys.
func serve(ctx context.Context, node *endpoint.Node, word string, clients int) (keys int, err error) {
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return 0, err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return 0, err
	}
	ep.SetTag(tag)
	ep.SetReturnHandler(func(*endpoint.Returned) {}) // a client that has gone needs no answer
	table := map[string][]byte{}
	ep.SetHandler(hPut, func(t endpoint.Token, args []uint32, data []byte) {
		if len(args) == 1 && int64(args[0]) <= int64(len(data)) {
			table[string(data[:args[0]])] = append([]byte(nil), data[args[0]:]...)
		}
		t.Reply(hOK)
	})
	ep.SetHandler(hGet, func(t endpoint.Token, args []uint32, data []byte) {
		if value, ok := table[string(data)]; ok {
			t.ReplyMedium(hValue, value)
		} else {
			t.Reply(hNone)
		}
	})
	ep.SetHandler(hBye, func(t endpoint.Token, args []uint32, data []byte) {
		clients--
		t.Reply(hOK)
	})
	if err := ep.Publish(word); err != nil {
		return 0, err
	}
	for clients > 0 {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return 0, err
		}
	}
	ctx, cancel := node.WithTimeout(ctx, drainTime)
	defer cancel()
	for err == nil {
		_, err = bundle.WaitPoll(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return len(table), err
}
