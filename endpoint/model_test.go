package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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

// The calls of the model test.

func (m *model) free(rt *rapid.T) {
	if len(m.eps) < 3 {
		rt.Skip("no call: so few endpoints are kept")
	}
	e := m.pick(rt)
	if err := e.Free(); err != nil {
		rt.Fatal(err)
	}
	e.freed, m.freed = true, true
	m.eps = slices.DeleteFunc(m.eps, func(x *modelEndpoint) bool { return x == e })
}

func (m *model) move(rt *rapid.T) {
	e := m.pick(rt)
	e.bundle = 1 - e.bundle
	if err := e.Move(e.home.bundles[e.bundle]); err != nil {
		rt.Fatal(err)
	}
	if e.Bundle() != e.home.bundles[e.bundle] {
		rt.Fatal("it is not where it was moved to")
	}
	for _, n := range m.nodes {
		if n == e.home {
			continue
		}
		if err := e.Move(n.bundles[0]); !errors.Is(err, endpoint.ErrResource) {
			rt.Fatalf("moved to another node: %v", err)
		}
	}
}

var modelTags = []endpoint.Tag{endpoint.TagAll, endpoint.TagAll, 77, 78, endpoint.TagNone}

func (m *model) setTag(rt *rapid.T) {
	e := m.pick(rt)
	s := e.change()
	s.tag = rapid.SampledFrom(modelTags).Draw(rt, "tag")
	e.SetTag(s.tag)
}

func (m *model) setHandler(rt *rapid.T) {
	e := m.pick(rt)
	number := modelHandler + rapid.Uint8Range(0, replyKinds).Draw(rt, "handler")
	if number == modelHandler+replyKinds {
		number = hReply
	}
	e.set(e.change(), number, rapid.Bool().Draw(rt, "used"))
}

// setSegment may be refused while something is under way, and only then: see
// settle.
func (m *model) setSegment(rt *rapid.T) {
	e := m.pick(rt)
	s := *e.now()
	if e.newSegment(rt, &s, rapid.SampledFrom([]int{places, places, 3, 0}).Draw(rt, "places")) {
		e.states = append(e.states, &s)
	}
}

