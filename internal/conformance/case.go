package conformance

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// segment opens the NICs for the rules of one link and one kind of wait. Many rules share NICs of
// real links, because opening them takes long. Each rule gets a new simulated segment.
type segment struct {
	open func() (Ends, error)
	wait Wait
	kept *ends
	gone *remains // handles of a closed NIC
}

// ends holds the NICs A and B, which can be the same NIC.
type ends struct {
	Ends
	nics [2]*vipl.NIC
}

// self reports whether B is A.
func (e *Ends) self() bool { return e.Links[0] == e.Links[1] }

// close closes both NICs, or links without one, at the same time because the
// kernel takes some 20 ms to close a packet socket.
func (e *ends) close() {
	var all sync.WaitGroup
	for side, n := range e.nics {
		if side == 1 && e.self() {
			break
		}
		var c io.Closer = n
		if n == nil {
			c = e.Links[side]
		}
		if e.World != nil {
			c.Close()
			continue
		}
		all.Go(func() { c.Close() })
	}
	all.Wait()
}

func (s *segment) close() {
	if s.kept != nil {
		s.kept.close()
	}
}

// openNICs opens NICs. If wrap is not nil, it wraps each link. tuning may be nil.
func (s *segment) openNICs(wrap func(side int, l transport.Link) transport.Link, tuning *reliability.Config) (*ends, error) {
	links, err := s.open()
	if err != nil {
		return nil, err
	}
	e := &ends{Ends: links}
	for side, l := range links.Links {
		if side == 1 && e.self() {
			e.nics[1] = e.nics[0]
			break
		}
		if wrap != nil {
			l = KeepLocal(l, wrap(side, l))
		}
		// The links themselves connect the NICs within this host. WireOnly keeps NICs from adding
		// shared memory, which would connect the links of several namespaces.
		cfg := &vipl.Config{Link: l, WireOnly: true, NoService: s.wait == Spin, Reliability: tuning}
		if links.World != nil {
			cfg.Seed = uint64(side) + 1
		}
		if s.wait == Block {
			cfg.Spin = -1
		}
		if e.nics[side], err = vipl.Open(context.Background(), cfg); err != nil {
			e.close()
			return nil, err
		}
	}
	return e, nil
}

