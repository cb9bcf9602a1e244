package channels

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// The model of a channel: a send table, a receive table, and a network that has all that
// was ever sent in it. Anything in it may arrive at any time and any number of times,
// which is loss, duplication, delay and reordering in one. All states are visited that can
// be reached with so many messages, transmissions, unloadings and restarts.

// modelBounds say how far a model is explored.
type modelBounds struct {
	messages, sends, unloads, yields, abandons, forgets, sendRestarts, recvRestarts int
	tries, maxAnswers                                                               int
}

// modelFate is what the sender knows of a message.
type modelFate uint8

const (
	fateWaiting  modelFate = iota // not sent, or unbound
	fateUnderWay                  // bound to a channel
	fateAcked
	fateRefused
	fateReturned  // unreachable, restarted, abandoned
	fateForgotten // the sender has begun anew
)

type modelData struct {
	h       Header
	message uint8
}

type channelModel struct {
	s         Sender
	r         Receiver
	data      []modelData // sorted
	answers   []Answer    // sorted
	fate      []modelFate // by message
	delivered []uint8     // by message
	unloaded  uint8       // a bit for each owner
	held      uint8       // the message that the receiver holds
	twice     bool        // two packets are held on the channel
	left      modelBounds // what may still happen
}

const modelOwners = 2

func newChannelModel(b modelBounds) *channelModel {
	m := &channelModel{fate: make([]modelFate, b.messages), delivered: make([]uint8, b.messages), left: b}
	cfg := &Config{Cards: 1, Channels: 1, Owners: modelOwners, Timeout: 1, Tries: b.tries}
	m.s.Init(cfg, 100)
	m.r.Init(cfg, 1000)
	return m
}

func (m *channelModel) clone() *channelModel {
	c := *m
	c.s.entries, c.s.cards, c.s.owners = slices.Clone(m.s.entries), slices.Clone(m.s.cards), slices.Clone(m.s.owners)
	c.r.entries = slices.Clone(m.r.entries)
	c.data, c.answers = slices.Clone(m.data), slices.Clone(m.answers)
	c.fate, c.delivered = slices.Clone(m.fate), slices.Clone(m.delivered)
	return &c
}

// forgetTime takes from the state what the model decides by itself: a time-out may come
// at any time. It takes counters, too.
func (m *channelModel) forgetTime() {
	m.s.stats, m.r.stats = SenderCounters{}, ReceiverCounters{}
	m.s.next, m.s.hurry = 0, false
	e := &m.s.entries[0]
	e.sentAt, e.due = 0, false
	if !e.used {
		e.packet, e.owner, e.first, e.tries = 0, 0, 0, 0
	}
}

// key is the state as a string.
func (m *channelModel) key(b []byte) []byte {
	e, x := &m.s.entries[0], &m.r.entries[0]
	for _, v := range [...]uint32{e.packet, e.epoch, e.stamp, e.first, m.s.nonce, x.epoch, x.offer, x.nonce, x.stamp, m.r.epoch} {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	b = append(b, uint8(e.owner), e.tries, e.bit, bit8(e.init), bit8(e.known), bit8(e.used), bit8(e.nacked), bit8(m.twice), x.bit, uint8(x.state),
		m.unloaded, m.held, uint8(m.left.sends), uint8(m.left.unloads), uint8(m.left.sendRestarts), uint8(m.left.recvRestarts),
		uint8(m.left.yields), uint8(m.left.abandons), uint8(m.left.forgets))
	for i := range m.fate {
		b = append(b, uint8(m.fate[i]), m.delivered[i])
	}
	for i := range m.s.owners {
		b = append(b, bit8(m.s.owners[i].draining))
	}
	for i := range m.data {
		b = append(m.data[i].h.key(b), m.data[i].message)
	}
	b = append(b, 0xff)
	for i := range m.answers {
		b = append(m.answers[i].key(b), uint8(m.answers[i].Kind), uint8(m.answers[i].Offer), uint8(m.answers[i].Offer>>8))
	}
	return b
}

func (h *Header) key(b []byte) []byte {
	return append(b, h.Bit|bit8(h.Init)<<1, uint8(h.Epoch), uint8(h.Epoch>>8), uint8(h.Stamp))
}

func bit8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func compareHeaders(a, b Header) int {
	return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Bit, b.Bit), cmp.Compare(bit8(a.Init), bit8(b.Init)))
}

