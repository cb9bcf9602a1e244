package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCrowdConnects has thousands of VIs connect at once over interfaces whose frames
// are so long that the receive ring holds a few dozen. Frames of connections that begin
// are lost then, but none fails, and nobody blames the MTU.
func TestCrowdConnects(t *testing.T) {
	count := 64 * 64
	if !need.Full() {
		count = 1024
	}
	p := vethtest.New(t, 65535)
	var nics [2]*vipl.NIC
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 1024, Hi: 1024 + 4199}})
	}
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bg, 40*time.Second)
	defer cancel()
	within(t, "connecting", func() error {
		return all(
			func() error { return acceptAll(ctx, l, nics[0], count) },
			func() error { return connectAll(ctx, l, nics[1], count) })
	})
	for side, n := range nics {
		if s := seam.Link(n).Stats(); s.RxDrops > s.RxFrames/2 {
			t.Errorf("side %d has lost %d frames, and received %d", side, s.RxDrops, s.RxFrames)
		}
	}
}

// acceptAll accepts count requests.
func acceptAll(ctx context.Context, l *vipl.Listener, n *vipl.NIC, count int) error {
	vis := make([]*vipl.VI, count)
	for i := range vis {
		r, err := l.Wait(ctx)
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := r.AcceptStart(vis[i]); err != nil {
			return err
		}
	}
	return outcomes(ctx, vis)
}

// connectAll has count VIs connect at once.
func connectAll(ctx context.Context, l *vipl.Listener, n *vipl.NIC, count int) error {
	vis := make([]*vipl.VI, count)
	for i := range vis {
		var err error
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := vis[i].ConnectStart(l.Addr(), nil); err != nil {
			return err
		}
	}
	return outcomes(ctx, vis)
}

// outcomes returns when no VI is connecting any more, with the errors of those that
// have failed.
func outcomes(ctx context.Context, vis []*vipl.VI) error {
	failed := 0
	var first error
	for i, v := range vis {
		for v.ConnectDone() == vipl.ErrNotDone {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("VI %d is still connecting: %w", i, err)
			}
		}
		if err := v.ConnectDone(); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d have failed, the first: %w", failed, len(vis), first)
	}
	return nil
}

// TestLossIsNoMTU: where most frames are lost, whatever their length, an attempt to
// connect may fail, but not because of the MTU.
func TestLossIsNoMTU(t *testing.T) {
	failed := 0
	seeds(t, 300, func(seed uint64) error {
		o, err := shake(sim.Options{Seed: seed, Loss: 0.7, MTU: 65535}, reliableLevels[seed%2])
		if o.client != nil {
			failed++
		}
		if errors.Is(o.client, vipl.ErrInvalidMTU) || errors.Is(o.server, vipl.ErrInvalidMTU) {
			return fmt.Errorf("client: %w, server: %w", o.client, o.server)
		}
		return err
	})
	t.Log(failed, "attempts failed")
}

// crowd is how many idle VIs are connected on each NIC.
const crowd = 1000

// crowdTogether connects idle VIs between two NICs.
func crowdTogether(t testing.TB, nics [2]*vipl.NIC) (vis []*vipl.VI) {
	for range crowd {
		a, b := join(t, nics, nil)
		vis = append(vis, a, b)
	}
	return vis
}

// TestCrowdMemory connects a thousand VIs over a real link: the library keeps
// at most 4 KiB for each, and all stay connected while one of them works.
func TestCrowdMemory(t *testing.T) {
	const limit = 4 << 10
	nics := vethNICs(t, 1500, vipl.Config{}, nil)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	join(t, nics, nil) // what a NIC needs once
	before := heap()
	vis := crowdTogether(t, nics)
	per := (int64(heap()) - int64(before)) / int64(len(vis))
	t.Logf("%d bytes for each of %d connected VIs", per, len(vis))
	if per > limit {
		t.Errorf("an idle VI keeps %d bytes, want at most %d", per, limit)
	}
	a, b := vis[0], vis[1]
	f := newFlow(t, a, b, 100, 1000, 1)
	within(t, "the transfer", func() error { return all(f.send, f.receive) })
	for i, v := range vis {
		if v.State() != vipl.StateConnected {
			t.Fatalf("VI %d is %v: %v", i, v.State(), v.Err())
		}
	}
}

