package seal

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/stations"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// machine seals and opens the frames of one station. It has no clock, and sends nothing itself: it
// leaves the frames to send in out. It allocates only during handshakes.
type machine struct {
	opts   Options
	random io.Reader
	self   ethertype.MAC
	typ    ethernet.EtherType
	ports  transport.PortRange
	plain  int        // bytes of the longest sealed frame that is not long
	keys   []*secrets // the valid ones, the one in use first
	jar    jar
	group  group
	peers  table
	byID   map[uint32]*session
	last   *session                  // of the latest received frame
	first  [transport.LongBegin]byte // the beginning of a long frame, during one call
	out    [][]byte                  // frames to send, oldest first
	next   int64                     // when tick must run next
	swept  int64

	troubles troubles
	count    *counters
}

// newMachine returns the machine of a station with the given keys.
func newMachine(info transport.Info, opts Options, random io.Reader, valid []Key, now int64) (*machine, error) {
	m := &machine{
		opts: opts.withDefaults(), random: random, self: info.MAC, typ: info.EtherType, ports: info.Ports, plain: info.MTU + ethertype.EthernetSize,
		byID: map[uint32]*session{}, next: transport.Forever, swept: now, count: &counters{},
		troubles: troubles{by: stations.Table[trouble]{Max: maxTroubles}},
	}
	m.peers.init()
	for _, k := range valid {
		m.keys = append(m.keys, derive(k))
	}
	if err := m.jar.init(random); err != nil {
		return nil, err
	}
	return m, m.group.init(random)
}

// setKeys replaces the keys. Sessions and handshakes under a key that is no longer valid end.
func (m *machine) setKeys(valid []Key) {
	old := m.keys
	m.keys = make([]*secrets, 0, len(valid))
	for _, k := range valid {
		if i := slices.IndexFunc(old, func(s *secrets) bool { return s.key == k }); i >= 0 {
			m.keys = append(m.keys, old[i])
		} else {
			m.keys = append(m.keys, derive(k))
		}
	}
	for _, s := range m.byID {
		if !slices.Contains(m.keys, s.from) {
			m.forget(s)
		}
	}
	for _, p := range m.peers.busy {
		if p.attempt != nil && !slices.Contains(m.keys, p.attempt.secrets) {
			p.attempt = nil // tick starts another one if frames wait
		}
	}
	m.next = 0
	m.opts.Logger.Info("keys have changed", "valid", len(valid))
}

// emit queues a frame to send.
func (m *machine) emit(frame []byte) {
	if len(m.out) >= maxOut {
		m.count.Crowded.Add(1)
		return
	}
	m.out = append(m.out, frame)
}

// isGroup reports whether a frame is a broadcast, to all stations or to all programs of a host.
func isGroup(dst ethertype.MAC, port uint16) bool { return dst.IsGroup() || port == ethertype.PortAll }

// overhead returns how many bytes sealing adds to frame f of the given length.
func (m *machine) overhead(f *transport.Frame, length int) int {
	switch {
	case isGroup(ethertype.MAC(f.Head), framing.DstPort(f.Head)):
		return framing.SealOverhead + framing.SealGroupMore
	case m.isLong(length):
		return framing.SealOverhead + framing.SealLongMore
	}
	return framing.SealOverhead
}

// isLong reports whether a unicast frame of the given length is sealed as a long frame.
func (m *machine) isLong(length int) bool {
	return length+framing.SealOverhead > m.plain && length > transport.LongBegin
}

// seal writes the sealed form of f to room, which is long enough, and returns it. Without a session
// it returns nil: the frame waits for one, or is dropped and counted.
func (m *machine) seal(room []byte, f *transport.Frame, now int64) []byte {
	dst, port := ethertype.MAC(f.Head), framing.DstPort(f.Head)
	if isGroup(dst, port) {
		return m.group.seal(m.keys[0], gather(room, framing.SealedGroupBody, f), f.Head)
	}
	p := m.peers.find(dst, port)
	if p == nil || p.current == nil || p.current.worn(now, &m.opts) {
		if p = m.ready(p, f, dst, port, now); p == nil {
			return nil
		}
	}
	if p.current.asked == 0 {
		p.current.asked = now
	}
	if m.isLong(f.Len()) {
		begin, rest := cut(m.first[:0], room[framing.SealedRest:], f)
		return p.current.sealLong(room, f.Head, begin, rest)
	}
	return p.current.seal(gather(room, framing.SealedBody, f), f.Head)
}

