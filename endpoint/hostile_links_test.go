package endpoint_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMillionMutatedFrames: two nodes on a wire exchange requests and replies of
// all sizes, while somebody else's socket throws a million frames at both, made
// from what it has heard of them: with a wrong CRC, or the tag of no connection.
// Some are frames of a connection of its own to another endpoint there, wrong only
// in the messages that they carry. Each frame is counted as what it is, nothing is
// written that should not be, and each honest request is handled and answered once.
func TestMillionMutatedFrames(t *testing.T) {
	for _, l := range []struct {
		driver string
		frames int
	}{{"ring", 1_000_000}, {"udp", 100_000}, {"shm", 100_000}} {
		t.Run(l.driver, func(t *testing.T) {
			t.Parallel()
			if !need.Full() {
				l.frames /= 20
			}
			seed := seeding.First()
			t.Logf("replay with -endpoint.seed=%d", seed)
			newOnslaught(t, l.driver, seed).run(l.frames)
		})
	}
}

// onslaught is two nodes, and who attacks them.
type onslaught struct {
	t        *testing.T
	talk     *talk
	fortress fortress // the other endpoint at the server
	victims  [2]*victim
	spy      *spy
	thrown   int
	batch    [transport.MaxBatch]transport.Frame
}

// victim is a NIC that mutants are thrown at.
type victim struct {
	mutant.Frames
	nic     *vipl.NIC
	info    transport.Info
	way     transport.Link // the mutants' way there
	others  []*recorder    // what else sends to it
	valid   uint64         // mutants that are frames of Bobnet
	refused vipl.DropCounts

	peer   *recorder // what it is sent by the other node
	first  [][]byte  // what that has sent first: how they connected, and messages of each kind
	forger *spy      // in whose name mutants must come; nil: in the peer's
}

const (
	firstHeard = 200 // frames
	lastHeard  = 32
	listening  = 4 // rounds before it is listened to again
)

// listen makes the mutants be made from the first frames and the last ones.
func (v *victim) listen() {
	v.Right = append(v.Right[:0], v.first...)
	v.Right = append(v.Right, v.peer.take(lastHeard)...)
	if v.forger != nil {
		v.forger.forge(v.Right)
	}
}

// recorder counts the frames that a link takes by the block of ports at a station
// that they go to, and keeps the latest.
type recorder struct {
	transport.Link
	mu     sync.Mutex
	to     map[station]uint64
	latest [][]byte
	most   int // of them
	oldest int // index of the one before the oldest
}

type station struct {
	mac   ethertype.MAC
	block uint16
}

func (r *recorder) Send(frames []transport.Frame) (int, error) {
	n, err := r.Link.Send(frames)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range frames[:n] {
		head := frames[i].Head
		port := uint16(head[framing.OffsetDstPort])<<8 | uint16(head[framing.OffsetDstPort+1])
		r.to[station{ethertype.MAC(head[:6]), port / 1024}]++
		switch {
		case len(r.latest) < r.most:
			r.latest = append(r.latest, frames[i].AppendTo(nil))
		case r.most > 0:
			r.oldest = (r.oldest + 1) % r.most
			r.latest[r.oldest] = frames[i].AppendTo(r.latest[r.oldest][:0])
		}
	}
	return n, err
}

// take returns the latest frames, and from now on keeps so many.
func (r *recorder) take(most int) (latest [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest, r.latest, r.most, r.oldest = r.latest, nil, most, most-1
	return latest
}

// sent returns how many frames it has sent that arrive at a NIC.
func (r *recorder) sent(to *transport.Info) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to[station{to.MAC, to.Ports.Lo / 1024}] + r.to[station{ethertype.Broadcast, 0}]
}

