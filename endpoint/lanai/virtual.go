package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// NewVirtual returns a new card in virtual time. plug creates the card's port, as Fabric.Host does.
// Only processes of the virtual world may call methods of the card.
func NewVirtual(w myrinet.Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg *Config) (*Card, error) {
	var with Config
	if cfg != nil {
		with = *cfg
	}
	if err := with.resolve(); err != nil {
		return nil, err
	}
	v := station.Virtual(w)
	card, err := v.NewCard(plug, with.Card, longest)
	if err != nil {
		return nil, err
	}
	c := &Card{cfg: with}
	c.clock = &clock{Clock: v.NewClock(card, with.MAC), card: card, deliver: c.driver.deliverNews}
	c.host.Sit(card, c.clock)
	return c, c.start()
}

// clock is what the engine of a card in virtual time takes for a link.
type clock struct {
	*station.Clock
	card    *hardware.Card
	debt    int64 // that the host has not paid
	deliver func()
}

// owes returns how much of its time the host has spent and not paid.
func (c *clock) owes() int64 {
	c.debt += c.card.TakeDebt()
	return c.debt
}

// later has what the host does last be seen when it has done what it did before. Live, that is at
// once.
func (c *clock) later(fn func()) {
	if c != nil {
		if owes := c.owes(); owes > 0 {
			c.World.At(c.World.Now()+owes, fn)
			return
		}
	}
	fn()
}

// Wait implements transport.Link: it pays what the host owes, and waits.
func (c *clock) Wait(until int64) error {
	for paid := c.Now() + c.owes(); c.Now() < paid; {
		c.debt = paid - c.Now()
		if err := c.Sleep(paid); err != nil {
			return err
		}
		c.debt = 0
	}
	return c.Clock.Wait(until)
}

// news has the host see what the card has done: in virtual time when the step that the card is in has
// got so far.
func (d *driver) news() {
	if c := d.clock; c != nil {
		c.World.At(c.card.Now(), c.deliver)
		return
	}
	d.deliverNews()
}
