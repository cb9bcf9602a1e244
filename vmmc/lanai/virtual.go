package lanai

import (
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// NewVirtual returns the host of a new card in virtual time. plug makes the card's port, as
// Fabric.Host does. Processes of the world call its methods.
func NewVirtual(w myrinet.Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (*Host, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	v := station.Virtual(w)
	card, err := v.NewCard(plug, cfg.Card, longest)
	if err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, card: card}
	c := &virtual{h: h, Clock: v.NewClock(card, cfg.MAC)}
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
	*station.Clock
	h       *Host
	due     bool
	service func()
}

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

func (v *virtual) doubt()                    {}
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
	return v.Clock.Wait(until)
}
