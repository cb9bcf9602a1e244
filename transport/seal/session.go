package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/crypto/chacha20poly1305"
)

// maxCounter is above every counter that a session uses or takes.
const maxCounter = uint64(1) << 62

// A suite is a way of encrypting frames that both ends of a session use. The numbers are
// bits of what the handshake says.
type suite uint8

const (
	suiteAES    suite = 1 << iota // AES-128-GCM
	suiteChaCha                   // ChaCha20-Poly1305
	suitesAll   = suiteAES | suiteChaCha
)

// String returns the suite's name.
func (s suite) String() string {
	if s == suiteAES {
		return "AES-128-GCM"
	}
	return "ChaCha20-Poly1305"
}

// aead returns the suite's cipher under what is derived from a key of the handshake. 128
// bits are as strong as the handshake's curve, and faster than 256.
func (s suite) aead(key []byte) cipher.AEAD {
	if s == suiteAES {
		block, err := aes.NewCipher(expand(key, labelAES, 16))
		if err != nil {
			panic(err) // the size is right
		}
		a, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // the block's size is right
		}
		return a
	}
	a, err := chacha20poly1305.New(expand(key, labelChaCha, chacha20poly1305.KeySize))
	if err != nil {
		panic(err) // the size is right
	}
	return a
}

// session is what a handshake has made between two stations: a key for each direction, and
// what has been used of them.
type session struct {
	peer      *peer
	from      *secrets // of the key under which the handshake was
	suite     suite
	local     uint32              // its number here, in the frames that arrive
	remote    uint32              // its number there
	ports     transport.PortRange // the peer's
	send      cipher.AEAD
	receive   cipher.AEAD
	confirmed bool // the peer has proven that it has the keys
	initiator bool
	began     int64
	end       int64  // when it is forgotten
	counter   uint64 // of the next frame
	octets    uint64 // sent
	asked     int64  // when the first frame was sent since one was opened; 0 if none was
	seen      window
	nonce     [12]byte // for one call
}

// seal appends to dst, which has room for it, the sealed form of the frame whose bytes
// follow the SealedBody bytes at the start of dst from their version on.
//
//	dst before: [ SealedBody bytes of room | frame from its version on ]
//	dst after:  [ outer layout, session, counter | encrypted | tag ]
func (s *session) seal(dst, outer []byte) []byte {
	framing.PutSealed(dst, outer, framing.KindSealed, s.remote, s.counter)
	head, body := dst[:framing.SealedBody], dst[framing.SealedBody:]
	out := s.send.Seal(body[:0], s.nonceOf(0, s.counter), body, head)
	s.counter++
	s.octets += uint64(len(body))
	return dst[:framing.SealedBody+len(out)]
}

// open appends to dst the decrypted part of frame, which is one of this session. It
// reports false if the frame is not the peer's, or has been changed.
func (s *session) open(dst, frame []byte, counter uint64) ([]byte, bool) {
	out, err := s.receive.Open(dst, s.nonceOf(0, counter), frame[framing.SealedBody:], frame[:framing.SealedBody])
	return out, err == nil
}

// sealLong puts the sealed form of a long frame into dst, which is long enough, and returns it. rest is
// the frame without the first transport.LongBegin bytes, which begin has from the version on; it may be anywhere, or
// lie in dst from framing.SealedRest on.
//
//	dst after: [ outer layout, session, counter | begin, encrypted | tag | rest, encrypted | tag ]
func (s *session) sealLong(dst, outer, begin, rest []byte) []byte {
	framing.PutSealed(dst, outer, framing.KindSealedLong, s.remote, s.counter)
	s.send.Seal(dst[framing.SealedBody:framing.SealedBody], s.nonceOf(0, s.counter), begin, dst[:framing.SealedBody])
	out := s.send.Seal(dst[framing.SealedRest:framing.SealedRest], s.nonceOf(1, s.counter), rest, nil)
	s.counter++
	s.octets += uint64(len(begin) + len(rest))
	return dst[:framing.SealedRest+len(out)]
}

// openRest appends to dst what the second part of a long frame is, decrypted. It reports false if
// that part is not the peer's, or has been changed, or is of another frame than the first part; what
// it would have appended is then zeros, behind dst.
func (s *session) openRest(dst, sealed []byte, counter uint64) ([]byte, bool) {
	out, err := s.receive.Open(dst, s.nonceOf(1, counter), sealed, nil)
	return out, err == nil
}

// nonceOf returns the nonce of a part of the frame with a counter.
func (s *session) nonceOf(part byte, counter uint64) []byte {
	s.nonce[3] = part
	binary.BigEndian.PutUint64(s.nonce[4:], counter)
	return s.nonce[:]
}

// worn reports whether the session should be replaced by another: because it has been used
// enough, or because the peer, which may have been restarted, has not been heard in it.
func (s *session) worn(now int64, o *Options) bool {
	l := &o.Limits
	return s.counter >= l.Frames || s.octets >= l.Bytes || now-s.began >= int64(l.Age) || s.asked != 0 && now-s.asked >= o.silence
}

// spent reports whether nothing may be sent in the session any more.
func (s *session) spent(now int64, l *Limits) bool {
	return s.counter >= 2*l.Frames || s.octets >= 2*l.Bytes || now-s.began >= 2*int64(l.Age)
}
