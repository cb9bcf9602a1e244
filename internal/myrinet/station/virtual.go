package station

import (
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Virtual provides virtual time to the hosts of cards.
type Virtual myrinet.Virtual

// NewCard returns a new card in virtual time, without a program. plug creates the card's port, like
// Fabric.Host.
func (v *Virtual) NewCard(plug func(h myrinet.Host) *myrinet.Port, cfg myrinet.CardConfig, need Longest) (*hardware.Card, error) {
	card, err := hardware.NewCard(v.World, cfg)
	if err != nil {
		return nil, err
	}
	port := plug(card)
	if err := need.check(port, "fabric", "Options"); err != nil {
		return nil, err
	}
	return card, card.Plug(port)
}

// Place implements optional.Parking for a card in virtual time.
func (v *Virtual) Place() optional.Place { return place{v.Waiter()} }

type place struct{ w myrinet.Waiter }

func (p place) Wait(until int64) { _ = p.w.Wait(until) } // a caller that gets an error gets it again from the next call
func (p place) Wake()            { p.w.Wake() }

// Bed is where one process at a time sleeps. Ring wakes it.
type Bed struct {
	waiter myrinet.Waiter
	asleep bool
}

// NewBed returns a new bed.
func (v *Virtual) NewBed() Bed { return Bed{waiter: v.Waiter()} }

// Sleep blocks until Ring is called or the time until has come.
func (b *Bed) Sleep(until int64) error {
	b.asleep = true
	err := b.waiter.Wait(until)
	b.asleep = false
	return err
}

// Ring wakes the sleeping process, if any.
func (b *Bed) Ring() {
	if b.asleep {
		b.waiter.Wake()
	}
}

// Clock is the link on which an engine waits if events of the world drive the card. One process
// waits on it, others on its places. It carries no frames.
type Clock struct {
	Virtual
	Bed
	info   transport.Info
	woken  bool
	closed atomic.Bool
}

var _ optional.Parking = (*Clock)(nil)

// NewClock returns the clock of a card with the given address.
func (v *Virtual) NewClock(card *hardware.Card, mac ethertype.MAC) *Clock {
	return &Clock{Virtual: *v, Bed: v.NewBed(), info: transport.Info{Driver: "myrinet", Interface: card.String(), MAC: mac, Virtual: true}}
}

// Wait implements transport.Link.
func (c *Clock) Wait(until int64) error {
	if c.closed.Load() {
		return transport.ErrClosed
	}
	for first := true; !c.woken && (first || c.Now() < until); first = false {
		if err := c.Sleep(until); err != nil {
			return err
		}
	}
	c.woken = false
	return nil
}

// Wake implements transport.Link.
func (c *Clock) Wake() {
	c.woken = true
	c.Ring()
}

// Now implements transport.Link.
func (c *Clock) Now() int64 { return c.World.Now() }

// Info implements transport.Link.
func (c *Clock) Info() transport.Info { return c.info }

// Close implements transport.Link.
func (c *Clock) Close() error {
	c.closed.Store(true)
	c.Wake()
	return nil
}

// Send implements transport.Link.
func (c *Clock) Send([]transport.Frame) (int, error) { return 0, transport.ErrClosed }

// Recv implements transport.Link.
func (c *Clock) Recv([][]byte) (int, error) { return 0, transport.ErrClosed }

// Ready implements transport.Link.
func (c *Clock) Ready() bool { return false }

// Stats implements transport.Link.
func (c *Clock) Stats() transport.Stats { return transport.Stats{} }
