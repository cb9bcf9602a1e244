package seal

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// hello answers a request for a cookie. It stores nothing, and the answer is as long as the
// request.
func (m *machine) hello(s *secrets, o *framing.Outer, frame []byte, now int64) bool {
	answer := m.answer(framing.KindSealCookie, o)
	copy(answer[framing.SealNonce:framing.SealCookie], frame[framing.SealNonce:])
	m.jar.put(answer, frame, now)
	s.check(answer)
	m.emit(answer)
	return true
}

// initiated handles the first message of a peer's handshake. It computes keys only for a sender
// that presents a recent cookie, which no earlier handshake of this sender used.
func (m *machine) initiated(s *secrets, o *framing.Outer, frame []byte, now int64) bool {
	at, ok := m.jar.proves(frame)
	if !ok || at > now || now-at > cookieLife {
		return false
	}
	if p := m.peers.find(o.Src, o.SrcPort); p != nil && at <= p.inited {
		again := at == p.inited && p.reply != nil && bytes.Equal(frame, p.init)
		if again { // the reply was lost
			m.emit(p.reply)
		}
		return again
	}
	if m.peers.count >= maxPeers && m.peers.find(o.Src, o.SrcPort) == nil {
		m.count.Crowded.Add(1)
		return true
	}
	reply := m.answer(framing.KindSealReply, o)
	var chosen suite
	id := m.newID()
	theirs, k, err := accept(s, frame, reply, func(t *terms) terms {
		binary.BigEndian.PutUint32(reply[framing.SealedSession:], t.session)
		chosen = choose(m.opts.suites, t.suites)
		return terms{suites: chosen, ports: m.ports, session: id}
	}, m.random)
	if err != nil || !theirs.ports.Contains(o.SrcPort) {
		return false
	}
	if m.ours(s, o.Src, &theirs) {
		return true
	}
	p := m.adopt(o.Src, theirs.ports)
	p.attempt = nil // the peer's handshake continues instead
	p.inited, p.init, p.reply = at, bytes.Clone(frame), reply
	m.session(p, s, &theirs, &k, chosen, id, now)
	m.emit(reply)
	return true
}

// ours reports whether both stations have started a handshake under the same key, and this
// station's continues. The handshake of the lower address continues, so that only one session
// results.
func (m *machine) ours(s *secrets, mac ethertype.MAC, theirs *terms) bool {
	return bytes.Compare(m.self[:], mac[:]) < 0 && slices.ContainsFunc(m.peers.stations[mac], func(p *peer) bool {
		return p.attempt != nil && p.attempt.secrets == s && theirs.ports.Contains(p.attempt.port)
	})
}
