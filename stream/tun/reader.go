package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// reader reads packets from the kernel. It reads them into the write buffer of the stream that the
// previous packet went to, because the next packet probably goes to the same neighbour.
type reader struct {
	t    *Tun
	own  *buffer
	last *peer
	held []byte // of the stream
}

// patience is how long reading pauses for a neighbour whose stream is full. A neighbour that reads
// makes room in less time. For others, packets are queued after that time.
const patience = 200 * time.Microsecond

// room returns the memory to read a packet into.
func (r *reader) room() []byte {
	if p := r.last; p != nil && p.queued.Load() == 0 {
		if r.held = p.conn.Reserve(recordHead+maxRecord, patience); r.held != nil {
			return r.held[recordHead:]
		}
	}
	return r.own.room()
}

// none releases the memory that room returned.
func (r *reader) none() {
	if r.held != nil {
		r.last.conn.Commit(0)
		r.held = nil
	}
}

// run reads packets until the device is closed.
func (r *reader) run() error {
	for {
		n, err := r.t.dev.read(r)
		if err != nil {
			r.own.free()
			if errors.Is(err, os.ErrClosed) {
				return net.ErrClosed
			}
			return fmt.Errorf("tun: %s: %w", r.t.dev.name, err)
		}
		r.took(n)
	}
}

// took sends the packet of n bytes in the memory that room returned.
func (r *reader) took(n int) {
	if r.held != nil {
		if r.sentInPlace(n) {
			return
		}
		copy(r.own.room(), r.held[recordHead:][:n])
		r.none()
	}
	r.own, r.last = r.t.outgoing(r.own.fill(n))
}

// sentInPlace sends the packet of n bytes in the stream's buffer, if it goes to that stream's
// neighbour.
func (r *reader) sentInPlace(n int) bool {
	packet := content(r.held[recordHead:][:n]).packet()
	e, ok := parse(packet, len(packet))
	o := getOffload(r.held[recordHead:])
	if !ok || r.t.neighbour(e.dst) != r.last || o.longest(packet) > r.last.mtu {
		return false
	}
	binary.LittleEndian.PutUint32(r.held, uint32(n))
	if r.last.conn.Commit(recordHead+n) == nil {
		r.t.sent(r.last, len(packet))
	}
	r.held = nil
	return true
}
