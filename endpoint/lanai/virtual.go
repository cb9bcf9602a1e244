package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// NewVirtual returns a new card in virtual time. plug makes the card's port, as Fabric.Host
// does. All that belongs to the card is for processes of the world.
func NewVirtual(w myrinet.Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (*Card, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	v := station.Virtual(w)
	card, err := v.NewCard(plug, cfg.Card, longest)
	if err != nil {
		return nil, err
	}
	c := &Card{cfg: cfg, card: card}
	clock := &clock{Clock: v.NewClock(card, cfg.MAC), card: card}
	c.via = clock
	clock.deliver = c.driver.deliverNews
	return c, c.start(clock, idleMachine{c})
}

// clock is the carrier of a card in virtual time, and what its engine takes for a link.
type clock struct {
	*station.Clock
	card    *myrinet.Card
	debt    int64 // that the host has not paid
	deliver func()
}

// idleMachine is driven by events.
type idleMachine struct{ *Card }

func (idleMachine) Poll(int64) bool  { return false }
func (idleMachine) Idle()            {}
func (idleMachine) NextTimer() int64 { return transport.Forever }
func (idleMachine) Woke(error)       {}

func (c *clock) holds() bool   { return false }
func (c *clock) now() int64    { return c.Now() }
func (c *clock) failed() error { return nil }
func (c *clock) close()        { c.Close() }
func (c *clock) drive()        {} // events do

func (c *clock) port() *myrinet.LivePort { return nil }

// owes returns how much of its time the host has spent and not paid.
func (c *clock) owes() int64 {
	c.debt += c.card.TakeDebt()
	return c.debt
}

// later has what the host does last be seen when it has done what it did before.
func (c *clock) later(fn func()) {
	if owes := c.owes(); owes > 0 {
		c.World.At(c.World.Now()+owes, fn)
		return
	}
	fn()
}

// news is for the time at which the step that the card is in has got so far.
func (c *clock) news() { c.World.At(c.card.Now(), c.deliver) }

// Wait implements transport.Link: it pays what the host owes, and waits.
func (c *clock) Wait(until int64) error {
	for paid := c.now() + c.owes(); c.now() < paid; {
		c.debt = paid - c.now()
		if err := c.Sleep(paid); err != nil {
			return err
		}
		c.debt = 0
	}
	return c.Clock.Wait(until)
}
