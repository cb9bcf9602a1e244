package lanai

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
)

// Open opens the card at a network interface, which is one end of a cable. At the other end is a
// card of the same kind, or a port of a switch (bobnet switch). Open returns the errors of
// ring.Open. An error that wraps EADDRINUSE means that a card or a switch already uses the
// interface. A nil cfg means defaults.
//
// The card survives if its interface goes down and up again. If the interface is deleted, or moved
// to another network namespace, the card fails: all waits then return an error that wraps
// transport.ErrGone.
//
// If another process serves the card there (Card.Serve, bobnet card --program vmmc), Open uses that
// card. Then only Interface and Logger of cfg count. Open fails if the card already
// serves its maximum number of programs, in all or of this user. If the serving process ends, all
// waits return an error that wraps transport.ErrGone.
//
// ctx limits the call only, not the life of the card. If ctx ends first, the error wraps the
// context's error.
func Open(ctx context.Context, cfg *Config) (*Card, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if c, err := attach(ctx, cfg); !errors.Is(err, share.ErrNoCard) {
		return c, err
	}
	return station.Open(ctx, cfg.Interface, false, func(cable transport.Link) (*Card, error) {
		return Join(cable, cfg)
	})
}

// Join returns a new card at the end of a live cable. The card owns the cable, and Close closes it.
// If Join fails, the caller still owns the cable. A nil cfg means defaults.
func Join(cable transport.Link, cfg *Config) (*Card, error) {
	info := cable.Info()
	var with Config
	if cfg != nil {
		with = *cfg
	}
	if with.Mapper == nil && with.Routes == nil {
		with.Mapper = plain.LiveMapper()
	}
	if with.MAC == (ethertype.MAC{}) {
		with.MAC = info.MAC
	}
	if err := with.resolve(); err != nil {
		return nil, err
	}
	h := &Card{cfg: with}
	if err := h.host.Join(cable, with.Cable, with.Card, longest, (*live)(h)); err != nil {
		return nil, err
	}
	birth := uint64(cable.Now())
	if !info.Virtual {
		birth = uint64(time.Now().UnixNano())
	}
	if err := h.startDriver(birth); err != nil {
		return nil, err
	}
	h.host.Engine.Start()
	return h, nil
}

// live implements station.Driver for a card.
type live Card

// Found implements station.Driver.
func (v *live) Found() { v.page.Ring() }

// Serve implements station.Driver.
func (v *live) Serve() bool {
	if v.causes == 0 && !v.load {
		return false
	}
	(*Card)(v).service()
	return true
}

// Enough implements station.Driver: the engine polls again.
func (v *live) Enough() bool { return false }

// drive makes queued messages leave soon. In virtual time, events do that.
func (h *Card) drive() {
	if h.host.Live != nil {
		h.host.Engine.Poll()
		h.host.Engine.WakeBefore(h.host.NextTimer())
	}
}
