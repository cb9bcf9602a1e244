package mapper

import (
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Agent is the mapper of one host: it answers probes, receives routes, and maps the fabric if it is
// the leader. It has no clock and sends nothing by itself:
//
//   - Receive takes the payload of each received packet of type PacketType.
//   - Packet returns the next packet to send, if any. Call it when the card can send, after Receive
//     and after Poll.
//   - Poll is due at the time that Next returns.
//
// Times are nanoseconds of one monotonic clock, and never 0. An Agent is not safe for concurrent
// use.
type Agent struct {
	opts myrinet.MapperOptions
	card RouteTable // may be nil
	rng  *rand.Rand

	election
	follower
	lead leading

	outbox []outgoing // answers to send
	packet []byte     // the last result of Packet
	stats  Stats
}

type outgoing struct {
	route myrinet.Route
	message
}

// maxOutbox limits the answers that wait to be sent.
const maxOutbox = 64

// New returns the agent of a host. It writes routes to card, which may be nil. The error names the
// invalid option.
func New(now int64, opts myrinet.MapperOptions, card RouteTable) (*Agent, error) {
	opts, err := withDefaults(opts)
	if err != nil {
		return nil, err
	}
	a := &Agent{opts: opts, card: card, rng: rand.New(rand.NewPCG(opts.Seed, 0x6d6170706572))}
	a.lead.req = requests{tries: opts.Tries, least: int64(opts.Timeout), most: max(int64(longestTimeout), longestTimeouts*int64(opts.Timeout))}
	a.election.distrusted = map[ethertype.MAC]int64{}
	a.waitFirst(now)
	if opts.Observe {
		a.lead.start(now, a.rng.Uint64(), opts.Period)
	}
	return a, nil
}

// maps reports whether the host explores the fabric, as leader or as observer.
func (a *Agent) maps() bool { return a.isLeading || a.opts.Observe }

// Receive handles the payload of a packet of type PacketType. The caller may reuse the bytes when
// it returns.
func (a *Agent) Receive(now int64, payload []byte) {
	var m message
	if m.parse(payload) != nil || m.mapper == (ethertype.MAC{}) {
		a.stats.DropMalformed++
		return
	}
	switch m.kind {
	case echo, answer, ack:
		a.reply(now, &m)
	default:
		a.order(now, &m)
	}
	a.work(now)
}

// reply handles answers to requests of this host.
func (a *Agent) reply(now int64, m *message) {
	switch {
	case m.mapper != a.opts.ID:
		a.stats.DropStray++
		return
	case !a.maps() || m.token != a.lead.token || !a.lead.req.answered(now, m):
		a.stats.DropLate++
		return
	}
	if m.kind == answer && a.isLeading {
		a.heardOf(now, m)
	}
}

// order handles the requests of a mapper.
func (a *Agent) order(now int64, m *message) {
	if m.kind == look {
		a.identify(now, m)
		return
	}
	follows := a.hear(now, m)
	switch m.kind {
	case ask:
		a.identify(now, m)
	case install, clearAll:
		switch {
		case m.host != a.opts.ID:
			a.stats.DropStray++
		case !follows:
			a.stats.DropRefused++
		default:
			a.obey(m)
		}
	case alive:
		if !follows {
			a.stats.DropRefused++
		}
	}
}

// Poll does the work that is due. It may be called at any time.
func (a *Agent) Poll(now int64) {
	if !a.maps() && now >= a.takeover() && !a.excuse(now) {
		a.takeOver(now)
	}
	if a.maps() {
		a.stats.TimedOut += a.lead.req.expire(now)
	}
	if a.isLeading {
		a.announce(now)
	}
	a.work(now)
}

// Next returns when Poll has work.
func (a *Agent) Next() int64 {
	if !a.maps() {
		return a.takeover()
	}
	at := int64(transport.Forever)
	if a.isLeading {
		at = a.lead.nextAlive
	}
	if a.lead.stage == resting {
		at = min(at, a.lead.nextMap)
	}
	if t := a.lead.req.next(); t != 0 {
		at = min(at, t)
	}
	return at
}

// Packet returns the next packet to send, or nil. It is valid until the next call.
func (a *Agent) Packet(now int64) []byte {
	for {
		if len(a.outbox) > 0 {
			o := &a.outbox[0]
			a.build(o.route, &o.message)
			a.outbox = a.outbox[1:]
			return a.packet
		}
		if !a.maps() {
			return nil
		}
		if a.isLeading && a.aliveTo(now) {
			return a.packet
		}
		a.work(now)
		if q := a.lead.req.pop(now); q != nil {
			route, m := q.packet(q.try)
			m.mapper, m.token, m.request = a.opts.ID, a.lead.token, q.id
			if m.kind == echo || m.kind == ask || m.kind == look {
				a.stats.Probes++
			}
			a.build(route, &m)
			return a.packet
		}
		if !a.maps() || !a.lead.req.idle() || a.lead.stage == resting {
			return nil
		}
	}
}

// build encodes a packet. An invalid route, which belongs to a request that cannot be answered, is
// replaced by an empty one.
func (a *Agent) build(route myrinet.Route, m *message) {
	if route.Check() != nil {
		route = nil
	}
	a.packet = hardware.AppendPacket(a.packet[:0], route, PacketType, m.append(nil))
}

// push queues an answer.
func (a *Agent) push(o outgoing) {
	if len(a.outbox) >= maxOutbox {
		a.stats.DropBusy++
		return
	}
	a.outbox = append(a.outbox, o)
}

// Snapshot returns the state of the agent. Its map does not change later.
func (a *Agent) Snapshot() Snapshot {
	s := Snapshot{Stats: a.stats, Leading: a.isLeading, Leader: a.leader, Routes: len(a.table)}
	if a.isLeading {
		s.Leader = a.opts.ID
	}
	if a.maps() {
		s.Map = a.lead.last
	}
	return s
}

// Routes returns the routes of the host's card. The caller must not change them.
func (a *Agent) Routes() []myrinet.HostRoute { return a.table }
