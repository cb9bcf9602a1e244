package mapper

import (
	"github.com/bobnet-go/bobnet/ethertype"
)

// election decides which host maps. Each host follows the leader whose messages it receives. A host that has
// received no message from a leader for three periods and a random time takes over. Of two mappers, the one with
// the lower identity continues. The other one yields when it receives a message from the first one, or from a host
// that follows the first one.
type election struct {
	isLeading bool
	leader    ethertype.MAC // the followed leader; zero for none
	heard     int64         // when its last message arrived
	patience  int64         // time without a message after which it counts as dead
	hearsay   bool          // known only from other hosts
	excused   int64         // additional time, because this host had no CPU
	warned    int64         // when another host with this identity was last logged

	// Leaders that others have named and that have never sent anything, and when to forget that. A
	// host that lies must not keep all others from mapping.
	distrusted map[ethertype.MAC]int64
}

// maxDistrusted limits the distrusted identities.
const maxDistrusted = 64

// waitFor restarts the timeout of a new leader.
func (a *Agent) waitFor(heard int64) {
	period := int64(a.opts.Period)
	a.heard, a.patience, a.excused = heard, 3*period+a.rng.Int64N(2*period), 0
}

// waitFirst starts the timeout for the first leader after a start. If a leader has not found this
// host yet, other hosts report it as soon as this host probes them.
func (a *Agent) waitFirst(now int64) {
	period := int64(a.opts.Period)
	a.heard, a.patience = now, period+a.rng.Int64N(period)
}

// takeover returns when the leader counts as dead.
func (a *Agent) takeover() int64 { return a.heard + a.patience + a.excused }

// excuse gives the leader a little more time, once, if this host is late: a message from the leader
// may be waiting to be read.
func (a *Agent) excuse(now int64) bool {
	late := now - a.takeover()
	if a.excused > 0 || late <= int64(a.opts.Timeout) {
		return false
	}
	a.excused = late + int64(a.opts.Timeout)
	return true
}

// better reports whether mapper a has precedence over b.
func better(a, b ethertype.MAC) bool { return compareMAC(a, b) < 0 }

// hear records a message from a mapper, and reports whether this host follows that mapper.
func (a *Agent) hear(now int64, m *message) bool {
	mapper := m.mapper
	switch {
	case mapper == a.opts.ID:
		return a.hearTwin(now, m.token)
	case a.isLeading:
		if !better(mapper, a.opts.ID) {
			return false
		}
		a.yield(now, mapper, false)
	case mapper == a.leader:
		a.heard, a.hearsay, a.excused = now, false, 0
	case a.leader == ethertype.MAC{} || better(mapper, a.leader) || now >= a.takeover():
		a.leader, a.hearsay = mapper, false
		a.waitFor(now)
	default:
		return false
	}
	delete(a.distrusted, mapper)
	return true
}

// hearTwin handles a message from a mapper with this host's identity. It may be this host, if a
// probe returns to it. Of two mappers with one identity, the one with the lower token continues.
func (a *Agent) hearTwin(now int64, token uint64) bool {
	if a.isLeading && token == a.lead.token {
		return true
	}
	a.stats.Claimed++
	if now >= a.warned+int64(a.opts.Period) {
		a.warned = now
		a.opts.Logger.Warn("another host claims this one's identity", "id", a.opts.ID)
	}
	switch {
	case !a.isLeading:
		a.leader, a.heard, a.hearsay = a.opts.ID, now, false
	case token < a.lead.token:
		a.yield(now, a.opts.ID, false)
	default:
		return false
	}
	return true
}

// heardOf handles a host's report of the leader that it follows.
func (a *Agent) heardOf(now int64, m *message) {
	age := int64(m.age) * 1e6
	if m.leader == (ethertype.MAC{}) || !better(m.leader, a.opts.ID) || age > 3*int64(a.opts.Period) {
		return
	}
	if until, ok := a.distrusted[m.leader]; ok && now < until {
		return
	}
	a.yield(now-age, m.leader, true)
}

// yield makes another host the leader.
func (a *Agent) yield(heard int64, to ethertype.MAC, hearsay bool) {
	a.stats.Yields++
	a.opts.Logger.Debug("another host maps", "id", to, "hearsay", hearsay)
	a.isLeading = false
	a.lead.stop()
	a.leader, a.hearsay = to, hearsay
	a.waitFor(heard)
}

// takeOver makes this host the leader.
func (a *Agent) takeOver(now int64) {
	if a.hearsay {
		for id, until := range a.distrusted {
			if now >= until {
				delete(a.distrusted, id)
			}
		}
		if len(a.distrusted) < maxDistrusted {
			a.distrusted[a.leader] = now + 30*int64(a.opts.Period)
		}
	}
	a.opts.Logger.Debug("this host maps", "id", a.opts.ID, "last", a.leader)
	a.stats.Elections++
	a.isLeading, a.leader, a.hearsay = true, a.opts.ID, false
	a.lead.start(now, a.rng.Uint64(), a.opts.Period)
}
