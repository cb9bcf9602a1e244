package myrinet_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

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

// card adds a sink and plugs it into a port.
func (r *rig) card(name string, to *myrinet.Port) *sink {
	s := &sink{world: r.w}
	s.port = r.Host(name, s)
	r.join(s.port, to)
	return s
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
	if err := r.AtRest(); err != nil {
		r.Error(err)
	}
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// TestTiming: the formula of the package comment, exactly, over 0 to 5 switches.
func TestTiming(t *testing.T) {
	for n := 0; n <= 5; n++ {
		for _, size := range []int{0, 1, 100, 128, 129, 1000, 4096, 60000} {
			r := newRig(t, myrinet.Options{})
			a, b := &sink{world: r.w}, &sink{world: r.w}
			a.port, b.port = r.Host("a", a), r.Host("b", b)
			end, route := a.port, myrinet.Route{}
			for i := range n {
				s := r.Switch(fmt.Sprint("s", i))
				r.join(end, s.Port(2))
				end = s.Port(5)
				route = append(route, 3)
			}
			r.join(end, b.port)
			start := r.w.Now()
			a.send(hardware.AppendPacket(nil, route, 9, payload(size)))
			r.run(time.Millisecond)
			if len(b.at) != 1 {
				t.Fatalf("%d switches, %d bytes: %d packets came: %+v", n, size, len(b.at), r.Stats())
			}
			z := int64(size + 3)
			want := int64(n+1)*25 + int64(n)*300 + (z*1e9+160e6-1)/160e6
			if got := b.at[0] - start; got < want || got > want+want/100 {
				t.Errorf("%d switches, %d bytes: %d ns, want %d", n, size, got, want)
			}
			typ, p, err := hardware.ParsePacket(b.got[0])
			if typ != 9 || err != nil || !bytes.Equal(p, payload(size)) {
				t.Errorf("%d switches, %d bytes: it came as type %d, %d bytes, %v", n, size, typ, len(p), err)
			}
			r.account()
		}
	}
}

// TestThroughput: packets behind each other fill the link, whatever their length: a
// thousand of them over three switches take what their bytes take, and one latency.
func TestThroughput(t *testing.T) {
	for _, size := range []int{61, 125, 1000, 4096} {
		r := newRig(t, myrinet.Options{})
		a, b := &sink{world: r.w}, &sink{world: r.w}
		a.port, b.port = r.Host("a", a), r.Host("b", b)
		end := a.port
		for i := range 3 {
			s := r.Switch(fmt.Sprint("s", i))
			r.join(end, s.Port(0))
			end = s.Port(1)
		}
		r.join(end, b.port)
		start := r.w.Now()
		for range 1000 {
			a.send(hardware.AppendPacket(nil, myrinet.Route{1, 1, 1}, 9, payload(size)))
		}
		r.run(100 * time.Millisecond)
		if len(b.at) != 1000 {
			t.Fatalf("%d bytes: %d packets came", size, len(b.at))
		}
		want := float64(1000*(size+6)) / 160e6 * 1e9
		if got := float64(b.at[999] - start); got < want || got > want*1.02+1000 {
			t.Errorf("%d bytes: 1000 packets took %v ns, want %v", size, got, want)
		}
		r.account()
	}
}

// TestShare: two inputs that want one output get it in turn, and nothing is lost.
func TestShare(t *testing.T) {
	r := newRig(t, myrinet.Options{})
	s := r.Switch("s")
	dst := r.card("d", s.Port(7))
	for i := range 3 {
		src := r.card(fmt.Sprint("h", i), s.Port(i))
		for range 100 {
			src.send(hardware.AppendPacket(nil, myrinet.Route{int8(7 - i)}, uint16(i), payload(500)))
		}
	}
	r.run(10 * time.Millisecond)
	if len(dst.got) != 300 {
		t.Fatalf("%d packets came", len(dst.got))
	}
	for i, p := range dst.got[:297] {
		if typ, _, err := hardware.ParsePacket(p); err != nil || int(typ) != i%3 {
			t.Fatalf("packet %d is from %d, %v", i, typ, err)
		}
	}
	if st := s.Port(1).Stats(); st.Blocked < 90 || st.BlockedNanos == 0 {
		t.Errorf("waits are not counted: %+v", st)
	}
	r.account()
}

// TestBackPressure: a card without room blocks what is behind: a third one's packet to a
// free card, too, because it follows on the same link. When there is room all arrive.
func TestBackPressure(t *testing.T) {
	r := newRig(t, myrinet.Options{Timeout: time.Hour})
	s0, s1 := r.Switch("s0"), r.Switch("s1")
	r.join(s0.Port(7), s1.Port(0))
	a, c := r.card("a", s0.Port(0)), r.card("c", s0.Port(1))
	b, d := r.card("b", s1.Port(1)), r.card("d", s1.Port(2))
	b.full = true
	a.send(hardware.AppendPacket(nil, myrinet.Route{7, 1}, 1, payload(4000)), hardware.AppendPacket(nil, myrinet.Route{7, 1}, 2, payload(4000)))
	r.run(time.Millisecond)
	c.send(hardware.AppendPacket(nil, myrinet.Route{6, 2}, 3, payload(100)))
	r.run(time.Second)
	if len(b.got)+len(d.got) != 0 || a.sent != 0 {
		t.Fatalf("%d and %d packets came, %d left: nothing is blocked", len(b.got), len(d.got), a.sent)
	}
	b.full = false
	b.port.Resume()
	r.run(time.Second)
	if len(b.got) != 2 || len(d.got) != 1 || a.sent != 2 || c.sent != 1 {
		t.Fatalf("%d and %d packets came, %d and %d left", len(b.got), len(d.got), a.sent, c.sent)
	}
	r.account()
}