// run runs one rule.
func (s *segment) run(t *testing.T, r *rule, level reliability.Level) {
	c := &Case{T: t, segment: s, level: level, rule: r}
	if level == anyLevel {
		c.level = delivery
	}
	if s.kept == nil || s.kept.World != nil {
		e, err := s.openNICs(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.kept = e
	}
	c.use(s.kept)
	defer c.clean()
	r.run(c)
}

// twoNICs skips a rule if B is A. why is the reason that the rule needs two NICs.
func (c *Case) twoNICs(why string) {
	if c.self() {
		c.Skip("it needs two NICs: ", why)
	}
}

// ofTwoNICs skips the rules rs if B is A. why is the reason that they need two NICs.
func ofTwoNICs(why string, rs []rule) func() []rule {
	for i, r := range rs {
		rs[i].run = func(c *Case) { c.twoNICs(why); r.run(c) }
	}
	return group(rs)
}

// Case is one run of a rule. At the end of the rule it releases everything that was created through
// it. Only the rule's goroutine may use it.
type Case struct {
	*testing.T
	*segment
	*ends
	A, B  *vipl.NIC
	level reliability.Level
	rule  *rule

	before  [2]vipl.Snapshot
	fresh   *ends
	cleanup []func()
	regions []func() // functions that deregister regions; they run after cleanup, when no descriptors are posted
	checks  []func()
	mu      sync.Mutex // guards cancels: other goroutines of blocking calls use ctx, too
	cancels []func()
}

func (c *Case) use(e *ends) {
	c.ends, c.A, c.B = e, e.nics[0], e.nics[1]
	c.before = [2]vipl.Snapshot{c.A.Snapshot(), c.B.Snapshot()}
}

// reopen opens NICs for this rule only, whose links wrap wraps.
func (c *Case) reopen(wrap func(side int, l transport.Link) transport.Link) {
	c.Helper()
	c.restart(wrap, nil)
}

// tuned opens NICs for this rule only, with other limits and delays.
func (c *Case) tuned(tuning *reliability.Config) {
	c.Helper()
	c.restart(nil, tuning)
}

func (c *Case) restart(wrap func(side int, l transport.Link) transport.Link, tuning *reliability.Config) {
	c.Helper()
	e, err := c.openNICs(wrap, tuning)
	if err != nil {
		c.Fatal(err)
	}
	c.fresh = e
	c.use(e)
}

// clean releases everything. NICs that stay open must then have no VIs and regions, because
// leftovers would make later rules fail.
func (c *Case) clean() {
	for i := len(c.cleanup) - 1; i >= 0; i-- {
		c.cleanup[i]()
	}
	for _, deregister := range c.regions {
		deregister()
	}
	for _, check := range c.checks {
		check()
	}
	for _, cancel := range c.cancels {
		cancel()
	}
	if c.fresh != nil {
		c.fresh.close()
		return
	}
	tidy := true
	for side, n := range c.nics {
		if s := n.Snapshot(); len(s.VIs) > 0 || s.Regions > 0 {
			c.Errorf("NIC %d is left with %d VIs and %d regions", side, len(s.VIs), s.Regions)
			tidy = false
		}
	}
	if c.World != nil || !tidy {
		c.ends.close()
		c.kept = nil
	}
}

// dropped returns how many frames n has dropped for a reason since the rule began.
func (c *Case) dropped(n *vipl.NIC, why drops.Reason) int {
	side := 0
	if n == c.B {
		side = 1
	}
	return int(n.Snapshot().Dropped[why] - c.before[side].Dropped[why])
}

// attr returns attributes with the rule's level, and with RDMA reads enabled if the level supports
// them.
func (c *Case) attr() *vipl.Attributes {
	a := vipl.DefaultAttributes()
	a.Reliability, a.EnableRDMARead = c.level, c.level != unreliable
	return a
}

// vi creates a VI; nil attributes mean those of attr.
func (c *Case) vi(n *vipl.NIC, a *vipl.Attributes) *vipl.VI { return c.viOn(n, a, nil, nil) }

func (c *Case) viOn(n *vipl.NIC, a *vipl.Attributes, sendCQ, recvCQ *vipl.CQ) *vipl.VI {
	c.Helper()
	if a == nil {
		a = c.attr()
	}
	v, err := n.CreateVI(a, sendCQ, recvCQ)
	if err != nil {
		c.Fatal(err)
	}
	c.cleanup = append(c.cleanup, func() { v.Close() })
	return v
}

func (c *Case) cq(n *vipl.NIC, entries int) *vipl.CQ {
	c.Helper()
	q, err := n.CreateCQ(entries)
	if err != nil {
		c.Fatal(err)
	}
	c.cleanup = append(c.cleanup, func() { q.Close() })
	return q
}

func (c *Case) listen(n *vipl.NIC) *vipl.Listener {
	c.Helper()
	l, err := n.Listen(0)
	if err != nil {
		c.Fatal(err)
	}
	c.cleanup = append(c.cleanup, func() { l.Close() })
	return l
}

func (c *Case) listenFor(n *vipl.NIC, discriminator string) *vipl.Listener {
	c.Helper()
	l, err := n.ListenFor([]byte(discriminator))
	if err != nil {
		c.Fatal(err)
	}
	c.cleanup = append(c.cleanup, func() { l.Close() })
	return l
}

func (c *Case) ptag(n *vipl.NIC) vipl.Ptag {
	c.Helper()
	p, err := n.CreatePtag()
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// remoteAccess returns attributes that allow peers to write to a region and to read from it.
func remoteAccess() *vipl.MemAttributes {
	return &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
}

const guard, guardFill = 64, 0xA5

// mem returns registered memory filled with guardFill. The guard bytes before and after it must be
// unchanged at the end of the rule.
func (c *Case) mem(n *vipl.NIC, size int, a *vipl.MemAttributes) ([]byte, vipl.MemHandle) {
	c.Helper()
	all := make([]byte, size+2*guard)
	for i := range all {
		all[i] = guardFill
	}
	buf := all[guard : guard+size : guard+size]
	h, err := n.RegisterMem(buf, a)
	if err != nil {
		c.Fatal(err)
	}
	c.checks = append(c.checks, func() {
		if !filled(all[:guard], guardFill) || !filled(all[guard+size:], guardFill) {
			c.Errorf("bytes beyond a registered region of %d bytes were written", size)
		}
	})
	c.regions = append(c.regions, func() { n.DeregisterMem(h) })
	return buf, h
}

func filled(b []byte, with byte) bool {
	for _, x := range b {
		if x != with {
			return false
		}
	}
	return true
}

// fill fills b with bytes that depend on the seed and on their position.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31 + 1)
	}
}

func same(b []byte, seed int) bool {
	for i := range b {
		if b[i] != byte(i*7+i>>8+seed*31+1) {
			return false
		}
	}
	return true
}

// dataMax is the maximum number of payload bytes in one frame of the segment, if the operation
// needs extension bytes of extended header.
func (c *Case) dataMax(extension int) int {
	mtu := min(c.A.Query().NativeMTU, c.B.Query().NativeMTU)
	if l, ok := seam.Link(c.A).(optional.Local); ok && c.A.Addr().MAC == c.B.Addr().MAC {
		mtu = l.LocalMTU()
	}
	return mtu - ethertype.BaseSize - extension
}

// patience is the maximum wait for an event that must occur. It is far longer than necessary.
const patience = 30 * time.Second

// ctx returns a context for a call that must return long before it ends.
func (c *Case) ctx() context.Context {
	ctx, cancel := c.within(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels = append(c.cancels, cancel)
	return ctx
}

// within returns a context that ends after the real time d, or never if time is virtual.
func (c *Case) within(d time.Duration) (context.Context, context.CancelFunc) {
	if c.World != nil {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), d)
}

// vanish ends n's link, as if its host had failed.
func (c *Case) vanish(n *vipl.NIC) {
	side := 0
	if n == c.B {
		side = 1
	}
	if s, ok := c.Links[side].(*sim.Station); ok {
		c.World.Kill(s)
		return
	}
	c.Links[side].Close()
}

// other returns the NIC at the other end.
func (c *Case) other(n *vipl.NIC) *vipl.NIC {
	if n == c.A {
		return c.B
	}
	return c.A
}