// gather copies f, from its version on, to room after the first before bytes, and returns both.
func gather(room []byte, before int, f *transport.Frame) []byte {
	n := before + copy(room[before:], f.Head[ethertype.EthernetSize:])
	for _, part := range f.Body {
		n += copy(room[n:], part)
	}
	return room[:n]
}

// cut appends the first LongBegin bytes of the longer frame f, from its version on, to begin. It
// returns begin and the rest of f: in place if it is contiguous, otherwise copied to room.
func cut(begin, room []byte, f *transport.Frame) (_, rest []byte) {
	begin, rest = fill(begin, f.Head[ethertype.EthernetSize:])
	for i, part := range f.Body {
		switch {
		case len(rest) == 0:
			begin, rest = fill(begin, part)
		case len(part) > 0:
			n := copy(room, rest)
			for _, part := range f.Body[i:] {
				n += copy(room[n:], part)
			}
			return begin, room[:n]
		}
	}
	return begin, rest
}

// fill appends to begin the bytes that it lacks of SealedBegin, as far as part has them, and
// returns the rest of part.
func fill(begin, part []byte) (_, rest []byte) {
	n := min(len(part), framing.SealedBegin-len(begin))
	return append(begin, part[:n]...), part[n:]
}

// ready handles a frame in seal whose peer has no session, or one that is worn. It returns the peer
// if the frame can be sent now. Otherwise the frame waits.
func (m *machine) ready(p *peer, f *transport.Frame, dst ethertype.MAC, port uint16, now int64) *peer {
	if dst == m.self || dst == (ethertype.MAC{}) {
		m.count.Crowded.Add(1)
		return nil
	}
	if p == nil {
		if p = m.peers.get(dst, port); p == nil {
			m.count.Crowded.Add(1)
			return nil
		}
	}
	if s := p.current; s != nil && !s.spent(now, &m.opts.Limits) {
		if p.attempt == nil && now-p.rekeyed >= rekeyPause {
			p.rekeyed = now
			m.begin(p, port, now)
		}
		return p
	}
	p.current = nil
	if !m.peers.keep(p, f, now) {
		m.count.Crowded.Add(1)
	}
	if p.attempt == nil && !m.pending(p, now) {
		m.begin(p, port, now)
	}
	m.tickAt(now + graceConfirm)
	return nil
}

// pending reports whether the peer has started a session and may be about to confirm it.
func (m *machine) pending(p *peer, now int64) bool {
	return slices.ContainsFunc(p.sessions, func(s *session) bool { return !s.confirmed && now-s.began < graceConfirm })
}

// tickAt makes tick run at the given time, or earlier.
func (m *machine) tickAt(at int64) { m.next = min(m.next, at) }

// unseal decrypts a sealed frame into room, which is long enough, and returns the frame. room may be
// the frame itself from inPlace on if it belongs to a session: it is then decrypted in place, and
// has undefined contents if it is not genuine. unseal returns nil if the frame was part of a
// handshake, or was dropped and counted.
func (m *machine) unseal(room, frame []byte, now int64) []byte {
	kind, ok := framing.IsSealed(frame)
	switch {
	case !ok:
		m.unsealed(frame, now)
		return nil
	case len(frame) < kind.Least():
		m.count.Malformed.Add(1)
		return nil
	case kind == framing.KindSealed:
		return m.openSession(room, frame, now)
	case kind == framing.KindSealedLong:
		return m.openLong(room, frame, now)
	case kind == framing.KindSealedGroup:
		return m.openGroup(room, frame, now)
	}
	m.control(kind, frame, now)
	return nil
}

// inPlace returns the offset at which the contents of a frame of this kind begin when it is
// decrypted in place. It returns 0 for a kind that cannot be.
func inPlace(kind framing.SealKind) int {
	switch kind {
	case framing.KindSealed:
		return framing.SealedBody - ethertype.EthernetSize
	case framing.KindSealedLong:
		return framing.SealedRest - transport.LongBegin
	}
	return 0
}

// unsealed handles a received frame that is not sealed.
func (m *machine) unsealed(frame []byte, now int64) {
	m.count.Unsealed.Add(1)
	o, ok := framing.ParseOuter(frame)
	if !ok || o.Src.IsGroup() || o.Src == m.self {
		return
	}
	m.note(o.Src, troubleUnsealed, now)
	m.refuse(&o, now)
}