// put puts a packet into the network.
func (m *channelModel) put(h Header, message uint8) {
	m.left.sends--
	d := modelData{h, message}
	at, have := slices.BinarySearchFunc(m.data, d, func(a, b modelData) int {
		return cmp.Or(compareHeaders(a.h, b.h), cmp.Compare(a.message, b.message))
	})
	if !have {
		m.data = slices.Insert(m.data, at, d)
	}
}

// reply puts an answer into the network.
func (m *channelModel) reply(a Answer) {
	at, have := slices.BinarySearchFunc(m.answers, a, func(a, b Answer) int {
		return cmp.Or(compareHeaders(a.Header, b.Header), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Offer, b.Offer))
	})
	if !have {
		m.answers = slices.Insert(m.answers, at, a)
	}
}

// send binds the first message that waits, of an owner that is loaded.
func (m *channelModel) send() bool {
	if m.left.sends == 0 || !m.s.Free(0) {
		return false
	}
	for i, f := range m.fate {
		owner := i % modelOwners
		if f == fateWaiting && m.unloaded>>owner&1 == 0 && !m.s.owners[owner].draining {
			m.fate[i] = fateUnderWay
			m.put(m.s.Send(0, 0, owner, uint32(i)), uint8(i))
			return true
		}
	}
	return false
}

// scan lets the time-out come.
func (m *channelModel) scan() bool {
	if m.s.under == 0 || m.left.sends == 0 {
		return false
	}
	done := false
	for {
		p, more := m.s.Scan(m.s.cfg.Timeout)
		if !more {
			return done
		}
		done = true
		if p.End == NotEnded {
			m.put(p.Header, uint8(p.Packet))
		} else {
			m.ended(p)
		}
	}
}

func (m *channelModel) ended(p Passage) {
	switch p.End {
	case NotEnded:
	case EndedAcked:
		m.fate[p.Packet] = fateAcked
	case EndedRefused:
		m.fate[p.Packet] = fateRefused
	default:
		m.fate[p.Packet] = fateReturned
	}
}

// arrive has a packet arrive.
func (m *channelModel) arrive(d modelData) {
	held := m.r.entries[0].state&recvHeld != 0
	switch v, a := m.r.Arrive(0, d.h); v {
	case ArrivalNew:
		m.held, m.twice = d.message, held
	case ArrivalAnswer:
		m.reply(a)
	case ArrivalDrop:
	}
}

// settle has the receiver accept what it holds, or refuse it.
func (m *channelModel) settle(kind AnswerKind) bool {
	if m.r.entries[0].state&recvHeld == 0 {
		return false
	}
	if kind == Ack {
		m.delivered[m.held]++
		m.reply(m.r.Accept(0, 0))
	} else {
		m.reply(m.r.Refuse(0, 0, kind))
	}
	m.held = 0
	return true
}

func (m *channelModel) drain(owner int) bool {
	if m.left.unloads == 0 || m.s.owners[owner].draining {
		return false
	}
	m.left.unloads--
	m.s.Drain(owner)
	return true
}

// unload takes the packets of a drained owner from their channels.
func (m *channelModel) unload(owner int) bool {
	if !m.s.owners[owner].draining || !m.s.Drained(owner) {
		return false
	}
	for p, ok := m.s.Unbind(owner); ok; p, ok = m.s.Unbind(owner) {
		m.fate[p.Packet] = fateWaiting
	}
	m.unloaded |= 1 << owner
	m.s.Resume(owner)
	return true
}

func (m *channelModel) reload(owner int) bool {
	if m.unloaded>>owner&1 == 0 {
		return false
	}
	m.unloaded &^= 1 << owner
	return true
}

// yield takes a packet with a NACK from its channel, because others wait for it.
func (m *channelModel) yield() bool {
	if m.left.yields == 0 {
		return false
	}
	p, ok := m.s.Yield(m.s.cfg.Scan, 0)
	if !ok {
		return false
	}
	m.left.yields--
	m.fate[p.Packet] = fateWaiting
	return true
}

// abandon ends a packet of an owner that is gone.
func (m *channelModel) abandon(owner int) bool {
	if m.left.abandons == 0 {
		return false
	}
	p, ok := m.s.Abandon(owner)
	if ok {
		m.left.abandons--
		m.ended(p)
	}
	return ok
}

// forgetReceiver has the sender take the receiver for another card, when nothing is under way.
func (m *channelModel) forgetReceiver() bool {
	if m.left.forgets == 0 || m.s.UnderWay(0) > 0 {
		return false
	}
	m.left.forgets--
	m.s.Forget(0)
	return true
}

