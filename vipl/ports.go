package vipl

import (
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// portTable says who has which port of a NIC, and how many VIs and completion queues there
// are.
type portTable struct {
	all            transport.PortRange
	vis            []*VI // by port - all.Lo
	numVIs, numCQs int
	next           uint16 // where to look for a free one, less all.Lo
	listeners      map[uint16]*Listener
	discriminators map[string]*Listener // those of ListenFor
}

func (t *portTable) init(all transport.PortRange) {
	*t = portTable{all: all, vis: make([]*VI, all.Len()), listeners: map[uint16]*Listener{}, discriminators: map[string]*Listener{}}
}

// vi returns the VI at a port, nil if there is none.
func (t *portTable) vi(port uint16) *VI {
	if i := int(port) - int(t.all.Lo); i >= 0 && i < len(t.vis) {
		return t.vis[i]
	}
	return nil
}

// add puts a new VI at its port.
func (t *portTable) add(v *VI) {
	t.vis[v.conn.Port-t.all.Lo] = v
	t.numVIs++
}

// remove frees the port of a VI.
func (t *portTable) remove(v *VI) {
	t.vis[v.conn.Port-t.all.Lo] = nil
	t.numVIs--
}

// side returns the side of handshakes at a port, nil if there is no VI.
func (t *portTable) side(port uint16) *handshake.Side {
	if v := t.vi(port); v != nil {
		return &v.side
	}
	return nil
}

// listener returns the one at a port, or of a discriminator if that is not nil; nil if there
// is none.
func (t *portTable) listener(port uint16, discriminator []byte) *handshake.Listener {
	l := t.listeners[port]
	if discriminator != nil {
		l = t.discriminators[string(discriminator)]
	}
	if l == nil {
		return nil
	}
	return &l.in
}

// free picks the next port that no VI and no listener has, cyclically, so
// that a port is not used again soon. The lowest is the NIC's own.
func (t *portTable) free() (uint16, bool) {
	size := t.all.Len()
	for range size {
		t.next = uint16((int(t.next) + 1) % size)
		port := t.all.Lo + t.next
		if t.next != 0 && t.vis[t.next] == nil && t.listeners[port] == nil {
			return port, true
		}
	}
	return 0, false
}
