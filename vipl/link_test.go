package vipl_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/conformance"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// opener opens links at the two ends of a segment, as often as it is called.
type opener func() (conformance.Ends, error)

// eachLink runs a test on every link that is not simulated, by name, with what
// opens it; on the first one only in the short form.
func eachLink(t *testing.T, run func(t *testing.T, name string, open opener)) {
	links := viplinks.All[1:]
	if !need.Full() {
		links = links[:1]
	}
	for _, l := range links {
		t.Run(l.Name, func(t *testing.T) { run(t, l.Name, l.Setup(t)) })
	}
}

// nics opens NICs at the two ends. wrap, if not nil, is put around each link.
func (open opener) nics(t *testing.T, cfg vipl.Config, wrap func(side int, l transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	t.Helper()
	e, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for side, link := range e.Links {
		if wrap != nil {
			link = conformance.KeepLocal(link, wrap(side, link))
		}
		cfg := cfg
		cfg.Link, cfg.WireOnly = link, true // a link to this host has the way there itself
		if nics[side], err = vipl.Open(t.Context(), &cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// drivers are the links on real interfaces.
var drivers = []string{"ring", "packet", "udp"}

// interfaceOf is what Config.Interface says to a driver on a veth.
func interfaceOf(driver string) string {
	if driver == "shm" {
		return ""
	}
	return vethtest.Name
}

// addIPs gives the ends of a veth addresses for udp.
func addIPs(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	for side, ip := range []string{"10.9.0.1", "10.9.0.2"} {
		changeIP(t, p, side, ip, netlink.AddrAdd)
	}
}

// TestWays opens NICs with AF_XDP sends on and off: the links do as they are told,
// and a message arrives either way.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		name string
		xdp  ring.Choice
	}{
		{"XDP", ring.On},
		{"Plain", ring.Off},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var nics [2]*vipl.NIC
			for side := range nics {
				cfg := &vipl.Config{Interface: vethtest.Name, XDP: c.xdp}
				err := p.In(side, func() (err error) { nics[side], err = vipl.Open(t.Context(), cfg); return err })
				if errors.Is(err, unix.EAFNOSUPPORT) {
					t.Skip("needs a kernel with AF_XDP (CONFIG_XDP_SOCKETS)")
				} else if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nics[side].Close() })
			}
			a, b := join(t, nics, nil)
			f := newFlow(t, a, b, 50, 20_000, 1)
			within(t, "an exchange", func() error { return all(f.send, f.receive) })
			for _, n := range nics {
				s := seam.Link(n).Stats()
				if got, want := s.TxXDP > 0, c.xdp == ring.On; got != want {
					t.Errorf("%d of %d frames went through AF_XDP, want some: %t", s.TxXDP, s.TxFrames, want)
				}
			}
		})
	}
}

// TestWaysOfOtherDrivers wants what they do not have to be refused and to be left
// off without a word.
func TestWaysOfOtherDrivers(t *testing.T) {
	for _, driver := range []string{"packet", "udp", "shm", "myrinet"} {
		for _, cfg := range []vipl.Config{{XDP: ring.On}, {Long: ring.On}} {
			cfg.Driver = driver
			if _, err := vipl.Open(t.Context(), &cfg); !errors.Is(err, vipl.ErrArgument) {
				t.Errorf("%s, XDP %v, Long %v: %v, want ErrArgument", driver, cfg.XDP, cfg.Long, err)
			}
		}
	}
	n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", XDP: ring.Off, Long: ring.Off})
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}

// TestWrappedShm: a wrapper around shared memory hides that it is the way to this
// host, but not that all its stations are.
func TestWrappedShm(t *testing.T) {
	p, err := fault.Parse("loss=0.02,seed=1")
	if err != nil {
		t.Fatal(err)
	}
	var nics [2]*vipl.NIC
	for i := range nics {
		if nics[i], err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Wrap: func(l transport.Link) transport.Link { return fault.New(l, p) }}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[i].Close() })
	}
	va, vb := join(t, nics, vipl.DefaultAttributes())
	for i, size := range []int{1, 5000, 400_000} {
		relay(t, va, vb, size, byte(i))
		relay(t, vb, va, size, byte(i+1))
	}
}

