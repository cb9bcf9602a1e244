// Package msg is the message protocol of Split-C's layers over virtual interfaces: the messages,
// the execution of requests at their owner, and the operations that wait for replies. There are no
// handlers: a small integer selects the action, in one switch (paper, 5.3). The smallest message
// has 4 bytes.
//
//	offset  size  field
//	     0     1  kind
//	     1     1  the carrier's own, credits for example
//	     2     2  number of the operation, which its reply repeats
//
// The rest depends on the kind. get: offset (8), length (4). put and store: offset (8), data.
// stores: see cork.go. call: procedure (4), arguments. All others: data. Numbers are little-endian.
package msg

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
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
	NoOp // not a reply: it only carries information of the flow
	ends
)

// Channels: short and medium messages have separate queues.
const (
	Short = iota
	Medium
	Channels
)

const (
	// HeaderSize is the length of the smallest message.
	HeaderSize = 4
	prefix     = HeaderSize + 8
	shortData  = 64   // the same, over the short channel
	mediumData = 8192 // of get, put and store
)

// Size returns the length of the longest message of a channel.
func Size(channel int) int {
	if channel == Short {
		return HeaderSize + storesData
	}
	return prefix + mediumData
}

// longest returns the most bytes that one get over a channel fetches.
func longest(channel int) int {
	if channel == Short {
		return shortData
	}
	return mediumData
}

// IsReply reports whether a kind is a reply to a request.
func IsReply(kind byte) bool { return kind >= Got && kind < NoOp }

// HasReply reports whether a kind of request has a reply.
func HasReply(kind byte) bool { return kind >= Get && kind < Store }

// Valid reports whether a kind exists.
func Valid(kind byte) bool { return kind >= Get && kind < ends }

// errRefused is the error of an operation that the owner of the memory has refused, because the memory lies outside
// the owner's heap. This rank checks addresses against its own heap, so the heaps have different sizes.
var errRefused = errors.New("it refused an operation: the address is outside its heap (do all ranks run the same program with the same Config.HeapSize?)")

// Layer is layer.Layer over the channels of a scheme.
type Layer struct {
	mesh.Base
	scheme   *Scheme
	channels [][Channels]*Channel // by rank; nil for this rank
	slabs    mesh.Slabs
	ptag     vipl.Ptag
	heap     vipl.MemHandle // of this rank's heap; 0 if it is not used for sends

	result [layer.MaxCall]byte
	corks  []cork // by rank
	corked []int  // ranks for which stores are held back
	turn   uint   // counts polls and waits
}

var _ layer.Layer = (*Layer)(nil)

// channelFor returns the channel for a message with n bytes of data.
func channelFor(n int) int {
	if n <= shortData {
		return Short
	}
	return Medium
}

// sendRequest sends a request that has a reply.
func (l *Layer) sendRequest(c *Channel, b []byte, kind byte, dst []byte, n int, data []byte) error {
	id := c.Pending.begin(kind, dst)
	b[0] = kind
	binary.LittleEndian.PutUint16(b[2:], id)
	l.Count.Outstanding++
	err := l.send(c, n, data)
	if err != nil {
		c.Pending.end(id)
		l.Count.Outstanding--
	}
	return err
}

// Get starts to read from a heap.
func (l *Layer) Get(ctx context.Context, proc int, dst []byte, off uint64) error {
	for len(dst) > 0 {
		n := min(len(dst), mediumData)
		b, c, err := l.room(ctx, proc, channelFor(n))
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		binary.LittleEndian.PutUint32(b[prefix:], uint32(n))
		if err := l.sendRequest(c, b, Get, dst[:n], prefix+4, nil); err != nil {
			return err
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

// Put starts to write to a heap.
func (l *Layer) Put(ctx context.Context, proc int, off uint64, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), mediumData)
		b, c, err := l.room(ctx, proc, channelFor(n))
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		if err := l.sendRequest(c, b, Put, nil, prefix, src[:n]); err != nil {
			return err
		}
		src, off = src[n:], off+uint64(n)
	}
	return nil
}

// Store starts to write to a heap, where the bytes are counted. It has no reply.
func (l *Layer) Store(ctx context.Context, proc int, off uint64, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), mediumData)
		if n <= shortData {
			return l.storeShort(ctx, proc, off, src)
		}
		b, c, err := l.room(ctx, proc, Medium)
		if err != nil {
			return err
		}
		b[0] = Store
		clear(b[2:HeaderSize])
		binary.LittleEndian.PutUint64(b[HeaderSize:], off)
		if err := l.send(c, prefix, src[:n]); err != nil {
			return err
		}
		src, off = src[n:], off+uint64(n)
	}
	return nil
}

// Call starts to run a procedure. It uses the medium channel, because the length of its result is
// unknown.
func (l *Layer) Call(ctx context.Context, proc int, fn uint32, args, result []byte) error {
	b, c, err := l.room(ctx, proc, Medium)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b[HeaderSize:], fn)
	return l.sendRequest(c, b, Call, result, HeaderSize+4, args)
}

// Control sends a control message. All use the medium channel, so that they stay in order.
func (l *Layer) Control(ctx context.Context, proc int, msg []byte) error {
	b, c, err := l.room(ctx, proc, Medium)
	if err != nil {
		return err
	}
	b[0] = Control
	clear(b[2:HeaderSize])
	return l.send(c, HeaderSize, msg)
}