// BenchmarkCrowd bounces a message over a VI that is alone on its NIC and, in
// turns, over one among a thousand idle ones, and reports both round trips and
// their ratio:
//
//	go test ./vipl -run '^$' -bench Crowd -benchtime 20000x
func BenchmarkCrowd(b *testing.B) {
	alone, among := newBouncePair(b, false), newBouncePair(b, true)
	var aloneNs, amongNs []time.Duration
	const turn = 50
	for b.Loop() {
		for range turn {
			aloneNs = append(aloneNs, alone.bounce(b))
		}
		for range turn {
			amongNs = append(amongNs, among.bounce(b))
		}
	}
	slices.Sort(aloneNs)
	slices.Sort(amongNs)
	x, y := aloneNs[len(aloneNs)/2], amongNs[len(amongNs)/2]
	b.ReportMetric(float64(x), "alone-ns")
	b.ReportMetric(float64(y), "among-ns")
	b.ReportMetric(float64(y)/float64(x), "ratio")
}

// bouncePair is a ping-pong between two VIs of one process, driven by the
// benchmark's goroutine alone, so that nothing but the engine's work counts.
type bouncePair struct {
	vis  [2]*vipl.VI
	bufs [2]*buffers
}

func newBouncePair(b *testing.B, crowded bool) *bouncePair {
	nics := vethNICs(b, 1500, vipl.Config{}, nil)
	p := &bouncePair{}
	if crowded {
		crowdTogether(b, nics)
	}
	p.vis[0], p.vis[1] = join(b, nics, nil)
	for i, n := range nics {
		var err error
		if p.bufs[i], err = newBuffers(n, 2, 64); err != nil {
			b.Fatal(err)
		}
	}
	return p
}

// bounce sends a message there and back and returns how long it took.
func (p *bouncePair) bounce(b *testing.B) time.Duration {
	start := p.vis[0].NIC().Now()
	for side := range 2 {
		from, to := p.vis[side], p.vis[1-side]
		if err := to.PostRecv(&p.bufs[1-side].descs[0]); err != nil {
			b.Fatal(err)
		}
		if err := from.PostSend(&p.bufs[side].descs[1]); err != nil {
			b.Fatal(err)
		}
		if _, err := to.RecvWait(bg); err != nil {
			b.Fatal(err)
		}
		if to.Snapshot().SendQueue == 0 { // its first message is yet to come
			continue
		}
		if _, err := to.SendWait(bg); err != nil { // acknowledged by what has just come
			b.Fatal(err)
		}
	}
	return time.Duration(p.vis[0].NIC().Now() - start)
}

// slowCrowd is many VIs that connect at once to a server that is not scheduled for a while
// again and again.
type slowCrowd struct {
	*world
	server ethertype.Addr
	every  time.Duration // how often the server looks at its NIC
	count  int
	over   bool
	frames float64 // sent by both sides, for each connection
	drops  uint64  // frames that the rings had no room for
	took   time.Duration
	idle   time.Duration // how long all do nothing then
	asked  uint64        // frames that are sent meanwhile,
	lost   uint64        // and that the rings have no room for
}

func (c *slowCrowd) run(opts sim.Options) error {
	c.world = newWorld(opts)
	c.server = ethertype.Addr{MAC: c.node("server", nil, c.serve).MAC(), Port: service}
	c.node("clients", nil, c.connect)
	return c.world.run()
}

// serve accepts all requests, each time that it is scheduled.
func (c *slowCrowd) serve(n *vipl.NIC) error {
	l, err := n.Listen(service)
	if err != nil {
		return err
	}
	for !c.over {
		for n.Poll(); seam.Link(n).Ready(); { // a poll takes in no more than a batch
			n.Poll()
		}
		for {
			r, err := l.Poll()
			if errors.Is(err, vipl.ErrNotDone) {
				break
			} else if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := r.AcceptStart(v); err != nil {
				return err
			}
		}
		c.Sleep(c.every)
	}
	return nil
}

