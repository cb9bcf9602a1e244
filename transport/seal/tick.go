package seal

import (
	"slices"

	"github.com/bobnet-go/bobnet/transport"
)

// tick runs the timers that are due: it repeats unanswered messages, gives up attempts after enough
// repetitions, and deletes old state. It sets next to the time of the next timer.
func (m *machine) tick(now int64) {
	if now-m.swept >= sweepEvery {
		m.swept = now
		m.sweep(now)
	}
	if now < m.next {
		return
	}
	m.next = transport.Forever
	for _, p := range slices.Clone(m.peers.busy) {
		m.drive(p, now)
	}
	m.rest()
}

// rest stops the timers if they have nothing to do.
func (m *machine) rest() {
	m.peers.busy = slices.DeleteFunc(m.peers.busy, func(p *peer) bool { return p.attempt == nil && len(p.waiting) == 0 })
	if len(m.peers.busy) == 0 {
		m.next = transport.Forever
	}
}

// drive runs the timers of one peer.
func (m *machine) drive(p *peer, now int64) {
	a := p.attempt
	switch {
	case a == nil && len(p.waiting) == 0:
		return
	case a == nil && m.pending(p, now):
		m.tickAt(now + graceConfirm)
		return
	case a == nil:
		m.begin(p, p.ports.Lo, now)
		return
	case now < a.at:
		m.tickAt(a.at)
		return
	}
	switch {
	case a.tries >= maxTries:
		p.attempt = nil
		m.count.Expired.Add(uint64(m.peers.dropWaiting(p)))
		if !p.known && len(p.sessions) == 0 {
			m.peers.remove(p)
		}
	case a.state != nil && a.inits >= initTries:
		m.ask(p, now) // the station that issued the cookie may have restarted since
	default:
		if a.state != nil {
			a.inits++
		}
		m.transmit(a, now)
	}
}

// forget deletes a session.
func (m *machine) forget(s *session) {
	delete(m.byID, s.local)
	p := s.peer
	p.sessions = slices.DeleteFunc(p.sessions, func(o *session) bool { return o == s })
	if p.current == s {
		p.current = nil
	}
	if m.last == s {
		m.last = nil
	}
}

// sweep deletes sessions that have ended, and peers without a session.
func (m *machine) sweep(now int64) {
	for _, s := range m.byID {
		if now >= s.end {
			m.forget(s)
		}
	}
	var gone []*peer
	for _, list := range m.peers.stations {
		for _, p := range list {
			if len(p.sessions) == 0 && p.attempt == nil && len(p.waiting) == 0 && now-p.inited > cookieLife {
				gone = append(gone, p)
			}
		}
	}
	for _, p := range gone {
		m.peers.remove(p)
	}
}
