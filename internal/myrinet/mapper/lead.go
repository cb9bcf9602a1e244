package mapper

import (
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// leading is the state of a leader: it explores, withdraws routes where necessary, writes routes,
// and rests.
type leading struct {
	stage    stage
	token    uint64
	req      requests
	explore  *exploration
	restarts int
	began    int64
	before   Stats // at the beginning of the mapping

	doubted bool // the previous mapping missed something
	found   *Map // a map that misses hosts, which are probed over their known routes
	alive   bool // one of them has answered
	last    *Map
	tables  Tables
	plan    plan
	nextMap int64
	period  int64

	nextAlive int64
	aliveHost int // next host to receive an alive message

	given map[ethertype.MAC][][]myrinet.HostRoute // tables sent to each host, newest first
}

type stage uint8

const (
	resting stage = iota
	exploring
	verifying
	clearing
	installing
)

// maxRestarts limits the restarts of a mapping.
const maxRestarts = 2

func (l *leading) start(now int64, token uint64, period time.Duration) {
	req := l.req
	req.cancel()
	*l = leading{token: token, req: req, period: int64(period), nextMap: now, nextAlive: now + int64(period)/2, given: map[ethertype.MAC][][]myrinet.HostRoute{}}
}

func (l *leading) stop() {
	l.req.cancel()
	l.stage, l.explore, l.found, l.last, l.tables, l.given = resting, nil, nil, nil, nil, nil
}

// work does everything that can be done without waiting.
func (a *Agent) work(now int64) {
	l := &a.lead
	for a.maps() {
		before := l.stage
		switch l.stage {
		case resting:
			if now < l.nextMap {
				return
			}
			l.began, l.before, l.restarts = now, a.stats, 0
			a.beginExploring()
		case exploring:
			if !l.explore.advance() {
				return
			}
			a.explored(now)
		case verifying:
			if !l.req.idle() {
				return
			}
			a.verified(now)
		case clearing:
			if !l.req.idle() {
				return
			}
			a.install(now)
		case installing:
			if !l.req.idle() {
				return
			}
			a.rest(now)
		}
		if l.stage == before && l.stage != exploring {
			return
		}
	}
}

// beginExploring starts a mapping. If an input holds only one packet, probes go one at a time: they
// turn where no route does, so several could deadlock, and none of them would come back.
func (a *Agent) beginExploring() {
	asks := ask
	if a.opts.Observe {
		asks = look
	}
	a.lead.stage, a.lead.req.window = exploring, a.opts.Probes
	a.lead.req.forget()
	a.lead.explore = explore(&a.lead.req, identity{a.opts.ID, a.opts.Name}, a.opts.Ports, a.opts.MaxSwitches, asks)
}

func (a *Agent) rest(now int64) {
	a.lead.stage, a.lead.explore, a.lead.found, a.lead.nextMap = resting, nil, nil, now+a.lead.period
}

// explored ends an exploration. If answers came too late, other answers may be missing: the next
// exploration has longer timeouts.
func (a *Agent) explored(now int64) {
	l := &a.lead
	if l.explore.broken || l.req.late > 0 {
		if l.restarts++; l.restarts <= maxRestarts {
			a.stats.Restarts++
			a.beginExploring()
			return
		}
	}
	if l.explore.broken {
		a.stats.Abandoned++
		a.opts.Logger.Warn("the fabric changes too fast to be mapped")
		a.rest(now)
		return
	}
	m := l.explore.result()
	if l.doubts(m) {
		a.doubt(now)
		return
	}
	if l.found = m; a.verify() {
		return
	}
	a.believe(now)
}

// doubt schedules another mapping soon. The routes stay.
func (a *Agent) doubt(now int64) {
	a.stats.Doubts++
	a.rest(now)
	a.lead.nextMap = now + min(a.lead.period, int64(doubtPause))
}

// silentTries is the factor for the tries of a probe to a host when nothing but hosts is missing.
const silentTries = 4

// verify probes the hosts that a new map misses over their known routes, and reports whether there
// are any. Packets on routes cannot deadlock. So one answer proves that the new map is incomplete,
// and several missing answers prove that the routes are wrong. If all switches and their cables are
// present, no other host waits for new routes, and the silent hosts get more time: they may have no
// CPU.
func (a *Agent) verify() bool {
	l := &a.lead
	l.alive = false
	if l.last == nil || l.tables == nil || l.found.TooMany+l.found.Beyond > 0 {
		return false
	}
	l.req.window = a.opts.Window
	tries, patience := l.req.tries, l.req.most/4
	if len(l.found.Topology.Switches) == len(l.last.Topology.Switches) && joins(&l.found.Topology) == joins(&l.last.Topology) {
		tries, patience = silentTries*l.req.tries, l.req.most
	}
	for i, id := range l.last.IDs {
		there, back := l.tables[l.last.Mapper][i], l.tables[i][l.last.Mapper]
		if there == nil || back == nil || slices.Contains(l.found.IDs, id) {
			continue
		}
		l.req.add(&request{
			packet: func(int) (myrinet.Route, message) { return there, message{kind: ask, back: back} },
			needed: func() bool { return !l.alive },
			reply:  answer, tries: tries, patience: patience,
			done: func(m *message) { l.alive = l.alive || m != nil && m.host == id },
		})
	}
	if l.req.idle() {
		return false
	}
	l.stage = verifying
	return true
}

// joins returns the number of cables between switches.
func joins(t *topology.Topology) (n int) {
	for _, c := range t.Cables {
		if !c.A.Host && !c.B.Host {
			n++
		}
	}
	return n
}

// verified ends the verification.
func (a *Agent) verified(now int64) {
	if a.lead.alive {
		a.stats.Kept++
		a.lead.doubted = false
		a.doubt(now)
		return
	}
	a.believe(now)
}

// believe accepts the new map.
func (a *Agent) believe(now int64) {
	l := &a.lead
	m := l.found
	m.Probes, m.Lost = a.stats.Probes-l.before.Probes, a.stats.TimedOut-l.before.TimedOut
	m.Duration = time.Duration(now - l.began)
	a.stats.Maps++
	a.stats.Twice += uint64(len(m.Twice))
	a.stats.TooMany += uint64(m.TooMany)
	for _, id := range m.Twice {
		a.opts.Logger.Warn("several hosts claim one identity", "id", id)
	}
	same := l.last != nil && l.last.Topology.Text() == m.Topology.Text()
	if !same {
		a.stats.Changes++
		a.opts.Logger.Debug("the map has changed", "hosts", len(m.IDs), "switches", len(m.Topology.Switches), "cables", len(m.Topology.Cables))
	}
	l.last = m
	if a.opts.Observe {
		a.rest(now)
		return
	}
	if !same {
		l.tables = Routes(&m.Topology)
	}
	l.aliveHost = len(m.IDs)
	a.makePlan()
	a.withdraw()
}

// doubtPause gives the fabric time to break packets that are in a deadlock with probes.
const doubtPause = 100 * time.Millisecond

// doubts reports whether something is missing that was present in the last map, and nothing was
// missing in the mapping before: it may be that probes were lost.
func (l *leading) doubts(m *Map) bool {
	missing := l.last != nil && (len(m.Topology.Cables) < len(l.last.Topology.Cables) || len(m.Topology.Switches) < len(l.last.Topology.Switches))
	if l.last != nil {
		for _, id := range l.last.IDs {
			missing = missing || !slices.Contains(m.IDs, id)
		}
	}
	l.doubted = missing && !l.doubted
	return l.doubted
}

// announce starts a round of alive messages to all hosts.
func (a *Agent) announce(now int64) {
	if l := &a.lead; now >= l.nextAlive {
		l.nextAlive = now + l.period/2
		l.aliveHost = 0
	}
}

// aliveTo builds the alive message for the next host.
func (a *Agent) aliveTo(now int64) bool {
	l := &a.lead
	for l.last != nil && l.aliveHost < len(l.last.IDs) {
		to := l.aliveHost
		l.aliveHost++
		if route := l.tables[l.last.Mapper][to]; route != nil {
			a.build(route, &message{kind: alive, mapper: a.opts.ID, token: l.token})
			return true
		}
	}
	return false
}
