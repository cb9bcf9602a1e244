// Package providertest contains the conformance suite for the contract between endpoints and
// providers, and a provider that uses all the freedom of that contract.
package providertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// Net is the environment of a suite: a dialer of one node, which reaches another node or itself.
type Net struct {
	Dialer provider.Dialer
	To     ethertype.Addr      // address of the dialed host
	Nodes  []provider.Provider // providers to poll, the dialing one first; empty for a dialer alone
	Go     func(fn func())     // runs fn on another goroutine; nil for the go statement
	Polls  int                 // an event that does not arrive within this number of polls never does; 0: within a minute
	Waits  time.Duration       // how long a wait may take; 0: a minute
}

// T is the part of *testing.T that the suite needs.
type T interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Host is the node above a provider, as far as the suite needs it.
type Host struct {
	Budget  provider.Budget
	Corked  provider.Corked
	refuse  wire.Reason
	servers []*half
	strays  int
}

// Admit is provider.Host's.
func (h *Host) Admit(greeting *wire.Hello) (provider.Half, wire.Reason) {
	if h.refuse != 0 {
		return nil, h.refuse
	}
	return &half{shape: greeting.Shape}, 0
}

// Attach is provider.Host's.
func (h *Host) Attach(up provider.Half, ch provider.Channel) {
	s := up.(*half)
	s.ch = ch
	h.servers = append(h.servers, s)
}

// Refused is provider.Host's.
func (h *Host) Refused(wire.Reason) {}

// Stray is provider.Host's.
func (h *Host) Stray() { h.strays++ }

// half records all calls. It releases packets unless it keeps them.
type half struct {
	shape   wire.Shape
	ch      provider.Channel
	keeps   bool
	kept    []*provider.Packet
	got     map[uint32]int // messages by their numbers
	wrong   int            // messages with other contents
	back    map[int]int    // returned messages, by send buffer
	returns int
	placed  map[int]int
	wrote   map[int]int
	broken  []wire.Reason
}

// Received is provider.Half's.
func (h *half) Received(p *provider.Packet) {
	if h.got == nil {
		h.got = map[uint32]int{}
	}
	h.got[p.Head.Use]++
	if !bytes.Equal(p.Head.Payload(p.Body), content(p.Head.Use, len(p.Head.Payload(p.Body)))) {
		h.wrong++
	}
	if h.keeps {
		h.kept = append(h.kept, p)
		return
	}
	h.ch.Release(p)
}

// HandleNow is provider.Half's.
func (h *half) HandleNow(*provider.Packet) bool { return false }

// Placed is provider.Half's.
func (h *half) Placed(slot int) { count(&h.placed, slot) }

// Wrote is provider.Half's.
func (h *half) Wrote(slot int) { count(&h.wrote, slot) }

// Sent is provider.Half's.
func (h *half) Sent() {}

// Undelivered is provider.Half's.
func (h *half) Undelivered(i int, _ wire.Reason) {
	h.returns++
	count(&h.back, i)
}

// Broken is provider.Half's.
func (h *half) Broken(reason wire.Reason, _ error) { h.broken = append(h.broken, reason) }

func count(m *map[int]int, i int) {
	if *m == nil {
		*m = map[int]int{}
	}
	(*m)[i]++
}

// content is the payload of a message.
func content(number uint32, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(number)*17 + byte(i)
	}
	return b
}

// suite is a run of one case.
type suite struct {
	T
	Net
	client, server *Host
	last           uint32 // number of a message
}

var shape = wire.Shape{Slots: 4, Medium: 600}

// Run runs the suite. open opens the providers of two hosts for one case: of the one that
// dials, and of the one that is dialed.
func Run(t *testing.T, open func(t *testing.T, client, server *Host) Net) {
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			RunCase(t, name, func(client, server *Host) Net { return open(t, client, server) })
		})
	}
}

