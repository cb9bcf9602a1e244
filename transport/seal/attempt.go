package seal

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/flynn/noise"
)

// attempt is a handshake that this station has started.
type attempt struct {
	secrets *secrets
	port    uint16                // of the peer
	frame   []byte                // the last message, which is repeated until it is answered: a KindSealHello or a KindSealInit
	state   *noise.HandshakeState // nil before the cookie has arrived
	id      uint32                // this station's number of the session
	tries   int                   // transmissions in total
	inits   int                   // transmissions since the cookie
	at      int64                 // when to repeat it
}

// begin starts a handshake with p by requesting a cookie.
func (m *machine) begin(p *peer, port uint16, now int64) {
	p.attempt = &attempt{secrets: m.keys[0], port: port}
	m.peers.watch(p)
	m.ask(p, now)
}

// ask sends a request for a cookie, with a new nonce.
func (m *machine) ask(p *peer, now int64) {
	a := p.attempt
	a.frame = m.newFrame(framing.KindSealHello, p.mac, a.port, m.ports.Lo)
	_, _ = m.random.Read(a.frame[framing.SealNonce:framing.SealCookie]) // neither random source fails
	a.secrets.check(a.frame)
	a.state, a.inits = nil, 0
	m.transmit(a, now)
}

// transmit sends or repeats the message of an attempt.
func (m *machine) transmit(a *attempt, now int64) {
	m.emit(a.frame)
	a.at = now + min(firstRetry<<min(a.tries, 16), lastRetry)
	a.tries++
	m.tickAt(a.at)
}

// cookie handles the answer to a request for a cookie, and starts the handshake proper.
func (m *machine) cookie(s *secrets, o *framing.Outer, frame []byte, now int64) bool {
	p := m.peers.find(o.Src, o.SrcPort)
	if p == nil || p.attempt == nil || p.attempt.state != nil || p.attempt.secrets != s ||
		[framing.SealNonceSize]byte(frame[framing.SealNonce:]) != [framing.SealNonceSize]byte(p.attempt.frame[framing.SealNonce:]) {
		return false
	}
	a := p.attempt
	init := m.newFrame(framing.KindSealInit, p.mac, a.port, m.ports.Lo)
	copy(init[framing.SealNonce:framing.SealMessage], frame[framing.SealNonce:framing.SealMessage])
	a.id = m.newID()
	state, err := begin(s, init, &terms{suites: m.opts.suites, ports: m.ports, session: a.id}, m.random)
	if err != nil {
		return false // the random source failed: as if the cookie had been lost
	}
	a.frame, a.state = init, state
	m.transmit(a, now)
	return true
}

// replied handles the reply that completes the handshake, and sends the frames that waited for the
// session.
func (m *machine) replied(s *secrets, o *framing.Outer, frame []byte, now int64) bool {
	p := m.peers.find(o.Src, o.SrcPort)
	id, _ := framing.ParseSealed(frame)
	if p == nil || p.attempt == nil || p.attempt.state == nil || p.attempt.secrets != s || p.attempt.id != id || m.byID[id] != nil {
		return false
	}
	theirs, k, err := finish(p.attempt.state, frame)
	if err != nil || !theirs.ports.Contains(o.SrcPort) || theirs.suites != choose(m.opts.suites, theirs.suites) {
		return false
	}
	p.attempt = nil
	p = m.adopt(p.mac, theirs.ports)
	made := m.session(p, s, &theirs, &k, theirs.suites, id, now)
	made.initiator = true
	if len(p.waiting) == 0 {
		m.emit(m.confirmation(made))
	}
	m.confirm(made, now)
	return true
}

// confirmation returns a frame that proves to the peer that this station has the keys of s.
func (m *machine) confirmation(s *session) []byte {
	outer := m.newFrame(framing.KindSealed, s.peer.mac, s.ports.Lo, m.ports.Lo)
	return s.seal(make([]byte, framing.SealedBody+confirmSize, framing.SealedBody+confirmSize+framing.SealTagSize), outer)
}

// confirm makes s the session to send in, because the peer has proven that it has the keys, and
// sends the frames that waited for a session. Older sessions remain for late frames.
func (m *machine) confirm(s *session, now int64) {
	s.confirmed = true
	p := s.peer
	if p.current != nil && s.began < p.current.began {
		return // frames of a later session arrived before the first one of this session
	}
	for _, old := range p.sessions {
		if old != s && old.confirmed {
			old.end = min(old.end, now+graceOld)
		}
	}
	p.current, p.attempt = s, nil
	for _, frame := range m.peers.takeWaiting(p) {
		room := make([]byte, len(frame)+framing.SealOverhead)
		m.emit(s.seal(gather(room, framing.SealedBody, &transport.Frame{Head: frame}), frame))
		m.count.Sealed.Add(1)
	}
	m.rest()
}

// adopt returns the peer that owns these ports, which the peer itself has announced. Peers that
// were known by some of these ports are merged into it.
func (m *machine) adopt(mac ethertype.MAC, ports transport.PortRange) *peer {
	var p *peer
	var others []*peer
	for _, o := range m.peers.stations[mac] {
		switch {
		case o.ports.Hi < ports.Lo || o.ports.Lo > ports.Hi:
		case p == nil && (!o.known || o.ports == ports):
			p = o
		default:
			others = append(others, o)
		}
	}
	if p == nil {
		p = m.peers.add(mac, ports)
	}
	p.ports, p.known = ports, true
	for _, o := range others {
		m.merge(p, o)
	}
	return p
}

// merge merges o into p. Both stand for the station with the same ports.
func (m *machine) merge(p, o *peer) {
	if p.attempt == nil {
		p.attempt = o.attempt
	}
	frames := m.peers.takeWaiting(o)
	for _, f := range frames {
		if !m.peers.keep(p, &transport.Frame{Head: f}, o.waited) {
			m.count.Crowded.Add(1)
		}
	}
	p.inited = max(p.inited, o.inited)
	for len(o.sessions) > 0 {
		m.forget(o.sessions[0])
	}
	m.peers.remove(o)
	if p.attempt != nil {
		m.peers.watch(p)
	}
}
