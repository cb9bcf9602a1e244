package hardware

import (
	"bytes"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

var seeds = seedtest.Flags("internal/myrinet/hardware", 10)

// sink is a card without a program: it takes what comes, while it has room.
type sink struct {
	world *sim.World
	port  *myrinet.Port
	full  bool
	sent  int
	queue [][]byte // to be sent
	got   [][]byte
	whole []bool
	at    []int64
}

func (s *sink) Room(int) bool { return !s.full }

func (s *sink) Arrived(packet []byte, whole bool) {
	s.got = append(s.got, bytes.Clone(packet))
	s.whole = append(s.whole, whole)
	s.at = append(s.at, s.world.Now())
}

func (s *sink) Sent() {
	s.sent++
	s.pump()
}

func (s *sink) pump() {
	for len(s.queue) > 0 && s.port.Send(s.queue[0]) {
		s.queue = s.queue[1:]
	}
}

func (s *sink) send(packets ...[]byte) {
	s.queue = append(s.queue, packets...)
	s.pump()
}

// rig is a fabric with its world.
type rig struct {
	*testing.T
	*myrinet.Fabric
	w *sim.World
}

func newRig(t testing.TB, opts myrinet.Options) *rig {
	w := sim.New(sim.Options{Seed: opts.Seed, Limit: 100 * time.Hour})
	f, err := myrinet.New(w, opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Fabric: f, w: w}
	r.T, _ = t.(*testing.T)
	return r
}

func (r *rig) join(a, b *myrinet.Port) *myrinet.Cable {
	c, err := r.Join(a, b)
	if err != nil {
		panic(err)
	}
	return c
}

// run lets everything happen that happens within d.
func (r *rig) run(d time.Duration) {
	if err := r.w.Sleep(d); err != nil {
		r.Fatal(err)
	}
}

// account fails the test unless every packet is accounted for and nothing is under way.
func (r *rig) account() {
	r.Helper()
	s := r.Fabric.Stats()
	if s.Sent != s.Delivered+s.DeliveredTruncated+s.Ports.Dropped() || s.UnderWay != 0 {
		r.Errorf("packets do not add up: %+v", s)
	}
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// around is the route from a card of a ring over so many links to another one.
func around(links int) myrinet.Route {
	route := myrinet.Route{-2}
	for range links - 1 {
		route = append(route, -1)
	}
	return append(route, 1)
}
