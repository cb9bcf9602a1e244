// Package directory finds services, hosts and NICs on the segment: services and hosts by name, all
// NICs by an inquiry, and one NIC by an echo. There is no server: each NIC answers for itself. The
// package does not depend on connections and memory.
//
// The engine's lock guards a Directory. The caller must hold it for all methods. Methods with a
// context release it while they wait.
package directory

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// NIC is the interface of a directory to its NIC.
type NIC interface {
	Now() int64 // the link's clock
	// Send adds a frame with the parts as its payload to the batch. The directory sets destination,
	// kind, ports, tag and the number in Sack.
	Send(h ethertype.Header, parts ...[]byte)
	// SendPadded is Send for a payload that begins with id and has size bytes.
	SendPadded(h ethertype.Header, id []byte, size int)
	Flush()
	MayAnswer(kind guard.Answer) bool
	// Speaks reports whether this NIC answers for all NICs of its interface on this host.
	Speaks() bool
	Unknown() // counts a frame that answers no query
	// Wait is progress.Engine.Wait, with the errors of vipl.
	Wait(w *progress.Waiter, g *progress.Gate) error
	Closed() bool
	Dead() error    // why the link has failed permanently, or nil
	Trouble() error // checks the link and returns its error, or nil
	// ShareTrouble returns why stations of this host cannot be reached, or nil.
	ShareTrouble() error
}

// Self is a NIC's description of itself.
type Self struct {
	Addr        ethertype.Addr
	Ports       transport.PortRange
	Interface   string
	Driver      string
	MTU         int // of the interface
	MinMTU      int // smallest permitted MTU of an interface
	MaxData     int // bytes of payload that fit into a frame
	Incarnation uint64
}

// Directory answers queries for its NIC, and makes queries to the others on its segment.
type Directory struct {
	nic    NIC
	eng    *progress.Engine
	random *guard.Random
	self   Self

	names     nameTable
	hosts     hostTable
	inquiries map[uint32]*inquiry // in progress, by tag
	echoes    map[uint64]*echo    // in progress, by number
}

// Init initializes the directory of a NIC.
func (d *Directory) Init(nic NIC, eng *progress.Engine, random *guard.Random, self Self) {
	*d = Directory{nic: nic, eng: eng, random: random, self: self,
		inquiries: map[uint32]*inquiry{}, echoes: map[uint64]*echo{}}
	d.names.init()
}

// Receive processes a frame of kind Query, Answer, Echo or EchoReply.
func (d *Directory) Receive(h *ethertype.Header, payload []byte) {
	switch {
	case h.Kind == ethertype.KindEcho || h.Kind == ethertype.KindEchoReply:
		d.receiveEcho(h, payload)
	case h.Kind == ethertype.KindQuery && h.Tag != 0:
		d.receiveInquiry(h, payload)
	case h.Kind == ethertype.KindQuery:
		d.receiveQuestion(h, payload)
	case h.Tag != 0:
		d.receiveStation(h, payload)
	default:
		d.receiveName(h, payload)
	}
}

// up returns an error if the name service is stopped.
func (d *Directory) up(op string) error {
	switch {
	case d.nic.Closed():
		return code.ErrClosed
	case d.hosts.shut:
		return code.Error(op, errStopped, "call StartNames")
	}
	return nil
}

// silence returns the error for a query without an answer. It is the problem of the NIC's own link,
// if there is one, and otherwise class with the formatted text.
func (d *Directory) silence(op string, class error, format string, args ...any) error {
	trouble := d.nic.Trouble()
	switch {
	case d.nic.Dead() != nil:
		return code.Error(op, d.nic.Dead(), "open the NIC again")
	case trouble != nil:
		return code.Within(op, fmt.Errorf("%w: cannot receive a reply: %w", class, trouble))
	}
	err := code.Error(op, class, format, args...)
	if trouble := d.nic.ShareTrouble(); trouble != nil {
		err = fmt.Errorf("%w; cannot reach programs of this host: %w", err, trouble)
	}
	return err
}

// collect waits for answers, each of which opens the gate, until the given time. It returns an
// error if ctx ends, except by its deadline.
func (d *Directory) collect(ctx context.Context, g *progress.Gate, until int64) error {
	w := d.eng.Begin(ctx)
	w.Until(until)
	defer d.eng.End(&w)
	for {
		if d.nic.Closed() {
			return code.ErrClosed
		}
		err := d.nic.Wait(&w, g)
		switch {
		case d.eng.Ended(ctx) == context.Canceled:
			return err
		case err != nil && d.nic.Dead() != nil:
			return err
		case err != nil:
			return nil
		}
	}
}
