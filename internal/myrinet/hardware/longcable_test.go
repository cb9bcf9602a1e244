package hardware

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// longStation is a simulated station whose MTU is said to be smaller than it is: what is
// longer are long frames.
type longStation struct {
	*sim.Station
	mtu    int
	hole   *bool // they are lost
	slot   int   // if not 0, there are no long frames, and of others that are longer only as much is given
	lent   []byte
	longIn int

	receives bool
}

func (s *longStation) Info() transport.Info {
	info := s.Station.Info()
	info.MTU = s.mtu
	return info
}

func (s *longStation) StartLong() bool { return s.slot == 0 }

func (s *longStation) ReceiveLong(on bool) bool {
	s.receives = on && s.slot == 0
	return s.receives
}

// most is how much of a frame is given at once.
func (s *longStation) most() int { return cmp.Or(s.slot, s.mtu+ethertype.EthernetSize) }

func (s *longStation) Recv(views [][]byte) (n int, err error) {
	s.lent = nil
	n, err = s.Station.Recv(views[:1])
	if most := s.most(); n > 0 && len(views[0]) > most {
		if s.slot == 0 && (*s.hole || !s.receives) {
			return 0, err
		}
		s.lent, views[0] = views[0], views[0][:most]
		s.longIn++
	}
	return n, err
}

func (s *longStation) Cut() bool { return false }

func (s *longStation) Rest() int {
	if s.lent == nil {
		return 0
	}
	return len(s.lent) - s.most()
}

func (s *longStation) Fetch(from int, parts [][]byte) bool {
	frame := s.lent[from:]
	s.lent = nil
	for _, p := range parts {
		frame = frame[copy(p, frame):]
	}
	return true
}

// longRig is two cards, and cables and switches between them.
type longRig struct {
	*liveRig
	stations []*longStation
	hole     bool
	slot     int // of each
}

// newLongRig joins two cards by as many cables as there are pairs of MTUs, with a switch
// between one and the next.
func newLongRig(t *testing.T, seed uint64, cables ...[2]int) *longRig {
	return newSlotRig(t, seed, 0, cables...)
}

// newSlotRig is newLongRig with stations of that slot.
func newSlotRig(t *testing.T, seed uint64, slot int, cables ...[2]int) *longRig {
	r := &longRig{slot: slot, liveRig: &liveRig{TB: t, w: sim.New(sim.Options{Seed: seed, MTU: ethertype.MaxMTU, Limit: time.Hour}), opts: myrinet.LiveOptions{Seed: seed}}}
	first := r.end(0, cables[0][0])
	var far transport.Link = r.end(0, cables[0][1])
	for i, mtus := range cables[1:] {
		links := []transport.Link{far, r.end(i+1, mtus[0])}
		far = r.end(i+1, mtus[1])
		r.addSwitch(fmt.Sprint(i), links)
	}
	r.addCard("a", first)
	r.addCard("b", far)
	return r
}

func (r *longRig) end(cable, mtu int) *longStation {
	s := &longStation{Station: r.station(cable, fmt.Sprint(len(r.stations))), mtu: mtu, hole: &r.hole, slot: r.slot}
	r.stations = append(r.stations, s)
	return s
}

// passes sends packets of several lengths both ways, and checks that they come as they
// were sent. It returns how many long frames have come anywhere.
func (r *longRig) passes(route myrinet.Route) (long int) {
	r.Helper()
	for _, s := range r.stations {
		s.longIn = 0
	}
	for i, c := range r.cards {
		c.got, c.whole = nil, nil
		if i == 1 {
			route = route.Back()
		}
		for n := range 40 {
			c.queue = append(c.queue, AppendPacket(nil, route, uint16(n), payload(n*n*39)))
		}
		c.end.Link().Wake()
	}
	r.run(100 * time.Millisecond)
	for _, c := range r.cards {
		if len(c.got) != 40 {
			r.Fatalf("%d packets came: %+v", len(c.got), c.end.Snapshot())
		}
		for n, packet := range c.got {
			if !c.whole[n] || !bytes.Equal(packet, AppendPacket(nil, nil, uint16(n), payload(n*n*39))) {
				r.Fatalf("packet %d is not as it was sent", n)
			}
		}
	}
	for _, s := range r.stations {
		long += s.longIn
	}
	return long
}

// TestLongCable: packets are one frame a cable where that carries long ones: cards and
// switches find out, and cease when it does no more.
func TestLongCable(t *testing.T) {
	for name, c := range map[string]struct {
		cables [][2]int
		route  myrinet.Route
		long   bool
	}{
		"direct":                {[][2]int{{1500, 1500}}, nil, true},
		"unequal":               {[][2]int{{1500, 4000}}, nil, false},
		"through a switch":      {[][2]int{{1500, 1500}, {9000, 9000}}, myrinet.Route{1}, true},
		"long behind the other": {[][2]int{{1500, 1600}, {1500, 1500}}, myrinet.Route{1}, true},
		"of little use":         {[][2]int{{longPart + 100, longPart + 100}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLongRig(t, 1, c.cables...)
			r.run(time.Second)
			if long := r.passes(c.route); long > 0 != c.long {
				t.Errorf("%d long frames came", long)
			}
			r.hole = true
			r.run(10 * time.Second)
			if long := r.passes(c.route); long > 0 {
				t.Errorf("%d long frames came through the hole", long)
			}
			r.hole = false
			r.run(20 * time.Second)
			if long := r.passes(c.route); long > 0 != c.long {
				t.Errorf("%d long frames came after it", long)
			}
			for _, c := range r.cards {
				if st := c.end.Snapshot(); st.Frames.Sessions != 1 || st.Packets.Dropped() != 0 || st.Frames.Malformed != 0 {
					t.Errorf("%+v", st)
				}
			}
		})
	}
}

// TestSlotCable: packets come as they were sent also where the links give only the beginning of plain
// frames, and have no long ones.
func TestSlotCable(t *testing.T) {
	r := newSlotRig(t, 1, 200, [2]int{9000, 9000}, [2]int{9000, 9000})
	r.run(time.Second)
	if fetched := r.passes(myrinet.Route{1}); fetched < 40 {
		t.Errorf("%d frames were fetched", fetched)
	}
}