// loopbackNICs opens two NICs at two addresses of the loopback, which takes no
// privilege.
func loopbackNICs(t *testing.T, wrap func(transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	for side, ip := range []string{vethtest.Loopback(31), vethtest.Loopback(32)} {
		var err error
		if nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: ip, Driver: "udp", Wrap: wrap}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// TestUDP has NICs find and ask each other, and moves messages both ways.
func TestUDP(t *testing.T) {
	nics := loopbackNICs(t, nil)
	for _, to := range []ethertype.Addr{nics[1].Addr(), {MAC: nics[1].Addr().MAC, Port: ethertype.PortAll}} {
		if rtt, err := nics[0].Echo(bg, to, 100); err != nil || rtt <= 0 {
			t.Errorf("echo of %v: %v, %v", to, rtt, err)
		}
	}
	if err := nics[1].Advertise("somebody", nics[1].Addr()); err != nil {
		t.Fatal(err)
	}
	if addr, err := nics[0].Lookup(bg, "somebody"); err != nil || addr != nics[1].Addr() {
		t.Errorf("the name leads to %v (%v), want %v", addr, err, nics[1].Addr())
	}
	a, b := join(t, nics, nil)
	there, back := newFlow(t, a, b, 40, 1<<20, 1), newFlow(t, b, a, 40, 1<<20, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
}

// TestUDPFaults does so over links that lose, double, reorder and corrupt, with
// frames of a usual size.
func TestUDPFaults(t *testing.T) {
	var nics [2]*vipl.NIC
	for side, ip := range []string{vethtest.Loopback(31), vethtest.Loopback(32)} {
		link, err := udp.Open(t.Context(), &udp.Config{Interface: ip, MTU: 1458})
		if err != nil {
			t.Fatal(err)
		}
		faulty := fault.New(link, fault.Options{Seed: uint64(side) + 1, Drop: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02})
		if nics[side], err = vipl.Open(t.Context(), &vipl.Config{Link: faulty}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	a, b := join(t, nics, nil)
	there, back := newFlow(t, a, b, 20, 100_000, 1), newFlow(t, b, a, 20, 100_000, 2)
	within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
	if a.Snapshot().Retransmits == 0 {
		t.Error("nothing was sent again: there were no faults")
	}
}

// TestWrap: Open uses what Config.Wrap returns.
func TestWrap(t *testing.T) {
	nics := loopbackNICs(t, func(l transport.Link) transport.Link { return fault.New(l, fault.Options{}) })
	if driver := nics[0].Query().Driver; !strings.HasPrefix(driver, "fault+udp") {
		t.Errorf("the driver is %q", driver)
	}
}

// vethNICs opens two NICs on the ends of a veth. wrap, if not nil, is put
// around each link.
func vethNICs(t testing.TB, mtu int, cfg vipl.Config, wrap func(side int, l transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	p := vethtest.New(t, mtu)
	for side := range nics {
		err := p.In(side, func() error {
			link, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, EtherType: ethertype.Default, Long: cfg.Long})
			if err != nil {
				return err
			}
			c := cfg
			if c.Link = link; wrap != nil {
				c.Link = wrap(side, link)
			}
			nics[side], err = vipl.Open(t.Context(), &c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// join connects new VIs of two NICs.
func join(t testing.TB, nics [2]*vipl.NIC, attr *vipl.Attributes) (a, b *vipl.VI) {
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = nics[0].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	if b, err = nics[1].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := l.Wait(bg)
		if err == nil {
			err = r.Accept(bg, a)
		}
		done <- err
	}()
	if err := b.Connect(bg, l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return a, b
}

// within fails the test if f has not returned after a time that is far beyond
// what it needs, or since any flow has delivered a message: something hangs.
func within(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for before := delivered.Load(); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		case <-time.After(time.Minute):
		}
		now := delivered.Load()
		if now == before {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
		before = now
	}
}

// delivered counts the messages of all flows.
var delivered atomic.Uint64

// all runs functions at the same time and returns their first error.
func all(fs ...func() error) error {
	errs := make(chan error, len(fs))
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(); err != nil {
				errs <- err
			}
		}()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// flow is count messages of size bytes from one VI to another, never more
// under way than receives are posted.
type flow struct {
	from, to    *vipl.VI
	count, size int
	seed        uint64
	credits     chan struct{}
	in          *buffers
}

const flowDepth = 16

func newFlow(t testing.TB, from, to *vipl.VI, count, size int, seed uint64) *flow {
	f := &flow{from: from, to: to, count: count, size: size, seed: seed, credits: make(chan struct{}, count+flowDepth)}
	var err error
	if f.in, err = newBuffers(to.NIC(), flowDepth, size); err != nil {
		t.Fatal(err)
	}
	for i := range f.in.descs {
		if err := to.PostRecv(&f.in.descs[i]); err != nil {
			t.Fatal(err)
		}
		f.credits <- struct{}{}
	}
	return f
}

func (f *flow) send() error {
	out, err := newBuffers(f.from.NIC(), flowDepth/2, f.size)
	if err != nil {
		return err
	}
	for i := range f.count {
		d := &out.descs[i%len(out.descs)]
		if i >= len(out.descs) {
			if _, err := f.from.SendWait(bg); err != nil {
				return fmt.Errorf("send %d: %w (%v)", i, err, f.from.Err())
			}
		}
		<-f.credits
		content(f.seed, i, d.Segs[0].Data)
		if err := f.from.PostSend(d); err != nil {
			return err
		}
	}
	return drain(f.from)
}

func (f *flow) receive() error {
	for i := range f.count {
		d, err := f.to.RecvWait(bg)
		if err != nil {
			return fmt.Errorf("receive %d: %w (%v)", i, err, f.to.Err())
		}
		if int(d.Length) != f.size {
			return fmt.Errorf("message %d has %d bytes, want %d", i, d.Length, f.size)
		}
		if err := check(f.seed, i, d.Segs[0].Data); err != nil {
			return err
		}
		if err := f.to.PostRecv(d); err != nil {
			return err
		}
		delivered.Add(1)
		f.credits <- struct{}{}
	}
	return nil
}

// TestFaultyLinks sends 100 MB each way at the same time over each link while it
// loses, doubles, reorders and corrupts 2 % of the frames each.
func TestFaultyLinks(t *testing.T) {
	const size = 1 << 20
	count := 96
	if !need.Full() {
		count = 4
	}
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		nics := open.nics(t, vipl.Config{}, faulty(fault.Options{Drop: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02}))
		a, b := join(t, nics, &vipl.Attributes{Reliability: reliability.ReliableReception})
		there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
		within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
		for side, v := range []*vipl.VI{a, b} {
			if v.Snapshot().Retransmits == 0 {
				t.Errorf("side %d has sent nothing again: there were no faults", side)
			}
		}
	})
}

// faulty returns what puts faults around links.
func faulty(o fault.Options) func(side int, l transport.Link) transport.Link {
	return func(side int, l transport.Link) transport.Link {
		o := o
		o.Seed = uint64(side) + 1
		return fault.New(l, o)
	}
}

// TestInterfaceDown switches an interface off in the midst of traffic: the
// connection ends in time, and each side says what it knows of the reason.
// Switched on again, the interface serves the next one.
func TestInterfaceDown(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
		s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 500 * time.Millisecond})
		if err := p.SetUp(0, false); err != nil {
			t.Fatal(err)
		}
		within(t, "the end", func() error { return errors.Join(notEnded(<-s.sent), notEnded(<-s.received)) })
		// The peer's kernel may take its time to notice that there is no carrier.
		for v, words := range map[*vipl.VI][]string{s.a: {"bob0 is down: ip link set bob0 up"}, s.b: {"is its interface up?", "bob0 has no carrier"}} {
			err := v.Err()
			if !errors.Is(err, vipl.ErrUnreachable) || !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }) {
				t.Errorf("ended with %v: want that the peer is unreachable, and one of %q", err, words)
			}
		}
		switchOn(t, p, 0, driver)
		startStream(t, nics, patient)
	})
}

