package seal

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// control handles a frame of a handshake, or a notice. All of them are unicast and end with a check
// under the key: a frame of a sender without the key is dropped here.
func (m *machine) control(kind framing.SealKind, frame []byte, now int64) {
	frame = frame[:kind.Least()] // without Ethernet's padding
	o, _ := framing.ParseOuter(frame)
	if o.Dst != m.self || o.Src.IsGroup() || o.Src == m.self || !m.ports.Contains(o.DstPort) {
		m.count.Foreign.Add(1)
		return
	}
	if kind == framing.KindSealRefused {
		m.refused(&o, frame, now)
		return
	}
	s := m.checked(frame)
	if s == nil {
		m.count.OtherKey.Add(1)
		m.note(o.Src, troubleOtherKey, now)
		if kind == framing.KindSealHello {
			m.refuse(&o, now)
		}
		return
	}
	took := false
	switch kind {
	case framing.KindSealHello:
		took = m.hello(s, &o, frame, now)
	case framing.KindSealCookie:
		took = m.cookie(s, &o, frame, now)
	case framing.KindSealInit:
		took = m.initiated(s, &o, frame, now)
	case framing.KindSealReply:
		took = m.replied(s, &o, frame, now)
	case framing.KindSealUnknown:
		took = m.lost(&o, frame, now)
	}
	if took {
		m.count.Handshake.Add(1)
	} else {
		m.count.Replayed.Add(1) // genuine, but it belongs to no handshake in progress
	}
}

// checked returns the secrets under which the check of frame is valid, or nil.
func (m *machine) checked(frame []byte) *secrets {
	for _, s := range m.keys {
		if s.checks(frame) {
			return s
		}
	}
	return nil
}

// newFrame returns a frame of size bytes with an outer layout, and zeros after it.
func (m *machine) newFrame(kind framing.SealKind, dst ethertype.MAC, dstPort, srcPort uint16) []byte {
	frame := make([]byte, kind.Least())
	o := framing.Outer{Dst: dst, Src: m.self, Type: m.typ, Kind: uint8(kind), DstPort: dstPort, SrcPort: srcPort}
	o.Put(frame)
	return frame
}

// answer returns a frame addressed to the sender of o. An answer is never longer than its request.
func (m *machine) answer(kind framing.SealKind, o *framing.Outer) []byte {
	return m.newFrame(kind, o.Src, o.SrcPort, o.DstPort)
}

// unknown notifies the sender of frame that its session is unknown here. After a restart of this
// station, its peers learn of it at once and need not wait for a timeout. The notice needs no
// stored state, and its receiver accepts it only for the session that it currently sends in.
func (m *machine) unknown(frame []byte, now int64) {
	o, _ := framing.ParseOuter(frame)
	if o.Dst != m.self || o.Src.IsGroup() || o.Src == m.self || !m.ports.Contains(o.DstPort) || !m.troubles.budget.spend(now) {
		return
	}
	notice := m.answer(framing.KindSealUnknown, &o)
	copy(notice[framing.SealedSession:framing.SealedBody], frame[framing.SealedSession:framing.SealedBody])
	m.keys[0].check(notice)
	m.emit(notice)
}

// lost handles the notice that a peer does not know a session.
func (m *machine) lost(o *framing.Outer, frame []byte, now int64) bool {
	id, counter := framing.ParseSealed(frame)
	p := m.peers.find(o.Src, o.SrcPort)
	if p == nil || p.current == nil || p.current.remote != id || counter >= p.current.counter {
		return false
	}
	m.forget(p.current)
	if p.attempt == nil {
		m.begin(p, o.SrcPort, now)
	}
	return true
}

// refuse notifies the sender of a unicast frame that the frame could not be opened. The receiver of
// the notice cannot verify it, so it only counts it.
func (m *machine) refuse(o *framing.Outer, now int64) {
	if o.Dst != m.self || o.SrcPort == ethertype.PortAll || !m.ports.Contains(o.DstPort) || !m.troubles.budget.spend(now) {
		return
	}
	notice := m.answer(framing.KindSealRefused, o)
	m.keys[0].check(notice)
	m.emit(notice)
}

// refused handles such a notice, which comes from a station with another key.
func (m *machine) refused(o *framing.Outer, frame []byte, now int64) {
	m.count.Refused.Add(1)
	if m.checked(frame) == nil {
		m.note(o.Src, troubleRefused, now)
	}
}

// session registers the session that a handshake has produced.
func (m *machine) session(p *peer, s *secrets, theirs *terms, k *keys, chosen suite, id uint32, now int64) *session {
	made := &session{
		peer: p, from: s, suite: chosen, local: id, remote: theirs.session, ports: theirs.ports,
		send: chosen.aead(k.send[:]), receive: chosen.aead(k.receive[:]),
		began: now, end: now + 2*int64(m.opts.Limits.Age) + graceOld,
	}
	if len(p.sessions) >= maxSessions {
		m.forget(p.sessions[0])
	}
	p.sessions = append(p.sessions, made)
	m.byID[id] = made
	m.count.Sessions.Add(1)
	return made
}

// newID returns an unused session number.
func (m *machine) newID() uint32 {
	var b [4]byte
	for {
		_, _ = m.random.Read(b[:]) // neither random source fails
		id := binary.BigEndian.Uint32(b[:])
		if id != 0 && m.byID[id] == nil {
			return id
		}
	}
}