func (m *model) bind(rt *rapid.T) {
	e := m.pick(rt)
	b := &modelMap{tag: rapid.SampledFrom([]endpoint.Tag{77, 77, 78}).Draw(rt, "tag"), mapped: true}
	name := e.Name()
	if rapid.IntRange(0, 7).Draw(rt, "known") > 0 {
		b.to = m.pick(rt) // often itself
		name = b.to.Name()
	} else {
		name.ID = 999
	}
	b.index = rapid.IntRange(0, 3).Draw(rt, "index")
	err := e.Map(b.index, name, b.tag)
	if e.maps[b.index] != nil {
		if !errors.Is(err, endpoint.ErrInUse) {
			rt.Fatalf("mapped twice: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	e.maps[b.index] = b
}

func (m *model) unbind(rt *rapid.T) {
	e := m.pick(rt)
	i := rapid.IntRange(0, 3).Draw(rt, "index")
	err := e.Unmap(i)
	if e.maps[i] == nil {
		if !errors.Is(err, endpoint.ErrResource) {
			rt.Fatalf("unmapped twice: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	e.maps[i].mapped = false
	delete(e.maps, i)
}

// send sends a request through some translation. It never waits for a credit.
func (m *model) send(rt *rapid.T, op endpoint.Op) {
	e := m.pick(rt)
	index := rapid.IntRange(0, 3).Draw(rt, "index")
	for k := 0; e.maps[index] == nil; k++ { // mostly one that is mapped
		if k == 4 {
			return
		}
		index = (index + 1) % 4
	}
	b := e.maps[index]
	x := &modelMessage{id: uint32(len(m.messages)), op: op, from: e, by: b, replyTag: e.now().tag, mine: len(e.states) - 1}
	if b.to != nil {
		x.since = len(b.to.states) - 1
	}
	x.handler = modelHandler + rapid.Uint8Range(0, replyKinds-1).Draw(rt, "handler")
	x.args = make([]uint32, rapid.IntRange(1, endpoint.MaxShort).Draw(rt, "args"))
	for k := range x.args {
		x.args[k] = x.id*31 + uint32(k)
	}
	x.args[0] = x.id
	m.fill(rt, x)
	m.messages = append(m.messages, x)
	sure := b.fresh < e.home.credits[min(op, endpoint.OpRequestBulk)-1]
	switch err := m.post(rt, x); {
	case err == nil:
		b.fresh++
		m.unsettled = append(m.unsettled, x)
	case (errors.Is(err, context.Canceled) || errors.Is(err, endpoint.ErrInUse)) && !sure:
		x.by = &modelMap{} // it was not sent, and must not be heard of
	default:
		rt.Fatalf("%v: %v", x, err)
	}
}

// fill makes the data, and where it is to go.
func (m *model) fill(rt *rapid.T, x *modelMessage) {
	x.offset = place(x.id)
	switch x.op {
	case endpoint.OpRequestMedium:
		x.data = pattern(make([]byte, rapid.SampledFrom([]int{0, 1, 1000, 4096}).Draw(rt, "size")), int(x.id))
	case endpoint.OpRequestBulk:
		x.data = pattern(make([]byte, rapid.SampledFrom([]int{0, 100, 4096, 4097, placeSize}).Draw(rt, "size")), int(x.id))
	case endpoint.OpGet:
		x.handler = hReply
		x.offset, x.to = uint64(rapid.IntRange(0, 4000).Draw(rt, "from")), x.offset
		x.length = rapid.SampledFrom([]int{0, 10, 4096, 5000}).Draw(rt, "length")
	}
	if x.op >= endpoint.OpRequestBulk && rapid.IntRange(0, 9).Draw(rt, "wild") == 0 {
		x.offset = rapid.Uint64Min(1<<20).Draw(rt, "offset")
	}
}

func (m *model) post(rt *rapid.T, x *modelMessage) error {
	e, i := x.from, x.by.index
	data := slices.Clone(x.data)
	if x.op == endpoint.OpRequestBulk && rapid.Bool().Draw(rt, "async") {
		return e.RequestBulkAsync(i, x.handler, data, x.offset, x.args...)
	}
	defer clear(data) // it belongs to the caller again
	switch x.op {
	case endpoint.OpRequest:
		return e.Request(m.gone, i, x.handler, x.args...)
	case endpoint.OpRequestMedium:
		return e.RequestMedium(m.gone, i, x.handler, data, x.args...)
	case endpoint.OpGet:
		return e.Get(m.gone, i, x.handler, x.offset, x.to, x.length, x.args...)
	}
	return e.RequestBulk(m.gone, i, x.handler, data, x.offset, x.args...)
}

// What the model test wants: the oracle knows of each endpoint what it accepts
// and of each message what has become of it, and nothing of connections,
// credits, slots or time.

// modelState is what decides about messages to an endpoint.
type modelState struct {
	tag      endpoint.Tag
	handlers [256]bool
	segment  []byte
	shadow   []byte // what the segment has to look like
}

// modelEndpoint is an endpoint. A message that is refused was refused by one of
// the states that the endpoint had between its sending and its return.
type modelEndpoint struct {
	*endpoint.Endpoint
	*oracle
	serial int
	home   *modelNode
	bundle int
	states []*modelState // the last one holds
	maps   map[int]*modelMap
	freed  bool
}

func (e *modelEndpoint) now() *modelState { return e.states[len(e.states)-1] }

// change makes a new state, like the present one.
func (e *modelEndpoint) change() *modelState {
	s := *e.now()
	e.states = append(e.states, &s)
	return &s
}

// modelMap is a translation.
type modelMap struct {
	index  int
	to     *modelEndpoint // nil: a name that nobody has
	tag    endpoint.Tag
	serial uint32 // of the last message that was handled in order
	fresh  int    // sent since everything was settled
	mapped bool
}

// modelMessage is a request and all that has become of it.
type modelMessage struct {
	id       uint32
	op       endpoint.Op
	from     *modelEndpoint
	by       *modelMap
	replyTag endpoint.Tag // that from had
	since    int          // number of the state of by.to when it was sent
	mine     int          // the same of from
	handler  uint8
	args     []uint32
	data     []byte
	offset   uint64
	to       uint64 // of a get
	length   int

	handled, returned, replied, answered, rejected int
}

// long reports whether the data waits for the receiver's consent.
func (m *modelMessage) long() bool {
	return m.op == endpoint.OpRequestBulk && len(m.data) > endpoint.DefaultMaxMedium
}

func (m *modelMessage) String() string {
	return fmt.Sprintf("message %d, %v to handler %d with %d bytes (handled %d, returned %d, replied %d, answered %d, rejected %d times)",
		m.id, m.op, m.handler, max(len(m.data), m.length), m.handled, m.returned, m.replied, m.answered, m.rejected)
}

// judge says what an endpoint in state s does with a message.
func (s *modelState) judge(op endpoint.Op, tag endpoint.Tag, handler uint8, offset uint64, length int) endpoint.Reason {
	bulk := op == endpoint.OpRequestBulk || op == endpoint.OpReplyBulk || op == endpoint.OpGet
	size := uint64(len(s.segment))
	switch {
	case s.tag == endpoint.TagNone, s.tag != endpoint.TagAll && s.tag != tag:
		return endpoint.ReasonBadTag
	case op != endpoint.OpGet && !s.handlers[handler]:
		return endpoint.ReasonBadHandler
	case bulk && size == 0 && (length > 0 || offset > 0):
		return endpoint.ReasonBadOffset
	case bulk && (offset > size || uint64(length) > size-offset):
		return endpoint.ReasonBadLength
	}
	return 0
}

// oracle is told what happens, and keeps the first thing that was wrong.
type oracle struct {
	messages  []*modelMessage // by number
	unsettled []*modelMessage
	err       error
}

func (o *oracle) wrong(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

// message finds the one that args belong to.
func (o *oracle) message(args []uint32) *modelMessage {
	if len(args) == 0 || int(args[0]) >= len(o.messages) || !slices.Equal(args, o.messages[args[0]].args) {
		o.wrong("arguments %v belong to no message", args)
		return &modelMessage{by: &modelMap{}}
	}
	return o.messages[args[0]]
}

// handled hears that request handler number runs at e.
func (o *oracle) handled(e *modelEndpoint, number uint8, t endpoint.Token, args []uint32, data []byte) *modelMessage {
	m := o.message(args)
	m.handled++
	switch s := e.now(); {
	case m.handled != 1 || m.returned > 0 || m.by.to != e || m.handler != number || m.op == endpoint.OpGet || e.freed:
		o.wrong("endpoint %d handled by %d %v", e.serial, number, m)
	case s.judge(m.op, m.by.tag, number, m.offset, len(m.data)) != 0:
		o.wrong("endpoint %d handled, instead of refusing, %v", e.serial, m)
	case !bytes.Equal(data, m.data):
		o.wrong("the data is wrong of %v", m)
	case t.Source() != m.from.Name() || t.Tag() != m.by.tag || t.Endpoint() != e.Endpoint:
		o.wrong("source %v, tag %v: %v", t.Source(), t.Tag(), m)
	case m.op == endpoint.OpRequestBulk:
		copy(s.shadow[m.offset:], m.data)
	}
	if !m.long() {
		if m.id < m.by.serial {
			o.wrong("handled after number %d of the same translation: %v", m.by.serial, m)
		}
		m.by.serial = m.id
	}
	return m
}

// answered hears that the reply handler runs at e.
func (o *oracle) answered(e *modelEndpoint, t endpoint.Token, args []uint32, data []byte) {
	m := o.message(args)
	m.answered++
	switch s := e.now(); {
	case m.answered != 1 || m.returned+m.rejected > 0 || m.from != e || e.freed || m.op != endpoint.OpGet && m.replied != 1:
		o.wrong("endpoint %d got a reply to %v", e.serial, m)
	case s.tag != endpoint.TagAll && s.tag != m.replyTag || !s.handlers[hReply]:
		o.wrong("endpoint %d did not refuse the reply to %v", e.serial, m)
	case t.Source() != m.by.to.Name() || t.Tag() != m.replyTag || t.Endpoint() != e.Endpoint:
		o.wrong("source %v, tag %v of the reply to %v", t.Source(), t.Tag(), m)
	case m.op == endpoint.OpGet:
		if !bytes.Equal(data, still(m.by.to, m.offset, m.length)) {
			o.wrong("the data is wrong of %v", m)
		}
		copy(s.shadow[m.to:], data)
	default:
		want := replyData(m)
		if !bytes.Equal(data, want) {
			o.wrong("the reply's data is wrong, to %v", m)
		}
		if k := replyKind(m); k == replyBulk || k == replyLong {
			copy(s.shadow[m.replyOffset():], want)
		}
	}
}

// returnedTo hears that a message has come back to e.
func (o *oracle) returnedTo(e *modelEndpoint, r *endpoint.Returned) {
	m := o.message(r.Args)
	if r.Op >= endpoint.OpReply && r.Op != endpoint.OpGet {
		o.replyReturned(e, m, r)
		return
	}
	m.returned++
	switch {
	case m.returned != 1 || m.answered > 0 || m.from != e || e.freed:
		o.wrong("came back to endpoint %d for %v: %v", e.serial, r.Reason, m)
	case r.Op != m.op || r.Handler != m.handler || r.Endpoint != e.Endpoint || r.Offset != m.offset && m.op >= endpoint.OpRequestBulk:
		o.wrong("came back as %v to handler %d, offset %d: %v", r.Op, r.Handler, r.Offset, m)
	case !bytes.Equal(r.Data, m.data) && (r.Data != nil || !m.long()):
		o.wrong("came back with %d bytes: %v", len(r.Data), m)
	case m.by.mapped && r.Dest != m.by.index || !m.by.mapped && r.Dest != -1 && !m.by.gone():
		o.wrong("came back from index %d, mapped %v at %d: %v", r.Dest, m.by.mapped, m.by.index, m)
	case !m.refusable(r.Reason):
		o.wrong("came back for %v: %v", r.Reason, m)
	}
}

func (m *modelMap) gone() bool { return m.to == nil || m.to.freed }

// refusable reports whether someone can have refused the request for a reason.
func (m *modelMessage) refusable(reason endpoint.Reason) bool {
	if reason == endpoint.ReasonBadEndpoint {
		return m.by.gone()
	}
	if m.by.to == nil || m.handled > 0 {
		return false
	}
	for _, s := range m.by.to.states[m.since:] {
		if s.judge(m.op, m.by.tag, m.handler, m.offset, max(len(m.data), m.length)) == reason {
			return true
		}
	}
	return m.op == endpoint.OpGet && m.replyRefusable(reason)
}

// replyRefusable reports whether the asker can have refused the reply.
func (m *modelMessage) replyRefusable(reason endpoint.Reason) bool {
	op, offset, length := endpoint.OpReply, uint64(0), 0
	switch k := replyKind(m); {
	case m.op == endpoint.OpGet:
		op, offset, length = endpoint.OpReplyBulk, m.to, m.length
	case k == replyBulk || k == replyLong:
		op, offset, length = endpoint.OpReplyBulk, m.replyOffset(), len(replyData(m))
	}
	for _, s := range m.from.states[m.mine:] {
		if r := s.judge(op, m.replyTag, hReply, offset, length); r != 0 && (r == reason || reason == 0) {
			return true
		}
	}
	return false
}

// replyReturned hears that a reply has come back to e.
func (o *oracle) replyReturned(e *modelEndpoint, m *modelMessage, r *endpoint.Returned) {
	m.rejected++
	switch {
	case m.rejected != 1 || m.replied != 1 || m.answered > 0 || m.by.to != e || r.Op != replyOps[replyKind(m)] || r.Handler != hReply:
		o.wrong("%v came back to endpoint %d for %v: %v", r.Op, e.serial, r.Reason, m)
	case r.Reason != endpoint.ReasonReplyRejected || !m.replyRefusable(0):
		o.wrong("the reply came back for %v: %v", r.Reason, m)
	case !bytes.Equal(r.Data, replyData(m)):
		o.wrong("the reply came back with %d bytes: %v", len(r.Data), m)
	}
}

// ended reports whether all is known of a message that there will be.
func (m *modelMessage) ended() bool {
	switch {
	case m.from.freed:
	case m.returned == 1 && (m.handled == 0 || m.by.gone()):
	case m.returned == 0 && m.op == endpoint.OpGet && m.answered == 1:
	case m.returned == 0 && m.handled == 1 && m.replied == 0:
	case m.returned == 0 && m.handled == 1 && m.answered+m.rejected == 1:
	case m.returned == 0 && m.handled == 1 && m.by.gone() && m.replyRefusable(0): // whose reply has nobody to go back to
	default:
		return false
	}
	return true
}

// pending drops what has ended and reports whether something has not.
func (o *oracle) pending() bool {
	o.unsettled = slices.DeleteFunc(o.unsettled, (*modelMessage).ended)
	return len(o.unsettled) > 0
}

// memory wants the segments to hold what was handled, and nothing besides. What
// a freed endpoint had sent may have been written and not handled.
func (e *modelEndpoint) memory(freed bool) {
	s := e.now()
	if freed || bytes.Equal(s.segment, s.shadow) {
		return
	}
	for i := range s.segment {
		if s.segment[i] != s.shadow[i] {
			e.wrong("byte %d of the segment of endpoint %d was written by no message that was handled", i, e.serial)
			return
		}
	}
}
