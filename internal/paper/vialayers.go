package paper

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
)

// viaLayer describes how Split-C, or a benchmark, uses the VIs between two processes. It models the
// paper's layers, which send one message for each request and for each reply. In contrast, the
// layers of package splitc put several requests or replies into one message.
type viaLayer struct {
	name    string
	vis     int           // VIs between two processes: for short messages, for medium messages, and optionally for bulk messages
	credits [2]int        // of short and medium messages
	least   int           // minimum number of bytes of a message
	replies bool          // stores have replies, too
	counted bool          // messages are numbered, and each carries the number of processed requests
	bare    bool          // VIA without a layer: no copies, and no poll routine
	shared  bool          // processes of a host access each other's memory directly
	poll    time.Duration // time of the poll routine when a message has arrived
	recycle time.Duration // time of the poll routine to take back a send descriptor
}

// Kinds of messages. All layers answer the kinds up to viaAdd. The kinds from viaReply on are
// replies. The last of these only returns credits.
const (
	viaGet = iota
	viaPut
	viaAdd
	viaStore // with stored data that notify the other process: a skeleton's requests
	viaUp
	viaDown
	viaReply
	viaAdded // the answer to an addition
	viaNoOp
)

// viaChannel is a process's state of one of its VIs.
type viaChannel struct {
	sent      int // requests
	back      int // requests whose credit the other process has returned
	processed int // requests of the other process
	told      int // requests reported as processed to the other process
}

// viaRank is a process of a program.
type viaRank struct {
	*viaHost
	m           *viaModel
	layer       viaLayer
	channels    [][2]viaChannel // channels to each rank
	outstanding int             // gets and puts that are not complete
	program     *skeleton.Rank  // the skeleton that runs; nil if none runs
	others      []*viaRank      // by rank
}

// Short and medium messages.
const (
	viaShort = iota
	viaMedium
)

func channelOf(n int) int {
	if n > 64 {
		return viaMedium
	}
	return viaShort
}

// request asks a rank to send or to write n bytes. It polls if a message has arrived, and until it
// has a credit and a send descriptor. There are twice as many send descriptors as credits. Replies
// always find a descriptor, because a poll that hands out a request frees one.
func (r *viaRank) request(to int, kind byte, value int32, n int) error {
	vi := channelOf(n)
	c := &r.channels[to][vi]
	if len(r.queue) > 0 {
		if err := r.take(); err != nil {
			return err
		}
	}
	for k := r.layer.credits[vi]; c.sent-c.back >= k || r.vis[to][vi].used >= 2*k; {
		if err := r.await(); err != nil {
			return err
		}
	}
	c.sent++
	if kind < viaAdd {
		r.outstanding++
	}
	carried := n
	if kind == viaGet {
		carried = 0
	}
	return r.send(to, vi, kind, value, n, carried)
}

// send sends a message about n bytes, which carries a number of bytes of data. Over unreliable VIA,
// each message carries the number of processed requests. Over other layers, a reply returns one
// credit, and a special message returns all credits that are due.
func (r *viaRank) send(to, vi int, kind byte, value int32, n, carried int) error {
	takes := r.m.send
	if !r.layer.bare {
		takes += r.m.copies(carried)
	}
	if err := r.works(takes); err != nil {
		return err
	}
	c := &r.channels[to][vi]
	m := make([]byte, max(viaHead+carried, r.layer.least))
	m[0], m[1], m[viaFrom], m[viaTo] = byte(vi), kind, byte(r.rank), byte(to)
	binary.LittleEndian.PutUint32(m[4:], uint32(n))
	word := 0
	switch {
	case r.layer.counted:
		word, c.told = c.processed, c.processed
	case kind == viaReply || kind == viaAdded:
		word = 1
		c.told++
	case kind == viaNoOp:
		word, c.told = c.processed-c.told, c.processed
	}
	binary.LittleEndian.PutUint32(m[8:], uint32(word))
	if carried >= 4 {
		binary.LittleEndian.PutUint32(m[viaHead:], uint32(value))
	}
	return r.post(r.vis[to][vi], m)
}

// take polls. It handles the first arrived reply and the first arrived request, and takes back one
// send descriptor whose message has been sent.
func (r *viaRank) take() error {
	isReply := func(m []byte) bool { return m[1] >= viaReply }
	isRequest := func(m []byte) bool { return m[1] < viaReply }
	if err := r.polls(); err != nil {
		return err
	}
	for _, which := range []func([]byte) bool{isReply, isRequest} {
		if i := slices.IndexFunc(r.queue, which); i >= 0 {
			m := r.queue[i]
			r.queue = slices.Delete(r.queue, i, i+1)
			if err := r.handle(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// polls does the work of the poll routine except for the messages: it takes back a send descriptor,
// and spends the routine's time.
func (r *viaRank) polls() error {
	var takes time.Duration
	if len(r.queue) > 0 {
		takes += r.layer.poll
	}
	if len(r.done) > 0 {
		takes += r.layer.recycle
		r.done[0].used--
		r.done = r.done[1:]
	}
	return r.works(takes)
}

// await waits until something happens, and polls.
func (r *viaRank) await() error {
	if len(r.queue)+len(r.done) == 0 {
		if err := r.sleep(); err != nil {
			return err
		}
	}
	return r.take()
}

// sync waits until all gets and puts are complete.
func (r *viaRank) sync() error {
	for r.outstanding > 0 {
		if err := r.await(); err != nil {
			return err
		}
	}
	return nil
}

// handle performs the request or reply in a message, and reposts the receive of the message.
func (r *viaRank) handle(m []byte) error {
	if err := r.works(r.m.receive); err != nil {
		return err
	}
	vi, kind, from, n := int(m[0]), m[1], int(m[viaFrom]), int(binary.LittleEndian.Uint32(m[4:]))
	word, value := int(binary.LittleEndian.Uint32(m[8:])), int32(0)
	if len(m) >= viaHead+4 {
		value = int32(binary.LittleEndian.Uint32(m[viaHead:]))
	}
	c := &r.channels[from][vi]
	if r.layer.counted {
		c.back = max(c.back, word)
	} else {
		c.back += word
	}
	err := r.serve(c, from, vi, kind, value, n)
	if err != nil {
		return err
	}
	return r.repost(r.vis[from][vi])
}

// serve performs a request, and answers it as the layer specifies.
func (r *viaRank) serve(c *viaChannel, from, vi int, kind byte, value int32, n int) error {
	switch {
	case kind == viaReply:
		r.outstanding = max(0, r.outstanding-1)
		return nil
	case kind == viaAdded:
		r.program.Answered(value)
		return nil
	case kind == viaNoOp:
		return nil
	}
	c.processed++
	var answer int32
	if r.program != nil {
		answer = r.program.Arrived(skeletonKinds[kind], value, n)
	}
	if kind >= viaStore && !r.layer.replies {
		if c.processed-c.told >= r.layer.credits[vi]/4 {
			return r.send(from, vi, viaNoOp, 0, 0, 0)
		}
		return nil
	}
	switch kind {
	case viaGet:
		return r.send(from, vi, viaReply, 0, n, n)
	case viaAdd:
		return r.send(from, vi, viaAdded, answer, n, n)
	}
	return r.send(from, vi, viaReply, 0, n, 0)
}