// connect has all VIs connect at once, and counts what was sent until they are.
func (c *slowCrowd) connect(n *vipl.NIC) error {
	driveFor(n, time.Millisecond)
	began := n.Now()
	vis := make([]*vipl.VI, c.count)
	for i := range vis {
		var err error
		if vis[i], err = n.CreateVI(nil, nil, nil); err != nil {
			return err
		}
		if err := vis[i].ConnectStart(c.server, nil); err != nil {
			return err
		}
	}
	for i, v := range vis {
		for v.ConnectDone() == vipl.ErrNotDone {
			seam.Link(n).Wait(n.Now() + int64(time.Millisecond))
		}
		if err := v.ConnectDone(); err != nil {
			return fmt.Errorf("VI %d: %w", i, err)
		}
	}
	s := c.Stats()
	c.frames, c.drops, c.took = float64(s.Sent)/float64(c.count), s.RxFull, time.Duration(n.Now()-began)
	driveFor(n, c.idle)
	end := c.Stats()
	c.over, c.asked, c.lost = true, end.Sent-s.Sent, end.RxFull-s.RxFull
	for i, v := range vis {
		if v.State() != vipl.StateConnected {
			return fmt.Errorf("VI %d is %v: %w", i, v.State(), v.Err())
		}
	}
	return nil
}

// TestIdleCrowd: VIs that fell silent at the same time do not ask all at once whether their peers live:
// the ring of a server that looks at its NIC fifty times a second has no room for as much, and
// they took it for dead.
func TestIdleCrowd(t *testing.T) {
	seeds(t, 2, func(seed uint64) error {
		crowd := &slowCrowd{every: 20 * time.Millisecond, count: 1000, idle: time.Minute}
		err := crowd.run(sim.Options{Seed: seed, MTU: 1500, RxSlots: 64})
		t.Logf("seed %d: in a minute %d frames, of which %d were dropped", seed, crowd.asked, crowd.lost)
		if err == nil && crowd.lost > crowd.asked/100 {
			err = fmt.Errorf("%d of %d frames were dropped", crowd.lost, crowd.asked)
		}
		return err
	})
}

// TestSlowCrowd: where a server looks at its NIC twenty times a second, or a hundred times, what is
// sent is not sent again and again until it does. A connection takes six frames. Where
// frames get lost on a fast network they are sent again soon.
func TestSlowCrowd(t *testing.T) {
	for _, c := range []struct {
		every  time.Duration
		slots  int
		loss   float64
		frames float64 // at most, for each connection
		took   time.Duration
	}{
		{50 * time.Millisecond, 64, 0, 8, 7 * time.Second},
		{50 * time.Millisecond, 256, 0, 8, 2 * time.Second},
		{50 * time.Millisecond, 256, 0.05, 9, 3 * time.Second},
		{10 * time.Millisecond, 256, 0, 8, time.Second},
		{10 * time.Microsecond, 256, 0, 6, 10 * time.Millisecond},
		{10 * time.Microsecond, 256, 0.1, 8, 400 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v/slots=%d/loss=%v", c.every, c.slots, c.loss), func(t *testing.T) {
			seeds(t, 4, func(seed uint64) error {
				crowd := &slowCrowd{every: c.every, count: 600}
				if err := crowd.run(sim.Options{Seed: seed, MTU: 1500, RxSlots: c.slots, Loss: c.loss}); err != nil {
					return err
				}
				t.Logf("seed %d: %.2f frames for each connection, %d dropped, after %v", seed, crowd.frames, crowd.drops, crowd.took)
				if crowd.frames > c.frames || crowd.drops > uint64(crowd.count)/4 || crowd.took > c.took {
					return fmt.Errorf("%.2f frames for each connection, %d dropped, after %v; want %v, %d and %v at most",
						crowd.frames, crowd.drops, crowd.took, c.frames, crowd.count/4, c.took)
				}
				return nil
			})
		})
	}
}
