package lanai

import (
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/plain"
)

// NewVirtual returns the host of a new card in virtual time. plug makes the card's port, as
// Fabric.Host does. Processes of the world call its methods.
func NewVirtual(v plain.Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (*Host, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	card, err := myrinet.NewCard(v.World, cfg.Card)
	if err != nil {
		return nil, err
	}
	port := plug(card)
	if port.MaxPacket() < PacketSize {
		return nil, fmt.Errorf("lanai: the fabric takes packets of %d octets, a page with its header makes %d (Options.MaxPacket)", port.MaxPacket(), PacketSize)
	}
	if err := card.Plug(port); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, card: card}
	c := &virtual{h: h, Virtual: v, waiter: v.Waiter()}
	c.service = c.onService
	h.carrier = c
	if err := h.start(c, uint64(v.World.Now())); err != nil {
		return nil, err
	}
	return h, nil
}

// virtual is a host in virtual time. Events of the world drive the card; as a link it is
// where its processes wait.
type virtual struct {
	plain.Virtual
	h       *Host
	waiter  plain.Waiter
	due     bool
	service func()
	closed  atomic.Bool
}

var _ transport.Parking = (*virtual)(nil)

func (v *virtual) enter()      { v.h.eng.Lock() }
func (v *virtual) leave()      { v.h.eng.Unlock() }
func (v *virtual) holds() bool { return false }

// later has the driver see to interrupts in an event of their own: they come within steps
// of the program, too.
func (v *virtual) later() {
	if !v.due {
		v.due = true
		v.World.At(v.World.Now(), v.service)
	}
}

func (v *virtual) onService() {
	v.due = false
	v.h.eng.Lock()
	v.h.service()
	v.h.eng.Unlock()
}

func (v *virtual) poll(int64) (int64, error) { return transport.Forever, nil }
func (v *virtual) drive()                    {} // events do

func (v *virtual) snapshot() *myrinet.LivePort { return nil }

// pay lets the time pass that the host has spent on access to the card.
func (v *virtual) pay() {
	debt := v.h.card.TakeDebt()
	if debt == 0 {
		return
	}
	w := v.Waiter() // others may wait beside
	for paid := v.Now() + debt; v.Now() < paid; {
		if err := w.Wait(paid); err != nil {
			return
		}
	}
}

// Wait implements transport.Link.
func (v *virtual) Wait(until int64) error {
	v.pay()
	if v.closed.Load() {
		return transport.ErrClosed
	}
	return v.waiter.Wait(until)
}

// Wake implements transport.Link.
func (v *virtual) Wake() { v.waiter.Wake() }

// Now implements transport.Link.
func (v *virtual) Now() int64 { return v.World.Now() }

// Info implements transport.Link.
func (v *virtual) Info() transport.Info {
	return transport.Info{Driver: "lanai", Interface: v.h.card.String(), MAC: v.h.cfg.MAC, Virtual: true}
}

// Place implements transport.Parking.
func (v *virtual) Place() transport.Place { return place{v.Waiter()} }

type place struct{ w plain.Waiter }

func (p place) Wait(until int64) { _ = p.w.Wait(until) } // whoever gets its error gets it again from the next call
func (p place) Wake()            { p.w.Wake() }

// Close implements transport.Link.
func (v *virtual) Close() error {
	v.closed.Store(true)
	v.waiter.Wake()
	return nil
}

// Frames do not pass here.

// Send implements transport.Link.
func (v *virtual) Send([]transport.Frame) (int, error) { return 0, nil }

// Recv implements transport.Link.
func (v *virtual) Recv([][]byte) (int, error) { return 0, nil }

// Ready implements transport.Link.
func (v *virtual) Ready() bool { return false }

// Stats implements transport.Link.
func (v *virtual) Stats() transport.Stats { return transport.Stats{} }