var cases = map[string]func(s *suite){
	"messages arrive once":               (*suite).messages,
	"all packets may be kept":            (*suite).keep,
	"what is corked goes by flush":       (*suite).cork,
	"data are placed once":               (*suite).write,
	"a revoked window is not written":    (*suite).revoke,
	"a closed end breaks the other once": (*suite).close,
	"a refusal has its reason":           (*suite).refusal,
	"memory is accounted for":            (*suite).memory,
	"a node waits and is woken":          (*suite).wait,
	"a node is found by name":            (*suite).names,
}

// RunCase runs one case of the suite.
func RunCase(t T, name string, open func(client, server *Host) Net) {
	s := &suite{T: t, client: &Host{}, server: &Host{}}
	s.client.Budget.Most, s.server.Budget.Most = 1<<20, 1<<20
	s.Net = open(s.client, s.server)
	if s.Go == nil {
		s.Go = func(fn func()) { go fn() }
	}
	for _, n := range s.Nodes {
		for id := range uint32(2) {
			n.Opened(1 + id)
			n.Tagged(1+id, wire.TagAll)
		}
	}
	cases[name](s)
	if n := s.client.strays + s.server.strays; n > 0 {
		t.Errorf("%d strays", n)
	}
}

// until polls until a condition is true.
func (s *suite) until(what string, so func() bool) {
	s.Helper()
	end := time.Now().Add(time.Minute)
	for polls := 0; !so(); polls++ {
		switch {
		case s.Polls > 0 && polls > s.Polls:
			s.Fatalf("not within %d polls: %s", s.Polls, what)
		case s.Polls == 0 && time.Now().After(end):
			s.Fatalf("not within a minute: %s", what)
		}
		s.poll()
	}
}

func (s *suite) poll() {
	s.Helper()
	for _, n := range s.Nodes {
		if err := n.Poll(); err != nil {
			s.Fatal(err)
		}
		n.CatchUp()
	}
}

// connect makes a connection, and transfers a message in each direction.
func (s *suite) connect() (c, v *half) {
	s.Helper()
	c = s.dial()
	s.until("a connection", func() bool { return len(s.server.servers) > 0 || len(c.broken) > 0 })
	if len(c.broken) > 0 {
		s.Fatalf("the connection broke for %v", c.broken)
	}
	v = s.server.servers[0]
	for _, way := range [][2]*half{{c, v}, {v, c}} {
		for len(way[1].got) == 0 { // the message may return
			before := way[0].returns
			s.send(way[0], 0, 10, 0)
			s.until("a first message", func() bool {
				return way[0].ch.Idle(0) && len(way[1].got)+way[0].returns-before > 0
			})
		}
		way[1].got, way[0].back, way[0].returns = nil, nil, 0
	}
	return c, v
}

func (s *suite) dial() *half {
	s.Helper()
	c := &half{shape: shape}
	var err error
	to := wire.Name{Addr: s.To, ID: 1, Incarnation: 1}
	from := wire.Name{ID: 2}
	if len(s.Nodes) > 0 {
		from.Addr = s.Nodes[0].Addr()
	}
	if c.ch, err = s.Dialer.Dial(to, wire.Hello{From: from, ID: 1, Incarnation: 1, Shape: shape}, c); err != nil {
		s.Fatal(err)
	}
	return c
}

// send posts a message of the given size from send buffer i, and returns its number.
func (s *suite) send(h *half, i, size, together int) uint32 {
	s.last++
	head := wire.Header{Kind: wire.KindMedium, Slot: uint16(i % shape.Slots), Use: s.last, Tag: 7}
	b := h.ch.Buffer(i)
	n := head.Put(b)
	n += copy(b[n:], content(s.last, size))
	h.ch.Post(i, n, together)
	return s.last
}

