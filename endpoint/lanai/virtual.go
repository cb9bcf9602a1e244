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
	return c, c.loadProgram()
}

// clock is the link of the engine of a card in virtual time.
type clock struct {
	*station.Clock
	card    *hardware.Card
	debt    int64 // time that the host has not paid
	deliver func()
}

// owes returns how much time the host has spent and not paid.
func (c *clock) owes() int64 {
	c.debt += c.card.TakeDebt()
	return c.debt
}

// later makes the host's next action visible after its earlier ones have taken their time. Live, it
// is visible at once.
func (c *clock) later(fn func()) {
	if c != nil {
		if owes := c.owes(); owes > 0 {
			c.World.At(c.World.Now()+owes, fn)
			return
		}
	}
	fn()
}

// Wait implements transport.Link: it pays the host's debt, and waits.
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

// news makes the host see what the card has done: in virtual time, when the card's current step has
// reached that point.
func (d *driver) news() {
	if c := d.clock; c != nil {
		c.World.At(c.card.Now(), c.deliver)
		return
	}
	d.deliverNews()
}
