// Package msg is what Split-C's layers over virtual interfaces say to each other: the
// messages, what a request does at its owner, and the operations that wait for replies.
// There are no handlers: what to do is a small integer, and one switch does it (paper,
// 5.3). The smallest message has 4 bytes.
//
//	offset  size  field
//	     0     1  kind
//	     1     1  the carrier's own, credits for example
//	     2     2  number of the operation, which its reply repeats
//
// Behind that comes, for get: offset (8), length (4); put and store: offset (8), data;
// stores: what cork.go says; call: procedure (4), arguments; all others: data. Numbers are
// little-endian.
package msg

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

// Kinds of messages. Those from Got on are replies.
const (
	Get = 1 + iota
	Put
	Call
	Store   // has no reply
	Stores  // several short ones, has no reply
	Control // has no reply
	Got
	PutDone
	Result
	Refused
	NoOp // no reply to anything: it only has what its carrier says by it
	ends
)

// Channels: short messages and medium ones have queues of their own.
const (
	Short = iota
	Medium
	Channels
)

const (
	// HeaderSize is the length of the smallest message.
	HeaderSize = 4
	prefix     = HeaderSize + 8
	shortData  = 64   // the same over the short channel
	mediumData = 8192 // of get, put and store
)

// Size returns the length of the longest message of a channel.
func Size(channel int) int {
	if channel == Short {
		return HeaderSize + storesData
	}
	return prefix + mediumData
}

// longest returns how many bytes a get over a channel fetches at the most.
func longest(channel int) int {
	if channel == Short {
		return shortData
	}
	return mediumData
}

// IsReply reports whether a kind is a reply to a request.
func IsReply(kind byte) bool { return kind >= Got && kind < NoOp }

// HasReply reports whether a kind of request has one.
func HasReply(kind byte) bool { return kind >= Get && kind < Store }

// Valid reports whether there is such a kind.
func Valid(kind byte) bool { return kind >= Get && kind < ends }

// Carrier carries messages to other ranks. A request waits for room.
type Carrier interface {
	// Room waits until a request may go to a rank over a channel, and returns the memory
	// to build it in, of Size(channel) bytes, and the operations of that channel.
	Room(ctx context.Context, proc, channel int) ([]byte, *Pending, error)
	// Send sends the first n bytes of what Room has returned, and data behind them. As long
	// as it needs these where they are they count in Counters.Sources.
	Send(proc, channel, n int, data []byte) error
	// Ready reports whether Room would not wait.
	Ready(proc, channel int) bool
}

// errRefused is the failure of an operation that its owner has refused.
var errRefused = errors.New("the owner of the memory has refused an operation: the ranks disagree about the heap")

// Operations are the operations of layer.Layer over a carrier.
type Operations struct {
	*mesh.Base
	Carrier Carrier
	result  [layer.MaxCall]byte
	corks   []cork // by rank
	corked  []int  // ranks of which something is held back
	turn    uint   // counts polls and waits
}

// channelFor returns over which channel so many bytes go.
func channelFor(n int) int {
	if n <= shortData {
		return Short
	}
	return Medium
}

// start sends a request that has a reply.
func (o *Operations) start(proc, channel int, b []byte, p *Pending, kind byte, dst []byte, n int, data []byte) error {
	id := p.begin(kind, dst)
	b[0] = kind
	binary.LittleEndian.PutUint16(b[2:], id)
	o.Count.Outstanding++
	o.Did.Requests++
	err := o.Carrier.Send(proc, channel, n, data)
	if err != nil {
		p.end(id)
		o.Count.Outstanding--
	}
	return err
}

// Get starts to read from a heap.
func (o *Operations) Get(ctx context.Context, proc int, dst []byte, off uint64) error {
	for len(dst) > 0 {
		n := min(len(dst), mediumData)
		channel := channelFor(n)
		b, p, err := o.Carrier.Room(ctx, proc, channel)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		binary.LittleEndian.PutUint32(b[prefix:], uint32(n))
		if err := o.start(proc, channel, b, p, Get, dst[:n], prefix+4, nil); err != nil {
			return err
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

// Put starts to write to a heap.
func (o *Operations) Put(ctx context.Context, proc int, off uint64, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), mediumData)
		channel := channelFor(n)
		b, p, err := o.Carrier.Room(ctx, proc, channel)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		if err := o.start(proc, channel, b, p, Put, nil, prefix, src[:n]); err != nil {
			return err
		}
		src, off = src[n:], off+uint64(n)
	}
	return nil
}

// Store starts to write to a heap, where the bytes count. It has no reply.
func (o *Operations) Store(ctx context.Context, proc int, off uint64, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), mediumData)
		if n <= shortData {
			return o.storeShort(ctx, proc, off, src)
		}
		b, _, err := o.Carrier.Room(ctx, proc, Medium)
		if err != nil {
			return err
		}
		b[0] = Store
		clear(b[2:HeaderSize])
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		o.Did.Requests++
		if err := o.Carrier.Send(proc, Medium, prefix, src[:n]); err != nil {
			return err
		}
		src, off = src[n:], off+uint64(n)
	}
	return nil
}

// Call starts to run a procedure. It takes the medium channel, since the length of its
// result is not known.
func (o *Operations) Call(ctx context.Context, proc int, fn uint32, args, result []byte) error {
	b, p, err := o.Carrier.Room(ctx, proc, Medium)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b[HeaderSize:], fn)
	return o.start(proc, Medium, b, p, Call, result, HeaderSize+4, args)
}

// Control sends a control message. All take the medium channel, so that they stay in order.
func (o *Operations) Control(ctx context.Context, proc int, msg []byte) error {
	b, _, err := o.Carrier.Room(ctx, proc, Medium)
	if err != nil {
		return err
	}
	b[0] = Control
	clear(b[2:HeaderSize])
	o.Did.Requests++
	return o.Carrier.Send(proc, Medium, HeaderSize, msg)
}
