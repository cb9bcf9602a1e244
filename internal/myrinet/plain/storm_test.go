package plain_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// held is what of a card's memory is in use, and how many of its receive buffers wait for
// packets.
type held struct {
	memory []hardware.BlockUse
	posted int
}

func holds(l transport.Link) held {
	c := snapshot(l).Card
	return held{c.Memory, c.Posted}
}

// vandal is a host of the fabric that sends long packets along routes that lead anywhere,
// of all types.
type vandal struct {
	rng  *rand.Rand
	port *myrinet.Port
}

func (v *vandal) Room(int) bool        { return true }
func (v *vandal) Arrived([]byte, bool) {}
func (v *vandal) Sent()                {}

func (v *vandal) strike() {
	route := make(myrinet.Route, v.rng.IntN(12))
	for i := range route {
		route[i] = int8(v.rng.IntN(9) - 4)
	}
	typ := []uint16{1, plain.TypeFrame, mapper.PacketType}[v.rng.IntN(3)]
	payload := make([]byte, v.rng.IntN(20_000))
	for i := range payload {
		payload[i] = byte(v.rng.Uint32())
	}
	v.port.Send(hardware.AppendPacket(nil, route, typ, payload))
}

// storm is hosts with cards and mappers on a network in which all fails that can.
type storm struct {
	*segment
	rng      *rand.Rand
	links    []transport.Link
	vandal   *vandal
	switches []*myrinet.Switch
	cables   []*myrinet.Cable
	before   []held
	wrong    error
}

func newStorm(t *testing.T, seed uint64) *storm {
	rng := rand.New(rand.NewPCG(seed, 5))
	top := topology.Random(seed, 8, 1+rng.IntN(5), 3+rng.IntN(6))
	s := &storm{rng: rng, segment: newSegment(t, myrinet.Options{Seed: seed, BitErrors: 1e-6, Timeout: time.Duration(1+rng.IntN(10)) * time.Millisecond})}
	for _, name := range top.Switches {
		s.switches = append(s.switches, s.f.Switch(name))
	}
	s.vandal = &vandal{rng: rng}
	s.vandal.port = s.f.Host("vandal", s.vandal)
	ports := []*myrinet.Port{s.vandal.port}
	for i := range top.Hosts[1:] {
		l, port := s.host(i, plain.Config{
			Card:   myrinet.CardConfig{Name: top.Hosts[i+1], Timing: []*myrinet.Timing{myrinet.PCITiming(), myrinet.SBusTiming()}[rng.IntN(2)]},
			Mapper: &myrinet.MapperOptions{Name: top.Hosts[i+1], Seed: seed<<16 + uint64(i), Period: 20 * time.Millisecond, Timeout: 200 * time.Microsecond},
		}, nil)
		s.links, ports = append(s.links, l), append(ports, port)
		s.before = append(s.before, holds(l))
	}
	plug := func(p topology.Plug) *myrinet.Port {
		if p.Host {
			return ports[p.Node]
		}
		return s.switches[p.Node].Port(p.Port)
	}
	for _, c := range top.Cables {
		cable, err := s.f.Join(plug(c.A), plug(c.B))
		if err != nil {
			t.Fatal(err)
		}
		s.cables = append(s.cables, cable)
	}
	return s
}

// content is the payload of a frame that begins with a number.
func content(number uint64, size int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+size), number)
	rng := rand.New(rand.NewPCG(number, uint64(size)))
	for range size {
		b = append(b, byte(rng.Uint32()))
	}
	return b
}

// weather changes something, and has hosts send and look.
func (s *storm) weather() {
	if c := s.cables[s.rng.IntN(len(s.cables))]; s.rng.IntN(6) == 0 {
		if c.IsCut() {
			c.Mend()
		} else if s.rng.IntN(2) == 0 {
			c.Cut()
		}
	}
	if sw := s.switches[s.rng.IntN(len(s.switches))]; s.rng.IntN(10) == 0 {
		if !sw.Up() {
			sw.Restore()
		} else if s.rng.IntN(3) == 0 {
			sw.Fail()
		}
	}
	if s.rng.IntN(3) == 0 {
		s.vandal.strike()
	}
	for range 10 {
		from, to := s.links[s.rng.IntN(len(s.links))], s.links[s.rng.IntN(len(s.links))]
		dst := to.Info()
		if s.rng.IntN(10) == 0 {
			dst.MAC = ethertype.Broadcast
		}
		f := linktest.NewFrame(from.Info(), dst, dst.Ports.Lo, content(s.rng.Uint64(), s.rng.IntN(1+s.rng.IntN(1400))))
		if _, err := from.Send([]transport.Frame{{Head: f}}); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, l := range s.links {
		if s.rng.IntN(4) != 0 { // some hosts do not look for long
			s.look(l)
		}
	}
}

// look takes what has come to a link.
func (s *storm) look(l transport.Link) {
	views := make([][]byte, transport.MaxBatch)
	n, err := l.Recv(views)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, view := range views[:n] {
		var h ethertype.Header
		payload, err := h.Parse(view)
		if err != nil || len(payload) < 8 || !bytes.Equal(payload, content(binary.BigEndian.Uint64(payload), len(payload)-8)) {
			s.wrong = errors.Join(s.wrong, fmt.Errorf("a frame of %d bytes was delivered that nobody has sent: %w", len(view), err))
		}
	}
}

// calm mends everything, and reports what of a card is not as it was at the beginning
// when all is at rest.
func (s *storm) calm() error {
	for _, c := range s.cables {
		c.Mend()
	}
	for _, sw := range s.switches {
		sw.Restore()
	}
	rest := func() error {
		for i, l := range s.links {
			s.look(l)
			snap := snapshot(l)
			switch {
			case snap.Card.Stats.SRAMUsed != used(s.before[i].memory):
				return fmt.Errorf("host %d: %d bytes of SRAM are in use, at the beginning %d", i, snap.Card.Stats.SRAMUsed, used(s.before[i].memory))
			case !reflect.DeepEqual(holds(l), s.before[i]):
				return fmt.Errorf("host %d: the card holds %+v, at the beginning %+v", i, holds(l), s.before[i])
			case snap.ToSend != 0 || snap.Received != 0 || snap.Card.Filled != 0 || snap.Card.Sending || snap.Card.Transferring:
				return fmt.Errorf("host %d is not at rest: %+v", i, snap)
			case snap.Stations < len(s.links)-1:
				return fmt.Errorf("host %d has routes to %d of %d stations", i, snap.Stations, len(s.links)-1)
			}
		}
		return nil
	}
	var err error
	for range 15000 { // a mapper may be at work at any moment, and asks a host that alone is silent for up to 12 s
		if sleep := s.w.Sleep(time.Millisecond); sleep != nil {
			return sleep
		}
		if err = rest(); err == nil {
			return nil
		}
	}
	return err
}

func used(memory []hardware.BlockUse) (n int) {
	for _, b := range memory {
		n += b.Size
	}
	return n
}

// TestStorm: while cables are cut, switches die and return, bits flip, a host sends long
// packets along routes that lead anywhere and hosts do not look for what has come, no frame
// is delivered that nobody has sent; and afterwards every card has the memory and the
// buffers that it began with, and routes to all others.
func TestStorm(t *testing.T) {
	n := 500
	if !need.Full() {
		n = 100
	}
	seeds.Each(t, n, func(seed uint64) error {
		s := newStorm(t, seed)
		for range 60 {
			s.weather()
			if err := s.w.Sleep(time.Duration(s.rng.IntN(5_000_000))); err != nil {
				return err
			}
		}
		return errors.Join(s.calm(), s.wrong)
	})
}