// TestEtherTypes opens two pairs of NICs on one veth, with the same addresses
// and EtherTypes of their own: neither hears the other.
func TestEtherTypes(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			var pairs [2][2]*vipl.NIC
			for i := range pairs {
				for side := range pairs[i] {
					cfg := vipl.Config{Interface: vethtest.Name, Driver: driver, EtherType: ethertype.Default,
						Ports: transport.PortRange{Lo: 3072, Hi: 4095}}
					if i == 1 {
						cfg.EtherType++
					}
					if driver == "udp" { // whose ports are those of UDP, whatever the EtherType
						cfg.Ports = transport.PortRange{}
					}
					err := p.In(side, func() (err error) { pairs[i][side], err = vipl.Open(t.Context(), &cfg); return err })
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { pairs[i][side].Close() })
				}
			}
			apart(t, pairs)
		})
	}
}

// apart wants each NIC to find its partner and to hear it alone, under traffic
// of both pairs.
func apart(t *testing.T, pairs [2][2]*vipl.NIC) {
	var moves []func() error
	for i, nics := range pairs {
		for side, n := range nics {
			other := nics[1-side].Addr()
			moves = append(moves, func() error {
				list, err := n.Discover(bg)
				if len(list) != 1 || list[0].Addr != other {
					t.Errorf("pair %d: %v found %v, want %v alone", i, n.Addr(), list, other)
				}
				return err
			})
		}
		a, b := join(t, nics, nil)
		f := newFlow(t, a, b, 50, 20_000, uint64(i))
		moves = append(moves, f.send, f.receive)
	}
	within(t, "an exchange", func() error { return all(moves...) })
	for i, nics := range pairs {
		for side, n := range nics {
			heard := n.Snapshot()
			if sent := nics[1-side].Snapshot().TxFrames; heard.RxFrames > sent || heard.RxFrames == 0 {
				t.Errorf("pair %d: side %d has heard %d frames of %d", i, side, heard.RxFrames, sent)
			}
			heard.Dropped[drops.Duplicate] = 0 // on a busy machine the partner sends frames again
			heard.Dropped[drops.Stale] = 0     // and some of the handshake after its end
			heard.Dropped[drops.Unknown] = 0   // and answers when nobody waits for them any more; others' would be too many above
			if heard.Dropped != (vipl.DropCounts{}) {
				t.Errorf("pair %d: side %d has dropped frames: %v", i, side, heard.Dropped)
			}
		}
	}
}

