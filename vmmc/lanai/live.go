package lanai

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
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
func Open(cfg *OpenConfig) (*Host, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	cable, err := ring.Open(&ring.Config{
		Interface: cfg.Interface, EtherType: ethertype.Fabric, Ports: myrinet.CablePorts, Long: ring.Off,
	})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("lanai: a card needs an interface for itself, this one has a card or a switch: choose another, or end that: %w", err)
	}
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
	if with.Card.Name == "" {
		with.Card.Name = info.Interface
	}
	if err := with.resolve(); err != nil {
		return nil, err
	}
	card, err := myrinet.NewCard(nil, with.Card)
	if err != nil {
		return nil, err
	}
	h := &Host{cfg: with, card: card}
	v := &live{h: h}
	if v.end, err = myrinet.NewEnd(cable, (*station)(v), opts); err != nil {
		return nil, err
	}
	if v.end.MaxPacket() < PacketSize {
		return nil, fmt.Errorf("lanai: the cable takes packets of %d octets, a page with its header makes %d (LiveOptions.MaxPacket)", v.end.MaxPacket(), PacketSize)
	}
	if err := card.Plug(v.end); err != nil {
		return nil, err
	}
	h.carrier = v
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
	h        *Host
	end      *myrinet.End
	clock    int64 // when poll was called
	stepping bool  // the program is at work
	found    bool  // the other end of the cable has been there
	stepAt   int64 // when it wants to be called again
}

func (v *live) enter()      {}
func (v *live) leave()      {}
func (v *live) later()      {} // poll looks
func (v *live) pay()        {}
func (v *live) holds() bool { return !v.found }
func (v *live) drive() {
	v.h.eng.Poll()
	v.h.eng.WakeBefore(v.h.next)
}

func (v *live) snapshot() *myrinet.LivePort {
	p := v.end.Snapshot()
	return &p
}

// station is what the end of the cable knows of the card. The program works whenever
// something has happened, so that what it sends in return leaves with what else the end
// has to send.
type station live

var _ myrinet.Host = (*station)(nil)

// Room implements myrinet.Host.
func (s *station) Room(n int) bool { return s.h.card.Room(n) }

// Arrived implements myrinet.Host.
func (s *station) Arrived(packet []byte, whole bool) {
	s.h.card.Arrived(packet, whole)
	(*live)(s).step()
}

// Sent implements myrinet.Host.
func (s *station) Sent() {
	s.h.card.Sent()
	(*live)(s).step()
}

// step has the program and the driver do what there is to do.
func (v *live) step() {
	if v.stepping {
		return
	}
	v.stepping = true
	for range mostRounds {
		if v.h.card.Pending() || v.clock >= v.stepAt {
			v.stepAt = v.h.card.Poll(v.clock)
		}
		if v.h.causes == 0 && !v.h.load {
			break
		}
		v.h.service()
	}
	v.stepping = false
}

// mostRounds is how often one call drives cable and card if there is ever more to do.
const mostRounds = 4

// poll moves what has come and what is to be sent. It returns when to do so again.
func (v *live) poll(now int64) (next int64, err error) {
	v.clock = now
	v.step()
	for range mostRounds {
		next, err = v.end.Poll()
		if !v.found && v.end.Up() {
			v.found = true
			v.h.page.Ring()
		}
		v.step()
		if next = min(next, v.stepAt); v.h.card.Pending() {
			next = now
		}
		if err != nil || next > now {
			break
		}
	}
	return next, err
}