// forgetSender has the receiver take the sender for another card, when it holds nothing.
func (m *channelModel) forgetSender() bool {
	if m.left.forgets == 0 || m.r.entries[0].state&recvHeld != 0 {
		return false
	}
	m.left.forgets--
	m.r.Forget(0)
	return true
}

func (m *channelModel) restartSender() bool {
	if m.left.sendRestarts == 0 {
		return false
	}
	m.left.sendRestarts--
	cfg := m.s.cfg
	m.s.Init(&cfg, 200)
	for i, f := range m.fate {
		if f == fateUnderWay {
			m.fate[i] = fateForgotten
		}
	}
	return true
}

func (m *channelModel) restartReceiver() bool {
	if m.left.recvRestarts == 0 {
		return false
	}
	m.left.recvRestarts--
	cfg := m.r.cfg
	m.r.Init(&cfg, 2000)
	m.held = 0
	return true
}

// modelStep is what can happen next. It reports false when it cannot.
type modelStep struct {
	name string
	do   func(*channelModel) bool
}

var modelSteps = []modelStep{
	{"send", (*channelModel).send},
	{"time-out", (*channelModel).scan},
	{"accept", func(m *channelModel) bool { return m.settle(Ack) }},
	{"refuse, not resident", func(m *channelModel) bool { return m.settle(NackResident) }},
	{"refuse, tag", func(m *channelModel) bool { return m.settle(NackTag) }},
	{"drain 0", func(m *channelModel) bool { return m.drain(0) }},
	{"drain 1", func(m *channelModel) bool { return m.drain(1) }},
	{"unload 0", func(m *channelModel) bool { return m.unload(0) }},
	{"unload 1", func(m *channelModel) bool { return m.unload(1) }},
	{"reload 0", func(m *channelModel) bool { return m.reload(0) }},
	{"reload 1", func(m *channelModel) bool { return m.reload(1) }},
	{"yield", (*channelModel).yield},
	{"abandon 0", func(m *channelModel) bool { return m.abandon(0) }},
	{"abandon 1", func(m *channelModel) bool { return m.abandon(1) }},
	{"the sender forgets the receiver", (*channelModel).forgetReceiver},
	{"the receiver forgets the sender", (*channelModel).forgetSender},
	{"the sender begins anew", (*channelModel).restartSender},
	{"the receiver begins anew", (*channelModel).restartReceiver},
}

// violation says what may not be in a state, "" for nothing.
func (m *channelModel) violation() string {
	if m.twice {
		return "a packet is to be written while another one of its channel is"
	}
	for i, f := range m.fate {
		switch n := m.delivered[i]; {
		case n > 1:
			return fmt.Sprintf("message %d was delivered %d times", i, n)
		case f == fateAcked && n == 0:
			return fmt.Sprintf("message %d is acknowledged and was not delivered", i)
		case f == fateRefused && n != 0:
			return fmt.Sprintf("message %d was refused and delivered", i)
		case f == fateUnderWay && m.unloaded>>(i%modelOwners)&1 != 0:
			return fmt.Sprintf("message %d is under way and its owner is unloaded", i)
		case f == fateWaiting && n != 0:
			return fmt.Sprintf("message %d waits to be sent and was delivered", i)
		}
	}
	return ""
}

// modelRun visits states, breadth first.
type modelRun struct {
	t         *testing.T
	seen      map[string]int // where in list
	list      []modelVisit
	unvisited []*channelModel // states of list[done:]
	buf       []byte
	unsure    int // states in which a message is returned that was delivered
	settled   int // states in which each message has ended
}

type modelVisit struct {
	from int
	step string
}

func (r *modelRun) visit(m *channelModel, from int, step func() string) {
	m.forgetTime()
	r.buf = m.key(r.buf[:0])
	if _, have := r.seen[string(r.buf)]; have {
		return
	}
	r.seen[string(r.buf)] = len(r.list)
	r.list = append(r.list, modelVisit{from, step()})
	r.unvisited = append(r.unvisited, m)
	if v := m.violation(); v != "" {
		r.t.Fatalf("%s, after:\n%s", v, r.path(len(r.list)-1))
	}
	ended := true
	for i, f := range m.fate {
		ended = ended && f > fateUnderWay
		if f == fateReturned && m.delivered[i] > 0 {
			r.unsure++
			break
		}
	}
	if ended {
		r.settled++
	}
}