// A wire that swallows everything for blackout, from the lightFrames-th frame of a
// link on.
const (
	blackout    = 5 * time.Second
	lightFrames = 60
)

type blackholeLink struct {
	transport.Link
	sent      int
	since     int64         // when the first frame was swallowed; 0: none has been
	swallowed *atomic.Int64 // frames
}

func (l *blackholeLink) Send(frames []transport.Frame) (int, error) {
	if l.sent < lightFrames {
		n, err := l.Link.Send(frames[:min(len(frames), lightFrames-l.sent)])
		l.sent += n
		return n, err
	}
	now := l.Now()
	if l.since == 0 {
		l.since = now
	}
	if now-l.since < int64(blackout) {
		l.swallowed.Add(int64(len(frames)))
		return len(frames), nil
	}
	return l.Link.Send(frames)
}

// TestBlackholeLinks has each link swallow all that either side sends for five seconds
// in the midst of traffic both ways. It goes on afterwards, and nothing is missing. All
// links do so at the same time.
func TestBlackholeLinks(t *testing.T) {
	links := viplinks.All[1:]
	if !need.Full() {
		links = links[:1]
	}
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(func() { t.Run(l.Name, func(t *testing.T) { blackhole(t, l.Setup(t)) }) })
	}
	all.Wait()
}

func blackhole(t *testing.T, open opener) {
	var swallowed [2]atomic.Int64
	nics := open.nics(t, vipl.Config{}, func(side int, l transport.Link) transport.Link {
		return &blackholeLink{Link: l, swallowed: &swallowed[side]}
	})
	var work []func() error
	var ends []*vipl.VI
	for i, level := range reliableLevels {
		a, b := join(t, nics, &vipl.Attributes{Reliability: level, PeerTimeout: 4 * blackout})
		there, back := newFlow(t, a, b, 100, 20_000, uint64(i)), newFlow(t, b, a, 100, 20_000, uint64(i)+10)
		work = append(work, there.send, there.receive, back.send, back.receive)
		ends = append(ends, a, b)
	}
	within(t, "the traffic", func() error { return all(work...) })
	for side := range swallowed {
		if swallowed[side].Load() == 0 {
			t.Errorf("side %d: no frame was swallowed", side)
		}
	}
	for _, v := range ends {
		if v.State() != vipl.StateConnected {
			t.Errorf("%v: %v", v.State(), v.Err())
		}
	}
}

// fullLink is a memLink that takes no frames while it is full.
type fullLink struct {
	*memLink
	full bool
}

func (l *fullLink) Send(frames []transport.Frame) (int, error) {
	if l.full {
		return 0, nil
	}
	return l.memLink.Send(frames)
}