// openThree opens a server, a client beside it on the wire, and a third NIC
// beside the client, which nobody but its user drives.
func openThree(t *testing.T, driver string, seed uint64) (nics [3]*vipl.NIC, links [3]*recorder, in func(side int, f func() error) error) {
	t.Helper()
	in = func(_ int, f func() error) error { return f() }
	names := [3]string{vethtest.Loopback(55), vethtest.Loopback(56), vethtest.Loopback(57)}
	switch driver {
	case "ring":
		in = vethtest.New(t, 1500).In
		names = [3]string{vethtest.Name, vethtest.Name, vethtest.Name}
	case "shm":
		names = [3]string{}
	}
	for i := range nics {
		links[i] = &recorder{to: map[station]uint64{}}
		if err := in(min(i, 1), func() (err error) {
			nics[i], err = vipl.Open(t.Context(), &vipl.Config{Interface: names[i], Driver: driver, WireOnly: true, EtherType: ethertype.Default + 2,
				NoService: i == 2, Spin: -1, Seed: 3*seed + uint64(i), Logger: quiet,
				Wrap: func(l transport.Link) transport.Link { links[i].Link = l; return links[i] }})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[i].Close() })
	}
	return nics, links, in
}

func newOnslaught(t *testing.T, driver string, seed uint64) *onslaught {
	nics, links, in := openThree(t, driver, seed)
	o := &onslaught{t: t}
	var err error
	if o.talk, err = newTalk(nics[0], nics[1]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.talk.close() })
	other, err := o.talk.s.b.NewEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	o.fortress.setup(&party{b: o.talk.s.b, ep: other})
	if o.spy, err = newSpy(nics[2], links[2], o.talk.nodes[0], o.talk.c.ep.Name(), other.Name(), seed); err != nil {
		t.Fatal(err)
	}
	ways := [2]transport.Link{links[2].Link, links[2].Link}
	if driver == "ring" { // a socket beside the server, to reach the client
		if err := in(0, func() (err error) {
			ways[1], err = ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, EtherType: ethertype.Default + 2})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ways[1].Close() })
	}
	for i := range 2 {
		links[i].take(firstHeard)
	}
	o.talk.start()
	o.talk.await(t, talkKinds*talkKinds)
	for i := range o.victims {
		v := &victim{nic: nics[i], info: seam.Link(nics[i]).Info(), way: ways[i]}
		for j, l := range links {
			if j != i {
				v.others = append(v.others, l)
			}
		}
		v.Frames = mutant.Frames{RNG: rand.New(rand.NewPCG(seed, uint64(i))), Longest: v.info.MTU + ethertype.EthernetSize}
		v.peer, v.first = links[1-i], links[1-i].take(lastHeard)
		if driver != "ring" { // where everybody is let speak only for himself
			v.forger = o.spy
		}
		v.listen()
		o.victims[i] = v
	}
	return o
}

// run throws so many mutants, or more until what the spy does has shown, and judges.
func (o *onslaught) run(frames int) {
	for round := 0; o.thrown < frames || o.thrown < 50*frames && !o.shows(); round++ {
		o.talk.goOn()
		for _, v := range o.victims {
			if round%listening == 0 {
				v.listen()
			}
			o.volley(v)
			v.settle(o.t, ahead)
		}
	}
	for _, v := range o.victims {
		v.settle(o.t, 0)
	}
	if err := errors.Join(o.talk.finish(), o.fortress.intact(true)); err != nil {
		o.t.Error(err)
	}
	o.judgeMessages()
}

// shows reports whether messages of the spy's have been refused and taken for strays, which
// is a matter of chance.
func (o *onslaught) shows() bool {
	s := o.talk.nodes[0].Stats()
	return s.Strays > 0 && s.Refused[endpoint.ReasonBadLength] > 0
}

// ahead is how many frames may be on their way to a victim.
const ahead = 128

// spied is how many frames of a volley at the server are the spy's own.
const spied = 4

// volley throws a batch of mutants at a victim.
func (o *onslaught) volley(v *victim) {
	own := 0
	if v == o.victims[0] {
		if err := o.spy.ready(); err != nil {
			o.t.Fatal(err)
		}
		own = spied
	}
	for i := range o.batch {
		f := &o.batch[i].Head
		if i < own {
			*f = append((*f)[:0], o.spy.next(&v.Frames)...)
		} else {
			*f = append((*f)[:0], v.Wrong(v.fit)...)
		}
		v.expect(*f)
	}
	o.thrown += len(o.batch)
	for rest := o.batch[:]; len(rest) > 0; runtime.Gosched() {
		n, err := v.way.Send(rest)
		if err != nil {
			o.t.Fatal(err)
		}
		rest = rest[n:]
	}
}