// messages sends in all slots of both sides repeatedly. Each message arrives or returns, once.
func (s *suite) messages() {
	c, v := s.connect()
	for side, way := range [][2]*half{{c, v}, {v, c}} {
		from, to := way[0], way[1]
		var last [4]uint32 // by slot: the message in flight
		sent, rounds := 0, 0
		settled := func(slot, i int) bool {
			return from.ch.Idle(i) && (last[slot] == 0 || to.got[last[slot]]+from.back[i] > 0)
		}
		for ; rounds < 50; rounds++ {
			for slot := range shape.Slots {
				if settled(slot, slot) {
					delete(from.back, slot)
					last[slot] = s.send(from, slot, rounds*37%shape.Medium, 0)
					sent++
				}
			}
			s.poll()
		}
		for slot := range shape.Slots {
			s.until("the last messages", func() bool { return settled(slot, slot) })
		}
		for range 100 {
			s.poll()
		}
		for number, n := range to.got {
			if n != 1 {
				s.Errorf("message %d arrived %d times", number, n)
			}
		}
		if back := from.returns; len(to.got)+back != sent || to.wrong > 0 || len(to.broken)+len(from.broken) > 0 {
			s.Errorf("side %d: of %d messages %d arrived and %d came back, %d of them not as they were; broken: %v", side, sent, len(to.got), back, to.wrong, to.broken)
		}
	}
}

