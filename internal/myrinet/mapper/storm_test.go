package mapper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// storm is a network in which all that can fail fails, and hosts whose routes lead
// anywhere send long packets.
type storm struct {
	*rig
	rng      *rand.Rand
	options  func(i int) myrinet.MapperOptions
	starts   uint64
	wrong    error
	changes  int // of the routes of a card
	unsafe   int // of these, after which all cards' routes together could deadlock
	complete int // times that a leader had told all its hosts their routes
}

// traffic is the type of the packets that hosts send each other.
const traffic = 77

func newStorm(seed uint64) (*storm, error) {
	s := &storm{rng: rand.New(rand.NewPCG(seed, 2))}
	top := topology.Random(seed, 4+s.rng.IntN(5), 1+s.rng.IntN(8), 2+s.rng.IntN(12))
	s.options = func(i int) myrinet.MapperOptions {
		s.starts++
		return myrinet.MapperOptions{ID: HostID(i), Name: top.Hosts[i], Seed: seed<<32 + s.starts<<16 + uint64(i), Ports: top.Ports,
			Period: 50 * time.Millisecond}
	}
	var err error
	s.rig, err = newRig(seed, top, myrinet.Options{BitErrors: 1e-7, Timeout: time.Duration(1+s.rng.IntN(10)) * time.Millisecond}, s.options)
	if err != nil {
		return nil, err
	}
	for i, h := range s.Hosts {
		h.Routed = s.watch
		h.Deliver = func(typ uint16, payload []byte) {
			if typ == traffic && !bytes.Equal(payload, content(payload)) {
				s.fail("host %d: a changed packet was delivered", i)
			}
		}
	}
	return s, nil
}

func (s *storm) fail(format string, args ...any) {
	if s.wrong == nil {
		s.wrong = fmt.Errorf("at %d: "+format, append([]any{s.w.Now()}, args...)...)
	}
}

// watch looks at all cards' routes each time that one changes. They belong together only
// when the leader has come to its end: until then, and where a host cannot be told, old
// and new ones may be able to deadlock.
func (s *storm) watch() {
	s.changes++
	if Deadlocks(s.Topology, s.Tables()) != nil {
		s.unsafe++
	}
}

// proof fails the storm if packets can deadlock on routes that a leader has given to its
// hosts.
func (s *storm) proof() {
	index := map[ethertype.MAC]int{}
	for i := range s.Hosts {
		index[HostID(i)] = i
	}
	all := s.Tables()
	for _, i := range s.Leaders() {
		l := &s.Hosts[i].Agent.lead
		if l.stage != resting || l.last == nil {
			continue
		}
		s.complete++
		given := make(Tables, len(all))
		for k, id := range l.last.IDs {
			if h := index[id]; s.Hosts[h].Agent.digest == digest(l.plan.entries[k]) {
				given[h] = all[h]
			}
		}
		if err := Deadlocks(s.Topology, given); err != nil {
			s.fail("leader %d: %w", i, err)
		}
	}
}

// content is what a packet of traffic consists of, by its first bytes and length.
func content(payload []byte) []byte {
	b := make([]byte, len(payload))
	if len(b) >= 8 {
		copy(b, payload[:8])
		rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(b), uint64(len(b))))
		for i := 8; i < len(b); i++ {
			b[i] = byte(rng.Uint32())
		}
	}
	return b
}

// weather changes something, and has hosts send.
func (s *storm) weather() {
	if c := s.Built.Cables[s.rng.IntN(len(s.Built.Cables))]; s.rng.IntN(6) == 0 {
		if c.IsCut() {
			c.Mend()
		} else if s.rng.IntN(2) == 0 {
			c.Cut()
		}
	}
	if sw := s.Built.Switches[s.rng.IntN(len(s.Built.Switches))]; s.rng.IntN(10) == 0 {
		if !sw.Up() {
			sw.Restore()
		} else if s.rng.IntN(3) == 0 {
			sw.Fail()
		}
	}
	victim := s.rng.IntN(len(s.Hosts))
	if leaders := s.Leaders(); len(leaders) > 0 && s.rng.IntN(2) == 0 {
		victim = leaders[s.rng.IntN(len(leaders))]
	}
	if h := s.Hosts[victim]; s.rng.IntN(10) == 0 {
		if h.Down() {
			s.start(victim)
		} else if s.rng.IntN(3) == 0 {
			h.Stop()
		}
	}
	for range 10 {
		from, size := s.rng.IntN(len(s.Hosts)), 8+s.rng.IntN(1+s.rng.IntN(3000))
		payload := make([]byte, size)
		binary.BigEndian.PutUint64(payload, s.rng.Uint64())
		s.Hosts[from].Send(HostID(s.rng.IntN(len(s.Hosts))), traffic, content(payload))
	}
	s.hostile()
}

// hostile has a host send a long packet along a route that leads anywhere.
func (s *storm) hostile() {
	h := s.Hosts[s.rng.IntN(len(s.Hosts))]
	if h.Down() || len(h.queue) > 10 || s.rng.IntN(3) != 0 {
		return
	}
	route := make(myrinet.Route, s.rng.IntN(12))
	for i := range route {
		route[i] = int8(s.rng.IntN(9) - 4)
	}
	typ := []uint16{1, PacketType}[s.rng.IntN(2)]
	payload := make([]byte, s.rng.IntN(20000))
	h.queue = append(h.queue, hardware.AppendPacket(nil, route, typ, payload))
	h.pump()
}

func (s *storm) start(i int) {
	if err := s.Hosts[i].Start(s.options(i)); err != nil {
		s.fail("%w", err)
	}
}

// calm mends everything.
func (s *storm) calm() {
	for _, c := range s.Built.Cables {
		c.Mend()
	}
	for _, sw := range s.Built.Switches {
		sw.Restore()
	}
	for i, h := range s.Hosts {
		if h.Down() {
			s.start(i)
		}
	}
}

// TestStorm: while links flap, switches die and return, bits flip, hosts send along
// routes that deadlock, and leaders die, the routes that a leader has given cannot
// deadlock; and when it is over, every pair that has a path has a route again within
// bounded time, first with what is broken still broken, then with all mended.
func TestStorm(t *testing.T) {
	var sum storm
	seeds.Each(t, 500, func(seed uint64) error {
		s, err := newStorm(seed)
		if err != nil {
			return err
		}
		for range 100 {
			s.weather()
			s.run(time.Duration(s.rng.IntN(20)) * time.Millisecond)
			s.proof()
		}
		if err := s.settle(5 * time.Second); err != nil {
			return fmt.Errorf("broken: %w", err)
		}
		s.calm()
		if err := s.settle(5 * time.Second); err != nil {
			return fmt.Errorf("mended: %w", err)
		}
		sum.changes += s.changes
		sum.unsafe += s.unsafe
		sum.complete += s.complete
		return s.wrong
	})
	t.Logf("%d changes of routes, all together could deadlock after %d of them; %d times all were told", sum.changes, sum.unsafe, sum.complete)
	if sum.unsafe*100 > sum.changes {
		t.Error("old and new routes can deadlock too often")
	}
}
