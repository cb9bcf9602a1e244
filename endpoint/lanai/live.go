package lanai

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
)

// Open opens the card at a network interface, which is one end of a cable. At the other end is a card of the same
// kind, or a port of a switch (bobnet switch). Open returns the errors of ring.Open. An error that wraps
// EADDRINUSE means that a card or a switch already uses the interface. A nil cfg means defaults.
//
// If another process serves the card there (Card.Serve, bobnet card --program am2), Open uses that card. In this
// case it uses only Interface and Logger of cfg. The error wraps endpoint.ErrResource if the card already serves
// its maximum number of programs, in total or for this user. If the serving process ends, all waits return an
// error that wraps transport.ErrGone.
//
// The card survives if its interface goes down and up again. If the interface is deleted, or moved to another
// network namespace, the card fails: all waits then return an error that wraps transport.ErrGone.
//
// ctx limits the call only, not the life of the card. If ctx ends first, the error wraps the context's error.
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

// liveBackoff is Config.Channels.Backoff on a live cable. A card whose host is not scheduled then
// has about 16 s, and receives fewer copies of each message.
const liveBackoff = 2

// Join returns a new card at the end of a live cable. The card owns the cable, and Close closes it.
// If Join fails, the caller still owns the cable. A nil cfg means defaults.
func Join(cable transport.Link, cfg *Config) (*Card, error) {
	info := cable.Info()
	var with Config
	if cfg != nil {
		with = *cfg
	}
	if with.Mapper == nil && with.Routes == nil && !info.Virtual {
		with.Mapper = plain.LiveMapper()
	}
	if with.MAC == (ethertype.MAC{}) {
		with.MAC = info.MAC
	}
	if with.Channels.Backoff == 0 && !info.Virtual {
		with.Channels.Backoff = liveBackoff
	}
	if err := with.resolve(); err != nil {
		return nil, err
	}
	c := &Card{cfg: with}
	if err := c.host.Join(cable, with.Cable, with.Card, longest, (*live)(c)); err != nil {
		return nil, err
	}
	if err := c.loadProgram(); err != nil {
		return nil, err
	}
	c.host.Engine.Start()
	return c, nil
}

// live adapts a live card to station.Live.
type live Card

// Found implements station.Driver.
func (l *live) Found() { l.driver.kick() }

// Serve implements station.Driver: interrupts have already called the driver.
func (l *live) Serve() bool { return false }

// Enough implements station.Driver: the engine calls again.
func (l *live) Enough() bool { return false }
