package paper

import (
	"encoding/binary"
	"slices"
	"time"
)

// viaLayer is how Split-C, or a benchmark, uses the VIs between two processes: the paper's
// layers, a message each for what it asks and for what it answers. They are models of the
// paper's rules: the layers of package splitc put several messages into one, which the
// paper's do not.
type viaLayer struct {
	name    string
	vis     int    // between two processes, for short and medium messages, and perhaps bulk
	credits [2]int // of short and medium messages
	least   int    // octets of a message
	replies bool   // a store has one, too
	counted bool   // messages are numbered, and each says how many requests have been processed
	bare    bool   // the host's routines take no time: VIA without a layer
	poll    time.Duration
}

// Kinds of messages. Those from viaReply on are replies.
const (
	viaGet = iota
	viaPut
	viaStore
	viaReply
	viaNoOp
)

// viaChannel is what a process knows of one of its VIs.
type viaChannel struct {
	sent      int // requests
	back      int // of these, those for which the other process has given the credit back
	processed int // requests of the other process
	told      int // of these, those of which the other process has been told
}

// viaRank is a process of a program.
type viaRank struct {
	*viaHost
	m           *viaModel
	layer       viaLayer
	channels    [2]viaChannel
	outstanding int // gets and puts
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

// request asks for n octets, or to write them. It takes in what has come, and waits for a
// credit.
func (r *viaRank) request(kind byte, n int) error {
	vi := channelOf(n)
	c := &r.channels[vi]
	if err := r.take(); err != nil {
		return err
	}
	for c.sent-c.back >= r.layer.credits[vi] {
		if err := r.await(); err != nil {
			return err
		}
	}
	c.sent++
	if kind != viaStore {
		r.outstanding++
	}
	carried := n
	if kind == viaGet {
		carried = 0
	}
	return r.send(vi, kind, n, carried)
}

// send sends a message with so many octets of data, about n.
func (r *viaRank) send(vi int, kind byte, n, carried int) error {
	if !r.layer.bare {
		if err := r.works(r.m.send + r.m.copies(carried)); err != nil {
			return err
		}
	}
	m := make([]byte, max(viaHead+carried, r.layer.least))
	c := &r.channels[vi]
	m[0], m[1] = byte(vi), kind
	binary.LittleEndian.PutUint32(m[4:], uint32(n))
	if r.layer.counted {
		binary.LittleEndian.PutUint32(m[8:], uint32(c.processed))
	} else {
		binary.LittleEndian.PutUint32(m[8:], uint32(c.processed-c.told))
	}
	c.told = c.processed
	return r.post(vi, m)
}

// take polls: of all that has come, the first reply and the first request are handled.
func (r *viaRank) take() error {
	isReply := func(m []byte) bool { return m[1] >= viaReply }
	isRequest := func(m []byte) bool { return m[1] < viaReply }
	if len(r.queue) == 0 {
		return nil
	}
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

// polls is what the poll routine takes beside the messages.
func (r *viaRank) polls() error {
	if r.layer.bare {
		return nil
	}
	return r.works(r.layer.poll)
}

// await waits until something happens, and polls.
func (r *viaRank) await() error {
	if len(r.queue) == 0 {
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

// handle does what a message is for, and posts its receive again.
func (r *viaRank) handle(m []byte) error {
	if !r.layer.bare {
		if err := r.works(r.m.receive); err != nil {
			return err
		}
	}
	vi, kind, n, word := int(m[0]), m[1], int(binary.LittleEndian.Uint32(m[4:])), int(binary.LittleEndian.Uint32(m[8:]))
	c := &r.channels[vi]
	if r.layer.counted {
		c.back = word
	} else {
		c.back += word
	}
	var err error
	switch {
	case kind == viaReply:
		r.outstanding = max(0, r.outstanding-1)
	case kind == viaNoOp:
	case kind == viaStore && !r.layer.replies:
		c.processed++
		if c.processed-c.told >= r.layer.credits[vi]/4 {
			err = r.send(vi, viaNoOp, 0, 0)
		}
	default:
		c.processed++
		carried := 0
		if kind == viaGet {
			carried = n
		}
		err = r.send(vi, viaReply, n, carried)
	}
	if err != nil {
		return err
	}
	return r.repost(vi)
}
