package lanai

import (
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
	h := &Card{cfg: with}
	h.clock = &clock{Clock: v.NewClock(card, with.MAC), h: h}
	h.clock.service = h.clock.onService
	h.host.Sit(card, h.clock)
	return h, h.startDriver(uint64(v.World.Now()))
}

// clock is the link of the engine of a card in virtual time: its processes wait on it.
type clock struct {
	*station.Clock
	h       *Card
	due     bool
	service func()
}

// enter begins a step of the program, and leave ends it. In virtual time, events do not hold the
// lock yet.
func (h *Card) enter() {
	if h.clock != nil {
		h.host.Engine.Lock()
	}
}

func (h *Card) leave() {
	if h.clock != nil {
		h.host.Engine.Unlock()
	}
}

// later schedules the interrupt handler. Live, Serve calls it. In virtual time a separate event
// does, because interrupts also occur within steps of the program.
func (h *Card) later() {
	if c := h.clock; c != nil && !c.due {
		c.due = true
		c.World.At(c.World.Now(), c.service)
	}
}

func (c *clock) onService() {
	c.due = false
	c.h.host.Engine.Lock()
	c.h.service()
	c.h.host.Engine.Unlock()
}

// pay lets the time pass that the host has spent accessing the card. Live, it has passed already.
func (c *clock) pay() {
	if c == nil {
		return
	}
	debt := c.h.host.Card.TakeDebt()
	if debt == 0 {
		return
	}
	w := c.Waiter() // others may wait concurrently
	for paid := c.Now() + debt; c.Now() < paid; {
		if err := w.Wait(paid); err != nil {
			return
		}
	}
}

// Wait implements transport.Link.
func (c *clock) Wait(until int64) error {
	c.pay()
	return c.Clock.Wait(until)
}
