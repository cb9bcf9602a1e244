package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"pgregory.net/rapid"
)

// Request handlers of the model, by what they reply.
const (
	replyNone uint8 = iota
	replyShort
	replyMedium
	replyBulk
	replyLong
	replyPanic
	replyKinds

	modelHandler = 20 // and up to replyKinds more
)

var replyOps = [replyKinds]endpoint.Op{replyShort: endpoint.OpReply, replyMedium: endpoint.OpReplyMedium,
	replyBulk: endpoint.OpReplyBulk, replyLong: endpoint.OpReplyBulk}

func replyKind(m *modelMessage) uint8 { return (m.handler - modelHandler) % replyKinds }

// Segments begin with bytes that nobody writes, for gets; bulk data is written
// behind them, to a place of each message's own.
const (
	stillSize = 10_000
	placeSize = 6000
	places    = 64
)

func place(id uint32) uint64 { return stillSize + uint64(id%places)*placeSize }

func (m *modelMessage) replyOffset() uint64 { return place(m.id) }

func still(e *modelEndpoint, offset uint64, length int) []byte {
	return pattern(make([]byte, stillSize), e.serial)[offset:][:length]
}

var replySizes = [replyKinds]int{replyMedium: 700, replyBulk: 900, replyLong: 5000}

func replyData(m *modelMessage) []byte {
	if m.op == endpoint.OpGet {
		return nil
	}
	return pattern(make([]byte, replySizes[replyKind(m)]), int(m.id)+7)
}

type modelNode struct {
	*endpoint.Node
	bundles [2]*endpoint.Bundle
	credits [3]int // that are certainly there for short, medium and bulk requests
}

// model is a world, which the test itself moves, and the oracle.
type model struct {
	oracle
	world *sim.World
	lossy bool
	nodes []*modelNode
	eps   []*modelEndpoint // those that live
	born  int
	freed bool // some endpoint has been
	gone  context.Context
}

// TestModel runs random sequences of calls on the endpoints of two or three
// nodes. Every message has to be handled once, with its arguments and data, or
// come back once, for a reason that its receiver had; every reply too; in
// order, on each translation; and nothing else may be written.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		defer m.close()
		calls := map[string]func(*rapid.T){
			"new":           m.newEndpoint,
			"free":          m.free,
			"move":          m.move,
			"set tag":       m.setTag,
			"set handler":   m.setHandler,
			"set segment":   m.setSegment,
			"map":           m.bind,
			"map again":     m.bind,
			"unmap":         m.unbind,
			"request":       func(rt *rapid.T) { m.send(rt, endpoint.OpRequest) },
			"medium":        func(rt *rapid.T) { m.send(rt, endpoint.OpRequestMedium) },
			"bulk":          func(rt *rapid.T) { m.send(rt, endpoint.OpRequestBulk) },
			"get":           func(rt *rapid.T) { m.send(rt, endpoint.OpGet) },
			"poll":          m.poll,
			"poll another":  m.poll,
			"let time pass": m.pass,
			"settle":        m.settle,
			"":              func(rt *rapid.T) { m.check(rt) },
		}
		for range 3 {
			rt.Repeat(calls)
			m.settle(rt)
			m.check(rt)
		}
	})
}

func (m *model) check(rt *rapid.T) {
	if m.err != nil {
		rt.Fatal(m.err)
	}
}

func newModel(rt *rapid.T) *model {
	m := &model{lossy: rapid.Bool().Draw(rt, "lossy")}
	opts := sim.Options{Seed: rapid.Uint64().Draw(rt, "seed")}
	if m.lossy {
		opts.Loss, opts.Reorder, opts.Dup = 0.03, 0.05, 0.02
	}
	m.world = sim.New(opts)
	var stop context.CancelFunc
	m.gone, stop = context.WithCancel(bg)
	stop()
	for i := range rapid.IntRange(2, 3).Draw(rt, "nodes") {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: m.world.Station(""), Seed: uint64(i + 1)})
		if err != nil {
			rt.Fatal(err)
		}
		n := &modelNode{}
		cfg := &endpoint.Config{NIC: nic, Logger: quiet, Seed: uint64(i + 1)}
		k := rapid.SampledFrom([][3]int{{4}, {1}, {3, 2, 1}}).Draw(rt, "credits")
		cfg.Credits = endpoint.Credits{Short: k[0], Medium: k[1], Bulk: k[2]}
		if n.credits = k; k[1] == 0 {
			n.credits = [3]int{k[0], k[0], k[0]}
		}
		if n.Node, err = endpoint.Open(context.Background(), cfg); err != nil {
			rt.Fatal(err)
		}
		m.nodes = append(m.nodes, n)
		for k := range n.bundles {
			n.bundles[k], _ = n.NewBundle(endpoint.BundleType(k))
		}
	}
	for range 3 {
		m.newEndpoint(rt)
	}
	return m
}