// path tells how a state is reached.
func (r *modelRun) path(at int) string {
	var steps []string
	for ; at > 0; at = r.list[at].from {
		steps = append(steps, r.list[at].step)
	}
	slices.Reverse(steps)
	return strings.Join(steps, "\n")
}

// next visits what follows a state.
func (r *modelRun) next(m *channelModel, at int) {
	for _, s := range modelSteps {
		if c := m.clone(); s.do(c) {
			r.visit(c, at, func() string { return s.name })
		}
	}
	for _, d := range m.data {
		c := m.clone()
		c.arrive(d)
		if len(c.answers) <= c.left.maxAnswers {
			r.visit(c, at, func() string { return fmt.Sprintf("message %d arrives: %+v", d.message, d.h) })
		}
	}
	for _, a := range m.answers {
		c := m.clone()
		c.ended(c.s.OnAnswer(0, a))
		r.visit(c, at, func() string { return fmt.Sprintf("%v arrives: %+v", a.Kind, a) })
	}
}

// explore visits all states within bounds and returns the run.
func explore(t *testing.T, b modelBounds, end func(m *channelModel, at int)) *modelRun {
	r := &modelRun{t: t, seen: map[string]int{}}
	r.visit(newChannelModel(b), 0, func() string { return "begin" })
	for at := 0; len(r.unvisited) > 0; at++ {
		m := r.unvisited[0]
		r.unvisited[0] = nil
		r.unvisited = r.unvisited[1:]
		r.next(m, at)
		end(m, at)
	}
	return r
}

// finish has a network that loses nothing any more, between sides that live, carry what
// comes next. It returns what has not ended then, "" for nothing.
func (m *channelModel) finish() string {
	m.left.sends = 1000
	for owner := range modelOwners {
		m.reload(owner)
		m.s.Resume(owner)
	}
	m.settle(Ack)
	for range 40 {
		m.data, m.answers = m.data[:0], m.answers[:0]
		if !m.send() && !m.scan() {
			break
		}
		for _, d := range m.data {
			m.arrive(d)
			m.settle(Ack)
		}
		for _, a := range m.answers {
			m.ended(m.s.OnAnswer(0, a))
		}
		m.forgetTime()
	}
	if i := slices.IndexFunc(m.fate, func(f modelFate) bool { return f <= fateUnderWay }); i >= 0 {
		return fmt.Sprintf("message %d has not ended", i)
	}
	return m.violation()
}

// TestChannelModel visits every state of a channel within bounds, and holds what the
// package comment says of channels. From each state a network that works again brings
// everything to an end.
func TestChannelModel(t *testing.T) {
	cases := []struct {
		name  string
		short bool
		b     modelBounds
	}{
		{"three messages", true, modelBounds{messages: 3, sends: 5, tries: 2, maxAnswers: 4}},
		{"unloading", true, modelBounds{messages: 3, sends: 4, unloads: 1, tries: 1, maxAnswers: 3}},
		{"sender begins anew", true, modelBounds{messages: 2, sends: 5, sendRestarts: 1, tries: 1, maxAnswers: 3}},
		{"receiver begins anew", true, modelBounds{messages: 2, sends: 5, recvRestarts: 1, tries: 1, maxAnswers: 3}},
		{"yielding", true, modelBounds{messages: 3, sends: 4, yields: 2, tries: 1, maxAnswers: 3}},
		{"abandoning", true, modelBounds{messages: 2, sends: 5, abandons: 1, tries: 1, maxAnswers: 3}},
		{"forgetting", true, modelBounds{messages: 2, sends: 4, forgets: 2, tries: 1, maxAnswers: 3}},
		{"yielding, unloading, abandoning, forgetting", false, modelBounds{messages: 2, sends: 4, unloads: 1, yields: 1, abandons: 1, forgets: 1, tries: 1, maxAnswers: 3}},
		{"all", false, modelBounds{messages: 2, sends: 4, unloads: 1, sendRestarts: 1, recvRestarts: 1, tries: 1, maxAnswers: 3}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				need.Long(t, "it visits many states")
			}
			r := explore(t, c.b, func(m *channelModel, at int) {
				if v := m.finish(); v != "" {
					t.Fatalf("%s when the network works again", v)
				}
			})
			t.Logf("%d states, no violation; in %d each message has ended, in %d one is returned that was delivered",
				len(r.list), r.settled, r.unsure)
			if r.settled == 0 || r.unsure == 0 {
				t.Errorf("in %d states each message has ended, in %d one is returned that was delivered: the bounds are too narrow to show anything",
					r.settled, r.unsure)
			}
		})
	}
}
