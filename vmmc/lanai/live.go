package lanai

import (
	"context"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// OpenConfig says what to open.
type OpenConfig struct {
	Interface string // name or MAC of the network interface that is the cable's end; "" for the only one that is up
	Config
	Cable myrinet.LiveOptions
}

// Open opens a host whose card has a network interface for itself, which is one end of a
// cable: what is at the other end is a card of the same kind, or a port of a switch
// (bobnet switch). Its errors are those of ring.Open; one that wraps EADDRINUSE says that
// the interface has a card or a switch already. A nil cfg means defaults.
//
// An interface that goes down may come back. One that is deleted, or moved to another network
// namespace, ends the card: all waits then return an error that wraps transport.ErrGone.
func Open(ctx context.Context, cfg *OpenConfig) (*Host, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	cable, err := station.OpenCable(ctx, cfg.Interface, false)
	if err != nil {
		return nil, err
	}
	h, err := Join(cable, &cfg.Config, cfg.Cable)
	if err != nil {
		cable.Close()
		return nil, err
	}
	return h, nil
}

// Join returns the host of a new card at the end of a live cable, which is the host's from
// now on: Close closes it. On an error it is as it was. A nil cfg means defaults.
func Join(cable transport.Link, cfg *Config, opts myrinet.LiveOptions) (*Host, error) {
	info := cable.Info()
	with := Config{}
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
	h := &Host{cfg: with}
	v := &live{h: h}
	if err := v.at.Init(cable, opts, v); err != nil {
		return nil, err
	}
	if err := v.at.Plug(with.Card, longest); err != nil {
		return nil, err
	}
	h.card, h.carrier = v.at.Card, v
	birth := uint64(cable.Now())
	if !info.Virtual {
		birth = uint64(time.Now().UnixNano())
	}
	if err := h.start(cable, birth); err != nil {
		return nil, err
	}
	h.eng.Start()
	return h, nil
}

// live is a host on a live cable. Whoever drives the host's engine drives both: the
// goroutines that poll or wait, and its service when none does. The engine's lock is held
// in all methods but pay.
type live struct {
	h  *Host
	at station.Live
}

var _ station.Driver = (*live)(nil)

// Found implements station.Driver.
func (v *live) Found() { v.h.page.Ring() }

// Serve implements station.Driver.
func (v *live) Serve() bool {
	if v.h.causes == 0 && !v.h.load {
		return false
	}
	v.h.service()
	return true
}

// Enough implements station.Driver: an engine asks again.
func (v *live) Enough() bool { return false }

func (v *live) enter()                      {}
func (v *live) leave()                      {}
func (v *live) later()                      {} // Serve looks
func (v *live) pay()                        {}
func (v *live) doubt()                      { v.at.Doubt() }
func (v *live) holds() bool                 { return v.at.Holds() }
func (v *live) snapshot() *myrinet.LivePort { return v.at.Port() }

// poll implements carrier. Other errors of the cable pass: an interface that is down may come
// back.
func (v *live) poll(now int64) (next int64, dead error) {
	next, _ = v.at.Drive(now)
	return next, v.at.Dead()
}

func (v *live) drive() {
	v.h.eng.Poll()
	v.h.eng.WakeBefore(v.h.next)
}