func (m *model) close() {
	for _, n := range m.nodes {
		n.Close()
		n.NIC().Close()
	}
}

func (m *model) pick(rt *rapid.T) *modelEndpoint {
	return m.eps[rapid.IntRange(0, len(m.eps)-1).Draw(rt, "endpoint")]
}

func (m *model) node(rt *rapid.T) *modelNode {
	return m.nodes[rapid.IntRange(0, len(m.nodes)-1).Draw(rt, "node")]
}

func (m *model) newEndpoint(rt *rapid.T) {
	if len(m.eps) == 6 {
		rt.Skip("no call: six endpoints are enough")
	}
	e := &modelEndpoint{oracle: &m.oracle, serial: m.born, home: m.node(rt),
		bundle: rapid.IntRange(0, 1).Draw(rt, "bundle"), maps: map[int]*modelMap{}}
	var err error
	if e.Endpoint, err = e.home.bundles[e.bundle].NewEndpoint(); err != nil {
		rt.Fatal(err)
	}
	m.born++
	m.eps = append(m.eps, e)
	s := &modelState{tag: endpoint.TagAll}
	e.states = []*modelState{s}
	e.SetTag(s.tag)
	e.newSegment(rt, s, places)
	e.SetReturnHandler(func(r *endpoint.Returned) { m.returnedTo(e, r) })
	for h := uint8(modelHandler); h < modelHandler+replyKinds; h++ {
		e.set(s, h, true)
	}
	e.set(s, hReply, true)
}

// newSegment sets one with so many places, or none, and reports whether it could.
func (e *modelEndpoint) newSegment(rt *rapid.T, s *modelState, places int) bool {
	var mem []byte
	if places > 0 {
		mem = make([]byte, stillSize+places*placeSize)
		pattern(mem[:stillSize], e.serial)
	}
	if err := e.SetSegment(mem); errors.Is(err, endpoint.ErrInUse) {
		return false
	} else if err != nil {
		rt.Fatal(err)
	}
	s.segment, s.shadow = mem, append([]byte(nil), mem...)
	return true
}

// set sets a handler, or makes it unused.
func (e *modelEndpoint) set(s *modelState, number uint8, used bool) {
	s.handlers[number] = used
	switch {
	case !used:
		e.SetHandler(number, nil)
	case number == hReply:
		e.SetHandler(number, func(t endpoint.Token, args []uint32, data []byte) { e.answered(e, t, args, data) })
	default:
		e.SetHandler(number, func(t endpoint.Token, args []uint32, data []byte) { e.reply(number, t, args, data) })
	}
}

// reply is a request handler.
func (e *modelEndpoint) reply(number uint8, t endpoint.Token, args []uint32, data []byte) {
	m := e.handled(e, number, t, args, data)
	var err error
	switch replyKind(m) {
	case replyPanic:
		panic("as the model has it")
	case replyNone:
		return
	case replyShort:
		err = t.Reply(hReply, args...)
	case replyMedium:
		err = t.ReplyMedium(hReply, replyData(m), args...)
	default:
		err = t.ReplyBulk(hReply, replyData(m), m.replyOffset(), args...)
	}
	m.replied++
	if err != nil {
		e.wrong("reply to %v: %w", m, err)
	}
	if err := t.Reply(hReply); !errors.Is(err, endpoint.ErrResource) {
		e.wrong("a second reply to %v: %w", m, err)
	}
}

func (m *model) poll(rt *rapid.T) {
	n := m.node(rt)
	if _, err := n.bundles[rapid.IntRange(0, 1).Draw(rt, "bundle")].Poll(); err != nil {
		rt.Fatal(err)
	}
}

func (m *model) pass(rt *rapid.T) {
	m.world.Sleep(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "µs")) * time.Microsecond)
}

// settle lets everything that is under way end. Under loss that takes as long as
// its timers do, and what is not told, that a handler has ended without a reply,
// may take longer.
func (m *model) settle(rt *rapid.T) {
	step, quiet, most := 50*time.Microsecond, 100, 100
	if m.lossy {
		step, quiet, most = time.Millisecond, 300, 60_000
	}
	for silent := 0; silent < quiet || silent < most && m.pending(); silent++ {
		for _, n := range m.nodes {
			for _, b := range n.bundles {
				served, err := b.Poll()
				if err != nil {
					rt.Fatal(err)
				}
				if served > 0 {
					silent = 0
				}
			}
		}
		if err := m.world.Sleep(step); err != nil {
			rt.Fatal(err)
		}
	}
	if m.pending() {
		m.wrong("all is quiet, and this has not ended: %v", m.unsettled[0])
	}
	for _, e := range m.eps {
		e.memory(m.freed)
		if m.lossy {
			continue
		}
		for _, b := range e.maps {
			b.fresh = 0
		}
		if err := e.SetSegment(e.now().segment); err != nil {
			m.wrong("all is quiet: %w", err)
		}
	}
}
