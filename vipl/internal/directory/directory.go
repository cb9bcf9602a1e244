// Package directory finds who is on the segment: services by their names, hosts by
// theirs, NICs by asking all, and one NIC by an echo. There is no server; each NIC
// answers for itself. It knows neither connections nor memory.
//
// A Directory is guarded by its engine's lock: all its methods are called with that held,
// and those with a context release it while they wait.
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

// NIC is what a directory asks of the NIC that it belongs to.
type NIC interface {
	Now() int64 // the link's clock
	// Send adds a frame with the parts as its payload to the batch. The directory fills
	// in destination, kind and ports, tag and the number in Sack.
	Send(h ethertype.Header, parts ...[]byte)
	// SendPadded is Send for a payload that begins with id and has size bytes.
	SendPadded(h ethertype.Header, id []byte, size int)
	Flush()
	MayAnswer(kind guard.Answer) bool
	// Speaks reports whether this NIC answers for all NICs of its interface on this host.
	Speaks() bool
	Unknown() // counts a frame that answers nothing
	// Wait is progress.Engine.Wait, with the errors of vipl.
	Wait(w *progress.Waiter, g *progress.Gate) error
	Closed() bool
	Dead() error    // why the link is of no use any more, else nil
	Trouble() error // looks at the link and returns what is wrong with it, else nil
	// ShareTrouble returns why stations of this host are not reached, else nil.
	ShareTrouble() error
}

// Self is what a NIC says of itself.
type Self struct {
	Addr        ethertype.Addr
	Ports       transport.PortRange
	Interface   string
	Driver      string
	MTU         int // of the interface
	MinMTU      int // that an interface may have
	MaxData     int // bytes of payload that fit a frame
	Incarnation uint64
}

// Directory is what a NIC knows of the others on its segment, and answers to them.
type Directory struct {
	nic    NIC
	eng    *progress.Engine
	random *guard.Random
	self   Self

	names     nameTable
	hosts     hostTable
	inquiries map[uint32]*inquiry // under way, by their tag
	echoes    map[uint64]*echo    // under way, by their number
}

// Init sets up the directory of a NIC.
func (d *Directory) Init(nic NIC, eng *progress.Engine, random *guard.Random, self Self) {
	*d = Directory{nic: nic, eng: eng, random: random, self: self,
		inquiries: map[uint32]*inquiry{}, echoes: map[uint64]*echo{}}
	d.names.init()
}

// Receive takes a frame of the kinds Query, Answer, Echo and EchoReply.
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

// up returns an error if the name service does not run.
func (d *Directory) up(op string) error {
	switch {
	case d.nic.Closed():
		return code.ErrClosed
	case d.hosts.shut:
		return code.Error(op, errStopped, "call StartNames")
	}
	return nil
}

// silence returns the error for a question that got no answer: what is wrong with the NIC's
// own link, if anything is, else class and what the arguments say of the others.
func (d *Directory) silence(op string, class error, format string, args ...any) error {
	trouble := d.nic.Trouble()
	switch {
	case d.nic.Dead() != nil:
		return code.Error(op, d.nic.Dead(), "open the NIC again")
	case trouble != nil:
		return code.Within(op, fmt.Errorf("%w: no answer can come: %w", class, trouble))
	}
	err := code.Error(op, class, format, args...)
	if trouble := d.nic.ShareTrouble(); trouble != nil {
		err = fmt.Errorf("%w; cannot reach programs of this host: %w", err, trouble)
	}
	return err
}

// collect lets answers come in, each of which opens the gate, until the given time.
// The error is the end of ctx, if that is not by its deadline.
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
