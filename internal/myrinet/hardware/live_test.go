package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/mdlayher/ethernet"
)

// liveCard is a card without a program at the end of a live cable, and the process that
// drives it.
type liveCard struct {
	end   *End
	full  bool
	queue [][]byte
	got   [][]byte
	whole []bool
	mem   []byte // where packets of one frame are put; nil for nowhere
}

func (c *liveCard) Room(int) bool { return !c.full }

// Place implements Placer.
func (c *liveCard) Place(n int) []byte {
	if c.full || n > len(c.mem) {
		return nil
	}
	return c.mem[:n]
}

func (c *liveCard) Arrived(packet []byte, whole bool) {
	c.got = append(c.got, bytes.Clone(packet))
	c.whole = append(c.whole, whole)
}

func (c *liveCard) Sent() { c.pump() }

func (c *liveCard) pump() {
	for len(c.queue) > 0 && c.end.Send(c.queue[0]) {
		c.queue = c.queue[1:]
	}
}

// send has packets leave. The card's process notices.
func (c *liveCard) send(packets ...[]byte) {
	c.queue = append(c.queue, packets...)
	c.end.Link().Wake()
}

// drive is the process of the card.
func (c *liveCard) drive() error {
	for {
		c.pump()
		next, err := c.end.Poll()
		if err == nil {
			err = c.end.Link().Wait(next)
		}
		if errors.Is(err, transport.ErrClosed) {
			return nil
		}
	}
}

// liveRig is a fabric of live cables over stations of a simulated segment: an EtherType
// for each cable, as if it were a segment of its own.
type liveRig struct {
	testing.TB
	w        *sim.World
	opts     myrinet.LiveOptions
	cards    []*liveCard
	switches []*LiveSwitch
	stations []*sim.Station
}

// newLiveRig builds a topology.
func newLiveRig(t testing.TB, so sim.Options, opts myrinet.LiveOptions, top *topology.Topology) *liveRig {
	so.Limit = 100 * time.Hour
	opts.Seed = so.Seed + 1
	r := &liveRig{TB: t, w: sim.New(so), opts: opts}
	links := make([][]transport.Link, len(top.Switches))
	for i := range links {
		links[i] = make([]transport.Link, top.Ports)
	}
	cards := make([]transport.Link, len(top.Hosts))
	for i, c := range top.Cables {
		for _, p := range []topology.Plug{c.A, c.B} {
			s := r.station(i, top.Name(p))
			if p.Host {
				cards[p.Node] = s
			} else {
				links[p.Node][p.Port] = s
			}
		}
	}
	for i := range links {
		r.addSwitch(top.Switches[i], links[i])
	}
	for i, link := range cards {
		r.addCard(top.Hosts[i], link)
	}
	return r
}

func (r *liveRig) station(cable int, name string) *sim.Station {
	s := r.w.StationWith(sim.StationOptions{Name: name, EtherType: ethernet.EtherType(0x9000 + cable), Ports: CablePorts})
	r.stations = append(r.stations, s)
	return s
}

func (r *liveRig) addSwitch(name string, links []transport.Link) *LiveSwitch {
	s, err := NewLiveSwitch(name, links, r.opts)
	if err != nil {
		r.Fatal(err)
	}
	for i, link := range links {
		if link != nil {
			r.w.Go(fmt.Sprintf("%s:%d", name, i), func() { s.Drive(i) })
		}
	}
	r.switches = append(r.switches, s)
	return s
}

func (r *liveRig) addCard(name string, link transport.Link) *liveCard {
	c := &liveCard{}
	if len(r.cards)%2 == 1 {
		c.mem = make([]byte, defaultMaxPacket)
	}
	end, err := NewEnd(link, c, r.opts)
	if err != nil {
		r.Fatal(err)
	}
	c.end = end
	r.w.Go(name, func() {
		if err := c.drive(); err != nil {
			panic(err)
		}
	})
	r.cards = append(r.cards, c)
	return c
}

func (r *liveRig) run(d time.Duration) {
	r.Helper()
	if err := r.w.Sleep(d); err != nil {
		r.Fatal(err)
	}
}

// account returns an error unless every packet is accounted for and all is at rest.
func (r *liveRig) account() error {
	var got, sent, ended, sessions uint64
	for i, c := range r.cards {
		sessions = max(sessions, c.end.frames.Sessions)
		sent += c.end.stats.PacketsOut + c.end.stats.NoCable
		ended += c.end.stats.Dropped() + c.end.frames.TooLong + c.end.frames.FramesLost
		got += uint64(len(c.got))
		if c.end.n != 0 || len(c.queue) != 0 || c.end.sending && !c.end.owed {
			return fmt.Errorf("card %d has %d packets left, %+v", i, len(c.queue), c.end.Snapshot())
		}
		if err := atRest(&c.end.cableEnd); err != nil {
			return fmt.Errorf("card %d: %w", i, err)
		}
	}
	for _, s := range r.switches {
		for i, p := range s.port {
			if p == nil {
				continue
			}
			sessions = max(sessions, p.frames.Sessions)
			ended += p.stats.Dropped() + p.frames.TooLong + p.frames.FramesLost
			if err := atRest(&p.cableEnd); err != nil {
				return fmt.Errorf("%v:%d: %w", s, i, err)
			}
			if s.x.InUse(i) {
				return fmt.Errorf("%v:%d: the crossbar is in use: %+v", s, i, s.x)
			}
		}
	}
	if sent > got+ended && sessions == 1 { // nobody knows what was under way when one ended
		return fmt.Errorf("%d packets were sent, %d came, %d were dropped", sent, got, ended)
	}
	return nil
}

func atRest(c *cableEnd) error {
	if c.pass.state != idle || c.in.buffered() != 0 || c.in.next != c.in.high || c.out.n != 0 {
		return fmt.Errorf("not at rest: passage %+v, %+v", c.pass, c.snapshot())
	}
	return nil
}

// TestLiveCable: two cards joined by a cable, without a switch, of every MTU: packets of
// all lengths come as they were sent.
func TestLiveCable(t *testing.T) {
	top := &topology.Topology{Ports: 8, Hosts: []string{"a", "b"}, Cables: []topology.Join{{A: topology.AtHost(0), B: topology.AtHost(1)}}}
	for _, mtu := range []int{256, 1500, 9000, 65535} {
		r := newLiveRig(t, sim.Options{Seed: 1, MTU: mtu}, myrinet.LiveOptions{}, top)
		r.run(100 * time.Millisecond)
		a, b := r.cards[0], r.cards[1]
		var want [][]byte
		for n := range 100 {
			want = append(want, AppendPacket(nil, nil, uint16(n), payload(n*n*6)))
		}
		a.send(want...)
		b.send(AppendPacket(nil, nil, 9, payload(100)))
		r.run(time.Second)
		if len(b.got) != len(want) || len(a.got) != 1 {
			t.Fatalf("MTU %d: %d and %d packets came: %+v", mtu, len(b.got), len(a.got), a.end.Snapshot())
		}
		for i := range want {
			if !b.whole[i] || !bytes.Equal(b.got[i], want[i]) {
				t.Fatalf("MTU %d: packet %d is not as it was sent", mtu, i)
			}
		}
		if err := r.account(); err != nil {
			t.Error(err)
		}
		if st := b.end.Snapshot(); st.Packets.PacketsIn != 100 || st.Frames.Sessions != 1 || st.Frames.NoRoom+st.Frames.Malformed+st.Frames.FramesLost != 0 {
			t.Errorf("MTU %d: %+v", mtu, st)
		}
	}
}
