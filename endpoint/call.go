package endpoint

import (
	"context"
	"encoding"
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// Remote procedure calls: one request and one reply, with types. Requests and results are []byte,
// string, types with the methods MarshalBinary and UnmarshalBinary, or values of fixed size as
// defined by package encoding/binary (little-endian). They must fit into medium messages.

// CallError is the error of a call whose request was returned, or whose reply was refused.
type CallError struct {
	Reason Reason
	Err    error // details; may be nil
}

func (e *CallError) Error() string {
	s := "endpoint: the call came back: " + e.Reason.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// RemoteError is the error of the called function.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// call is a Call that waits for its result. The node's mutex guards it.
type call struct {
	done   bool
	failed bool // data is the text of an error
	err    error
	data   []byte
}

func (c *call) finish(err error) {
	if !c.done {
		c.done, c.err = true, err
	}
}

// answer handles the reply. args contains 0 for a result, or 1 for an error.
func (c *call) answer(args []uint32, data []byte) {
	c.finish(nil)
	c.failed = len(args) > 0 && args[0] != 0
	c.data = append(c.data, data...)
}

// Serve sets handler i of ep to a function that Call can call. It runs like a handler, on the
// goroutine that polls, and must not block. The caller gets its error as a *RemoteError.
func Serve[Request, Result any](ep *Endpoint, i uint8, f func(t Token, r Request) (Result, error)) error {
	var none Result
	if _, err := encode(nil, none); err != nil {
		return err
	}
	return ep.SetHandler(i, func(t Token, _ []uint32, data []byte) {
		if t.s == nil { // a reply has named it, which calls nothing
			return
		}
		var r Request
		err := decode(data, &r)
		if err == nil {
			var result Result
			if result, err = f(t, r); err == nil {
				data, err = encode(nil, result)
			}
			if limit := t.s.shape.Medium; err == nil && len(data) > limit {
				err = provider.OpError("serve", ErrResource, "the result of %d bytes is longer than a medium message of %d", len(data), limit)
			}
		}
		if err == nil {
			t.ReplyMedium(0, data, 0)
			return
		}
		text := err.Error()
		t.ReplyMedium(0, []byte(text[:min(len(text), t.s.shape.Medium)]), 1)
	})
}

// Call calls the function that Serve has set as handler i at the destination, and polls until the
// result arrives or ctx ends. The errors are a *CallError if the request was returned (for example
// if the tag of Map differs from the destination's tag), a *RemoteError, ErrNoReply, and those of
// RequestMedium. The ReturnHandler is not called. If ctx has ended, the function may still run at
// the destination.
func Call[Request, Result any](ctx context.Context, ep *Endpoint, dest int, i uint8, r Request) (result Result, err error) {
	data, err := encode(nil, r)
	if err != nil {
		return result, err
	}
	c := &call{}
	if err := ep.request(ctx, dest, &message{op: OpRequestMedium, handler: i, wait: true}, nil, data, c); err != nil {
		return result, err
	}
	if err := ep.awaitCall(ctx, c); err != nil {
		return result, err
	}
	if c.failed {
		return result, &RemoteError{string(c.data)}
	}
	return result, decode(c.data, &result)
}

func (ep *Endpoint) awaitCall(ctx context.Context, c *call) error {
	n := ep.node
	n.mu.Lock()
	defer n.leave()
	for !c.done {
		if n.closed { // since the request was sent, and no handler may run
			return errNodeClosed
		}
		served := ep.bundle.serve(pollBatch)
		if c.done {
			break
		}
		if err := ep.bundle.pause(ctx, served); err != nil && !c.done {
			return err
		}
	}
	n.way.Flush(wire.Asking)
	return c.err
}

// encode appends the wire form of v.
func encode(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append(b, v...), nil
	case string:
		return append(b, v...), nil
	case encoding.BinaryAppender:
		return v.AppendBinary(b)
	case encoding.BinaryMarshaler:
		m, err := v.MarshalBinary()
		return append(b, m...), err
	}
	b, err := binary.Append(b, binary.LittleEndian, v)
	if err != nil {
		return nil, provider.OpError("call", ErrArgument, "%T has no binary form of fixed size: give it the methods MarshalBinary and UnmarshalBinary", v)
	}
	return b, nil
}

// decode reads the output of encode. v is a pointer.
func decode(b []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = append([]byte(nil), b...)
		return nil
	case *string:
		*v = string(b)
		return nil
	case encoding.BinaryUnmarshaler:
		return v.UnmarshalBinary(b)
	}
	if n, err := binary.Decode(b, binary.LittleEndian, v); err != nil || n != len(b) {
		return fmt.Errorf("endpoint: call: %d bytes do not decode to %T (do both sides use the same type?)", len(b), v)
	}
	return nil
}