// openSession opens a unicast frame.
func (m *machine) openSession(room, frame []byte, now int64) []byte {
	s, counter := m.sessionOf(frame, now)
	if s == nil {
		return nil
	}
	return m.counted(m.openBegin(s, counter, room, frame, now))
}

// openLong opens a long unicast frame.
func (m *machine) openLong(room, frame []byte, now int64) []byte {
	s, counter := m.sessionOf(frame, now)
	if s == nil || m.openBegin(s, counter, m.first[:], frame[:framing.SealedRest], now) == nil {
		return nil
	}
	rest, ok := s.openRest(room[transport.LongBegin:transport.LongBegin], frame[framing.SealedRest:], counter)
	if !ok {
		m.count.Altered.Add(1)
		return nil
	}
	return m.counted(room[:copy(room, m.first[:])+len(rest)])
}

// counted counts a frame that is passed on, unless it is nil.
func (m *machine) counted(opened []byte) []byte {
	if opened != nil {
		m.count.Opened.Add(1)
	}
	return opened
}

// sessionOf returns the session and the counter of a unicast frame. If the session is unknown, it
// counts the frame and returns nil.
func (m *machine) sessionOf(frame []byte, now int64) (s *session, counter uint64) {
	id, counter := framing.ParseSealed(frame)
	s = m.last
	if s == nil || s.local != id {
		if s = m.byID[id]; s == nil {
			m.count.NoSession.Add(1)
			m.unknown(frame, now)
			return nil, 0
		}
		m.last = s
	}
	if now >= s.end || counter >= maxCounter || s.peer.mac != ethertype.MAC(frame[framing.OffsetSrc:]) ||
		!s.ports.Contains(binary.BigEndian.Uint16(frame[framing.OffsetSrcPort:])) {
		m.count.Foreign.Add(1)
		return nil, 0
	}
	return s, counter
}

// openBegin opens a frame of a session, or the first part of a long one, and returns the contents
// in room. If the frame must be dropped, it counts the frame and returns nil.
func (m *machine) openBegin(s *session, counter uint64, room, frame []byte, now int64) []byte {
	body, ok := s.open(room[ethertype.EthernetSize:ethertype.EthernetSize], frame, counter)
	if !ok {
		m.count.Altered.Add(1)
		return nil
	}
	if !s.seen.recordNew(counter) {
		m.count.Replayed.Add(1)
		return nil
	}
	s.asked = 0
	if !s.confirmed {
		m.confirm(s, now)
	}
	return m.inner(room, frame, len(body))
}

// openGroup opens a broadcast frame.
func (m *machine) openGroup(room, frame []byte, now int64) []byte {
	src := ethertype.MAC(frame[framing.OffsetSrc:])
	if src == m.self || src.IsGroup() {
		m.count.Foreign.Add(1)
		return nil
	}
	for _, k := range m.keys {
		body, ok := m.group.open(k, room[ethertype.EthernetSize:ethertype.EthernetSize], frame)
		if !ok {
			continue
		}
		if !m.group.accept(frame) {
			m.count.Replayed.Add(1)
			return nil
		}
		return m.counted(m.inner(room, frame, len(body)))
	}
	m.count.OtherKey.Add(1)
	m.note(src, troubleOtherKey, now)
	return nil
}

// confirmSize is the length of the first message of a session's initiator if it has no frame to
// send. It is shorter than a header, so no frame has this length.
const confirmSize = 16

// inner writes the Ethernet header of the frame in room, or of the beginning of a long one, of
// which n bytes were decrypted, and returns the frame. It returns nil for a frame that only
// confirms a session, or whose inner and outer ports differ.
func (m *machine) inner(room, frame []byte, n int) []byte {
	if n == confirmSize {
		m.count.Handshake.Add(1)
		return nil
	}
	whole := room[:ethertype.EthernetSize+n]
	if n < ethertype.BaseSize || [4]byte(whole[framing.OffsetDstPort:]) != [4]byte(frame[framing.OffsetDstPort:]) {
		m.count.Malformed.Add(1)
		return nil
	}
	copy(whole, frame[:ethertype.EthernetSize]) // last: it may overlap the outer layout
	return whole
}
