package seal

import (
	"encoding/binary"
	"io"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// saltSize is the length of the salt in the nonce of a broadcast frame. The rest of the nonce is
// the counter.
const saltSize = 16

// group seals and opens broadcast frames, to all stations or to all programs of a host. Their
// receivers are not known, so their key derives from the common key alone. A nonce consists of a
// counter, and of a salt that is random in each incarnation of a station.
type group struct {
	salt    [saltSize]byte
	counter uint64
	nonce   [framing.SealedGroupBody - framing.SealedGroupNonce]byte
	heard   map[[saltSize]byte]*groupWindow
	oldest  []*groupWindow // by first appearance
}

// groupWindow records which of the last 64 counters of a salt have been seen.
type groupWindow struct {
	salt [saltSize]byte
	next uint64
	seen uint64 // bit i: counter next-1-i was seen
}

func (g *group) init(random io.Reader) error {
	g.heard = map[[saltSize]byte]*groupWindow{}
	_, err := io.ReadFull(random, g.salt[:])
	return err
}

// seal is session.seal for a broadcast frame. dst begins with SealedGroupBody bytes of room.
func (g *group) seal(s *secrets, dst, outer []byte) []byte {
	framing.PutSealedGroup(dst, outer)
	nonce := dst[framing.SealedGroupNonce:framing.SealedGroupBody]
	copy(nonce, g.salt[:])
	binary.BigEndian.PutUint64(nonce[saltSize:], g.counter)
	g.counter++
	copy(g.nonce[:], nonce)
	head, body := dst[:framing.SealedGroupBody], dst[framing.SealedGroupBody:]
	out := s.group.Seal(body[:0], g.nonce[:], body, head)
	return dst[:framing.SealedGroupBody+len(out)]
}

// open appends to dst the decrypted part of frame, a KindSealedGroup.
func (g *group) open(s *secrets, dst, frame []byte) ([]byte, bool) {
	copy(g.nonce[:], frame[framing.SealedGroupNonce:])
	out, err := s.group.Open(dst, g.nonce[:], frame[framing.SealedGroupBody:], frame[:framing.SealedGroupBody])
	return out, err == nil
}

// accept reports whether a frame with a valid tag is new, and records its counter.
func (g *group) accept(frame []byte) bool {
	salt := [saltSize]byte(frame[framing.SealedGroupNonce:])
	n := binary.BigEndian.Uint64(frame[framing.SealedGroupNonce+saltSize:])
	if salt == g.salt || n >= maxCounter {
		return false
	}
	w := g.heard[salt]
	if w == nil {
		w = g.add(salt)
	}
	switch {
	case n >= w.next:
		w.seen = w.seen<<min(n+1-w.next, 64) | 1
		w.next = n + 1
		return true
	case w.next-1-n >= 64 || w.seen&(1<<(w.next-1-n)) != 0:
		return false
	}
	w.seen |= 1 << (w.next - 1 - n)
	return true
}

// add creates the window of a salt. If there are too many windows, it drops the oldest.
func (g *group) add(salt [saltSize]byte) *groupWindow {
	if len(g.oldest) >= maxGroups {
		delete(g.heard, g.oldest[0].salt)
		g.oldest[0] = nil
		g.oldest = g.oldest[1:]
	}
	w := &groupWindow{salt: salt}
	g.heard[salt] = w
	g.oldest = append(g.oldest, w)
	return w
}
