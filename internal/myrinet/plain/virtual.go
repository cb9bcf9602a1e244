package plain

import (
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// NewVirtual returns the link of a new card in virtual time. plug creates the card's port, like
// Fabric.Host. Only processes of the world may call the link's methods.
func NewVirtual(w myrinet.Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (optional.Parking, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	v := station.Virtual(w)
	card, err := v.NewCard(plug, cfg.Card, cfg.longest())
	if err != nil {
		return nil, err
	}
	via := &virtual{Virtual: v, bed: v.NewBed()}
	l, err := newLink(card, via, &cfg, card.String())
	if err != nil {
		return nil, err
	}
	via.Link = l
	l.info.Virtual = true
	card.OnInterrupt(func(uint32) { via.bed.Ring() })
	return via, nil
}

// virtual is a Link in virtual time.
type virtual struct {
	*Link
	station.Virtual
	bed   station.Bed
	woken bool
}

func (v *virtual) drive() error { return nil } // events do
func (v *virtual) ready() bool  { return false }
func (v *virtual) now() int64   { return v.World.Now() }

func (v *virtual) wake() {
	v.woken = true
	v.bed.Ring()
}

func (v *virtual) close() { v.bed.Ring() }

func (v *virtual) holds() bool { return false }
func (v *virtual) lends() bool { return false }

func (v *virtual) snapshot() *hardware.LivePort { return nil }

// wait pays the host's debt for access to the card, and waits.
func (v *virtual) wait(until int64) error {
	for paid := v.now() + v.card.TakeDebt(); v.now() < paid; {
		if err := v.bed.Sleep(paid); err != nil {
			return err
		}
	}
	if v.closed.Load() {
		return transport.ErrClosed
	}
	if !v.has() && !v.woken {
		v.counters.Waits.Add(1)
		asks := v.now() < until
		if asks {
			v.tell(wordAsks, 1)
		}
		for first := true; first || !v.over(until); first = false {
			if err := v.bed.Sleep(until); err != nil {
				return err
			}
		}
		if asks && !v.closed.Load() {
			v.tell(wordAsks, 0)
		}
	}
	v.woken = false
	if v.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// over reports whether the wait can end.
func (v *virtual) over(until int64) bool {
	return v.has() || v.woken || v.closed.Load() || v.now() >= until
}