func total(m map[int]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

// keep makes a half keep as many packets as it may.
func (s *suite) keep() {
	c, v := s.connect()
	v.keeps = true
	for i := range shape.Slots {
		s.send(c, i, 100, 0)
	}
	s.until("a message in each slot", func() bool { return len(v.kept)+c.returns == shape.Slots })
	for _, p := range v.kept {
		if !bytes.Equal(p.Head.Payload(p.Body), content(p.Head.Use, 100)) {
			s.Errorf("message %d has changed while it was kept", p.Head.Use)
		}
		v.ch.Release(p)
	}
}

// cork makes messages wait for others.
func (s *suite) cork() {
	c, v := s.connect()
	for i := range shape.Slots {
		s.send(c, i, 10, provider.CoalesceMost)
	}
	for _, n := range s.Nodes {
		n.Flush(wire.Asking)
	}
	if s.client.Corked != (provider.Corked{}) {
		s.Errorf("%v are corked after a flush", s.client.Corked)
	}
	s.until("all messages", func() bool { return len(v.got)+c.returns == shape.Slots })
	for i := range shape.Slots {
		s.until("an idle buffer", func() bool { return c.ch.Idle(i) })
	}
	s.send(c, 0, 10, provider.Uncork)
	s.until("one that is not corked", func() bool { return len(v.got)+c.returns == shape.Slots+1 })
}

// write writes to windows in both directions, in all slots at once.
func (s *suite) write() {
	c, v := s.connect()
	for _, way := range [][2]*half{{c, v}, {v, c}} {
		from, to := way[0], way[1]
		var mem, data [4][]byte
		for i := range mem {
			mem[i], data[i] = make([]byte, 5000), content(uint32(i), 5000)
			w, err := to.ch.Grant(i, mem[i])
			if err != nil {
				s.Fatal(err)
			}
			from.ch.Write(i, data[i], w, i%2 == 0)
		}
		for i := range mem {
			s.until("data", func() bool { return to.placed[i] > 0 && from.wrote[i] > 0 && !from.ch.Writing(i) })
			if !bytes.Equal(mem[i], data[i]) {
				s.Errorf("the data of slot %d is not what was written", i)
			}
		}
		for range 20 {
			s.poll()
		}
		if total(to.placed) != len(mem) || total(from.wrote) != len(mem) {
			s.Errorf("placed %v, wrote %v", to.placed, from.wrote)
		}
	}
}

// revoke revokes a window before anything is written, and grants another one for the slot.
func (s *suite) revoke() {
	c, v := s.connect()
	first, second := make([]byte, 100), make([]byte, 100)
	if _, err := v.ch.Grant(0, first); err != nil {
		s.Fatal(err)
	}
	v.ch.Revoke(0)
	w, err := v.ch.Grant(0, second)
	if err != nil {
		s.Fatal(err)
	}
	c.ch.Write(0, content(1, 100), w, true)
	s.until("data", func() bool { return v.placed[0] > 0 })
	if !bytes.Equal(first, make([]byte, 100)) || !bytes.Equal(second, content(1, 100)) {
		s.Error("the data is not in the window that is open")
	}
}

// close closes either end.
func (s *suite) close() {
	for side := range 2 {
		s.server.servers = nil
		c, v := s.connect()
		ends := [2]*half{c, v}
		ends[side].ch.Close()
		ends[side].ch.Close()
		s.until("the other end", func() bool { return len(ends[1-side].broken) > 0 })
		ends[1-side].ch.Close()
		for range 20 {
			s.poll()
		}
		if len(ends[side].broken) > 0 || len(ends[1-side].broken) != 1 || ends[1-side].broken[0] != wire.ReasonBadEndpoint {
			s.Errorf("the end that was closed heard %v, the other %v", ends[side].broken, ends[1-side].broken)
		}
	}
}

// refusal refuses a connection for each reason. A message has been posted to each connection.
func (s *suite) refusal() {
	for _, s.server.refuse = range wire.Reasons() {
		c := s.dial()
		s.send(c, 0, 10, 0)
		s.until("the refusal", func() bool { return len(c.broken) > 0 })
		c.ch.Close()
		if len(c.broken) != 1 || c.broken[0] != s.server.refuse || len(s.server.servers) > 0 {
			s.Errorf("refused for %v, heard %v", s.server.refuse, c.broken)
		}
	}
}

// memory exhausts the budget, so that further connections are refused, and checks that all of it is
// returned.
func (s *suite) memory() {
	one := shape.Memory(wire.Serving)
	s.server.Budget.Most = 2 * one // one station may have half of it
	c, v := s.connect()
	if s.server.Budget.Taken != one {
		s.Errorf("%d bytes are taken, want %d", s.server.Budget.Taken, one)
	}
	second := s.dial()
	s.send(second, 0, 10, 0)
	s.until("the refusal", func() bool { return len(second.broken) > 0 })
	if second.broken[0] != wire.ReasonCongestion {
		s.Errorf("refused for %v", second.broken)
	}
	second.ch.Close()
	c.ch.Close()
	v.ch.Close()
	if s.server.Budget.Taken != 0 {
		s.Errorf("%d bytes are still taken", s.server.Budget.Taken)
	}
}

// wait makes a node wait: for a wake-up before and during the wait, for the end of a context, for a
// message, and at a gate.
func (s *suite) wait() {
	ctx, cancel := context.WithTimeout(s.Context(), cmp.Or(s.Waits, time.Minute))
	defer cancel()
	ended, end := context.WithCancel(s.Context())
	end()
	for _, n := range s.Nodes {
		for n.Wait(ended) == nil { // wakes from before
			n.Deliver(false)
		}
		if err := n.Wait(ended); !errors.Is(err, context.Canceled) {
			s.Errorf("the wait ended with %v", err)
		}
		n.Deliver(false)
		n.Wake()
		if err := n.Wait(ctx); err != nil {
			s.Error(err)
		}
		n.Deliver(false)
		s.Go(n.Wake)
		if err := n.Wait(ctx); err != nil {
			s.Error(err)
		}
		n.Deliver(false)
		g := n.Gate()
		g.Open()
		if err := g.Wait(ctx); err != nil {
			s.Error(err)
		}
		s.Go(g.Open)
		if err := g.Wait(ctx); err != nil {
			s.Error(err)
		}
		if err := g.Wait(ended); err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("the wait at the gate ended with %v", err)
		}
	}
}

// names makes each node find the other by a name.
func (s *suite) names() {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if len(s.Nodes) < 2 {
		return
	}
	for i, n := range s.Nodes {
		name := fmt.Sprint("conformance of ", n.Addr())
		if err := n.Advertise(name); err != nil {
			s.Fatal(err)
		}
		at, err := s.Nodes[1-i].Lookup(ctx, ethertype.Addr{}, name)
		if err != nil || at != n.Addr() {
			s.Errorf("found %v: %v", at, err)
		}
		n.Withdraw(name)
		if before := n.Now(); n.Now() < before {
			s.Error("the time goes back")
		}
	}
}