// TestFullLinkResend: a frame that turns out to be lost while the link takes
// nothing counts as sent again when it has been, and goes as soon as the link
// takes frames, not when it has been found lost once more.
func TestFullLinkResend(t *testing.T) {
	loose := &vipl.Attributes{Reliability: reliability.Unreliable}
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	link := &fullLink{memLink: d.links[1]}
	d.na = d.open(0)
	var err error
	if d.nb, err = vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	defer d.nb.Close()
	vis := func(attr *vipl.Attributes) {
		d.a, err = d.na.CreateVI(attr, nil, nil)
		if err == nil {
			d.b, err = d.nb.CreateVI(attr, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.connect()
	}
	vis(loose)
	flood := d.b
	vis(nil)

	in := []*vipl.Descriptor{d.post(d.a, 10), d.post(d.a, 10)}
	d.send(d.b, 10)
	d.links[0].tail--            // lost
	*d.links[0].clock += 100_000 // enough to tell that from reordering
	d.send(d.b, 10)
	d.na.Poll() // says what it lacks
	link.full = true
	for range 100 { // more than a batch
		d.send(flood, 10)
	}
	for range 4 {
		d.nb.Poll()
	}
	if n := d.b.Snapshot().Retransmits; n != 0 {
		t.Errorf("sent again %d times, by a link that takes nothing", n)
	}
	link.full = false
	for range 16 { // a few microseconds
		d.nb.Poll()
		d.na.Poll()
	}
	for _, want := range in {
		got, err := d.a.RecvDone()
		d.took(got, err, want, vipl.StatusOpReceive)
	}
	if n := d.b.Snapshot().Retransmits; n != 1 {
		t.Errorf("sent again %d times, want once", n)
	}
}

// TestHarshLinks connects and moves messages both ways, on either reliable level,
// over each link while it loses or corrupts 30 % of the frames, or doubles and
// reorders them.
func TestHarshLinks(t *testing.T) {
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		for what, o := range map[string]fault.Options{
			"loss":       {Drop: 0.3},
			"corruption": {Corrupt: 0.3},
			"disorder":   {Dup: 0.2, Reorder: 0.3, ReorderBy: 64},
		} {
			nics := open.nics(t, vipl.Config{}, faulty(o))
			for i, level := range reliableLevels {
				a, b := join(t, nics, &vipl.Attributes{Reliability: level})
				there, back := newFlow(t, a, b, 10, 20_000, 1), newFlow(t, b, a, 10, 20_000, 2)
				within(t, fmt.Sprint(what, ", connection ", i), func() error {
					return all(there.send, there.receive, back.send, back.receive)
				})
				if err := errors.Join(a.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			}
			if s := nics[0].Snapshot().Link; s.Faults == 0 {
				t.Errorf("%s: there were no faults: %+v", what, s)
			}
		}
	})
}

// TestReborn: a NIC goes without a word in the midst of traffic, and another one
// takes its ports at once. Its peer, which has sent or has received, is told by
// that one's answer, long before it would give up a silent peer, and on one host
// by the link; a new connection works.
func TestReborn(t *testing.T) {
	for _, driver := range append([]string{"shm", viplinks.XDP, viplinks.UDP6}, drivers...) {
		for _, role := range []string{"sender", "receiver"} { // the survivor's
			t.Run(driver+"/"+role, func(t *testing.T) {
				t.Parallel()
				p := vethtest.NewWithQueues(t, 1500, 4)
				addIPs(t, p)
				addIPv6s(t, p)
				side, want := 1, vipl.ErrPeerReset
				if driver == "shm" {
					side, want = 0, vipl.ErrUnreachable
				}
				victim := openAt(t, p, 0, driver, heldPorts)
				n := openAt(t, p, side, driver, transport.PortRange{})
				nics := [2]*vipl.NIC{n, victim}
				if role == "receiver" {
					nics = [2]*vipl.NIC{victim, n}
				}
				s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 5 * time.Second, Reliability: reliability.ReliableDelivery})
				seam.Link(victim).Close()
				nics = [2]*vipl.NIC{openAt(t, p, 0, driver, heldPorts), n}
				v, ended := s.a, s.sent
				if role == "receiver" {
					v, ended = s.b, s.received
				}
				within(t, "the survivor", func() error {
					if err := <-ended; !errors.Is(err, vipl.ErrDescriptor) || !errors.Is(v.Err(), want) {
						return fmt.Errorf("%w, VI: %w, want %w", err, v.Err(), want)
					}
					return nil
				})
				startStream(t, nics, nil)
			})
		}
	}
}
