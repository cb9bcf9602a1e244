package tun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// reader takes packets of the kernel's. It reads them to where the stream of the neighbour sends
// from that the last one was for, as the next one is likely to be, too.
type reader struct {
	t    *Tun
	own  *buffer
	last *peer
	held []byte // of the stream
}

// patience is how long reading stops for a neighbour whose stream is full. One that takes what it
// is sent has room for a packet before; for one that does not, packets are queued from then on.
const patience = 200 * time.Microsecond

// room returns where a packet can be read to.
func (r *reader) room() []byte {
	if p := r.last; p != nil && p.queued.Load() == 0 {
		if r.held = p.conn.Reserve(recordHead+maxRecord, patience); r.held != nil {
			return r.held[recordHead:]
		}
	}
	return r.own.room()
}

// none gives back what room has returned.
func (r *reader) none() {
	if r.held != nil {
		r.last.conn.Commit(0)
		r.held = nil
	}
}

// run reads until the device ends.
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

// took sends the packet of n octets that lies where room has said.
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

// sentInPlace sends the packet of n octets that lies in the stream, if it is the neighbour's.
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
