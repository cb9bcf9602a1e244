package engine

import (
	"iter"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// Ports maps a NIC's ports to their owners.
type Ports struct {
	Count     int // VIs
	Listeners map[uint16]*handshake.Listener
	Names     map[string]*handshake.Listener // by discriminator
	all       transport.PortRange
	seats     []seat // by port - all.Lo, up to the highest port that a VI has had
	next      uint16 // where to start the search for a free port, minus all.Lo
}

// seat is the owner of a port: a VI's connection and its side of handshakes, or nil.
type seat struct {
	conn *conn.Conn
	side *handshake.Side
}

func (p *Ports) init(all transport.PortRange) {
	*p = Ports{all: all, Listeners: map[uint16]*handshake.Listener{}, Names: map[string]*handshake.Listener{}}
}

// Add registers a VI at the port of its connection. The table grows with the ports in use, because
// a NIC walks over it often, and a table of all ports takes 1 MiB. Free returns low ports first.
func (p *Ports) Add(c *conn.Conn, s *handshake.Side) {
	i := int(c.Port - p.all.Lo)
	if more := i + 1 - len(p.seats); more > 0 {
		p.seats = append(p.seats, make([]seat, more)...)
	}
	p.seats[i] = seat{c, s}
	p.Count++
}

// Remove frees the port of a connection.
func (p *Ports) Remove(c *conn.Conn) {
	p.seats[c.Port-p.all.Lo] = seat{}
	p.Count--
}

// Conn returns the connection at a port, or nil.
func (p *Ports) Conn(port uint16) *conn.Conn {
	if i := int(port) - int(p.all.Lo); i >= 0 && i < len(p.seats) {
		return p.seats[i].conn
	}
	return nil
}

// Conns yields the connections in the order of their ports.
func (p *Ports) Conns() iter.Seq[*conn.Conn] {
	return func(yield func(*conn.Conn) bool) {
		for i := range p.seats {
			if c := p.seats[i].conn; c != nil && !yield(c) {
				return
			}
		}
	}
}

// sides yields the connections with their sides of handshakes.
func (p *Ports) sides() iter.Seq2[*conn.Conn, *handshake.Side] {
	return func(yield func(*conn.Conn, *handshake.Side) bool) {
		for i := range p.seats {
			if s := &p.seats[i]; s.conn != nil && !yield(s.conn, s.side) {
				return
			}
		}
	}
}

// side returns the side of handshakes at a port, or nil.
func (p *Ports) side(port uint16) *handshake.Side {
	if p.Conn(port) == nil {
		return nil
	}
	return p.seats[port-p.all.Lo].side
}

// listener returns the listener at a port, or of a discriminator if that is not nil. It returns nil
// if there is none.
func (p *Ports) listener(port uint16, discriminator []byte) *handshake.Listener {
	if discriminator != nil {
		return p.Names[string(discriminator)]
	}
	return p.Listeners[port]
}

// InUse reports whether a VI or a listener has a port.
func (p *Ports) InUse(port uint16) bool { return p.Listeners[port] != nil || p.Conn(port) != nil }

// Free returns the next port that no VI and no listener uses, cyclically, so that a port is not
// reused soon. The lowest port belongs to the NIC itself.
func (p *Ports) Free() (uint16, bool) {
	size := p.all.Len()
	for range size {
		p.next = uint16((int(p.next) + 1) % size)
		if port := p.all.Lo + p.next; p.next != 0 && !p.InUse(port) {
			return port, true
		}
	}
	return 0, false
}