// expect notes what becomes of a frame that is thrown.
func (v *victim) expect(f []byte) {
	h := new(ethertype.Header)
	if !v.judge(h, f) {
		return
	}
	v.valid++
	for first, next := *h, h.Next(f); next != nil && v.judge(h, next) && framing.Beside(h, &first); {
		next = h.Next(next) // that shares its Ethernet frame
	}
}

// judge reports whether f is a frame of Bobnet, whose header is in h then, and if not notes why it
// is to be refused.
func (v *victim) judge(h *ethertype.Header, f []byte) bool {
	_, err := h.Parse(f)
	_, sealed := framing.IsSealed(f)
	switch {
	case err == nil:
		return true
	case sealed:
		v.refused[drops.Sealed]++
	case err == ethertype.ErrShort:
		v.refused[drops.Short]++
	case err == ethertype.ErrRange:
		v.refused[drops.Range]++
	case err == ethertype.ErrCRC:
		v.refused[drops.CRC]++
	default:
		v.refused[drops.Format]++
	}
	return false
}

// spoken is how many frames the others have sent to the victim.
func (v *victim) spoken() (n uint64) {
	for _, l := range v.others {
		n += l.sent(&v.info)
	}
	return n
}

// settle waits until the victim has counted what was sent to it, or all but so
// many frames.
func (v *victim) settle(t *testing.T, ahead uint64) {
	t.Helper()
	want := v.spoken() + v.valid
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		s := v.nic.Snapshot()
		if s.RxFrames+v.lost(&s)+ahead >= want && (ahead > 0 || v.counted(t, &s)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d frames, %d of them mutants, it counts %d; of what is wrong %v and not %v; link: %+v",
				want, v.valid, s.RxFrames, s.Dropped, v.refused, s.Link)
		}
	}
}

// lost is how many frames to the victim links say to have lost, or more.
func (v *victim) lost(s *vipl.Snapshot) uint64 {
	n := s.Link.RxDrops + v.way.Stats().TxDrops
	for _, l := range v.others {
		n += l.Stats().TxDrops
	}
	return n
}

// counted reports whether each mutant that is no frame, and was not lost, is in
// the counters, under the right reason. Frames may be dropped for their content,
// which adds to some.
func (v *victim) counted(t *testing.T, s *vipl.Snapshot) bool {
	var missing uint64
	for why, n := range v.refused {
		why, got := drops.Reason(why), s.Dropped[why]
		if exact := why == drops.Short || why == drops.CRC; exact && got > n {
			t.Fatalf("%d frames dropped as %v, want %d", got, why, n)
		}
		missing += max(n, got) - got
	}
	return missing <= v.lost(s)
}

// judgeMessages wants the nodes' counters to account for the messages.
func (o *onslaught) judgeMessages() {
	t, s, c := o.t, o.talk.nodes[0].Stats(), o.talk.nodes[1].Stats()
	t.Logf("%d honest requests, %d of the spy's among %d messages at most; server: %+v", c.Sent, o.fortress.ran, o.spy.messages, s)
	if c.Replies != c.Sent || c.Strays+c.Broken+c.Violations+c.Panics > 0 {
		t.Errorf("the client: %+v", c)
	}
	if n := taken(&s); n < c.Sent || n > c.Sent+o.spy.messages || s.Requests < c.Sent+uint64(o.fortress.ran) || s.Panics > 0 {
		t.Errorf("the server, of %d honest requests and the spy's %d handled among %d messages: %+v", c.Sent, o.fortress.ran, o.spy.messages, s)
	}
	if o.fortress.ran == 0 || s.Strays == 0 || s.Refused[endpoint.ReasonBadLength] == 0 {
		t.Errorf("the spy has done nothing: %d of its requests handled; %+v", o.fortress.ran, s)
	}
}

// fit makes a mutant pass the filters of the victim's links.
func (v *victim) fit(f []byte) []byte { return mutant.Fit(f, v.Right[0]) }
