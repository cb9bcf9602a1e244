package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/crypto/chacha20poly1305"
)

// maxCounter is above every counter that a session sends or accepts.
const maxCounter = uint64(1) << 62

// A suite is an encryption method that both ends of a session use. The numbers are bits of a field
// in the handshake.
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

// aead returns the suite's cipher with a key derived from key, a key of the handshake. 128 bits are
// as strong as the handshake's curve, and faster than 256.
func (s suite) aead(key []byte) cipher.AEAD {
	if s == suiteAES {
		block, err := aes.NewCipher(expand(key, labelAES, 16))
		if err != nil {
			panic(err) // the size is valid
		}
		a, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // the block size is valid
		}
		return a
	}
	a, err := chacha20poly1305.New(expand(key, labelChaCha, chacha20poly1305.KeySize))
	if err != nil {
		panic(err) // the size is valid
	}
	return a
}

// session is the result of a handshake between two stations: a key for each direction, and how much
// each has been used.
type session struct {
	peer      *peer
	from      *secrets // secrets of the key that authenticated the handshake
	suite     suite
	local     uint32              // this station's number, in the frames that arrive
	remote    uint32              // the peer's number
	ports     transport.PortRange // the peer's
	send      cipher.AEAD
	receive   cipher.AEAD
	confirmed bool // the peer has proven that it has the keys
	initiator bool
	began     int64
	end       int64  // when it is deleted
	counter   uint64 // of the next frame
	bytes     uint64 // bytes sent
	asked     int64  // when the first frame was sent after the last one was received; 0 if none was
	seen      window
	nonce     [12]byte // scratch space of one call
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
	s.bytes += uint64(len(body))
	return dst[:framing.SealedBody+len(out)]
}

// open appends the decrypted part of frame, which belongs to this session, to dst. It returns false
// if the frame is forged or damaged.
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
	s.bytes += uint64(len(begin) + len(rest))
	return dst[:framing.SealedRest+len(out)]
}

// openRest decrypts the second part of a long frame and appends it to dst. It returns false if that
// part is forged, damaged, or belongs to another frame than the first part. In this case it
// overwrites the destination with zeros.
func (s *session) openRest(dst, sealed []byte, counter uint64) ([]byte, bool) {
	out, err := s.receive.Open(dst, s.nonceOf(1, counter), sealed, nil)
	return out, err == nil
}

// nonceOf returns the nonce of a part of the frame with the given counter.
func (s *session) nonceOf(part byte, counter uint64) []byte {
	s.nonce[3] = part
	binary.BigEndian.PutUint64(s.nonce[4:], counter)
	return s.nonce[:]
}

// worn reports whether the session should be replaced: it is near its limits, or the peer, which
// may have restarted, has been silent.
func (s *session) worn(now int64, o *Options) bool {
	l := &o.Limits
	return s.counter >= l.Frames || s.bytes >= l.Bytes || now-s.began >= int64(l.Age) || s.asked != 0 && now-s.asked >= o.silence
}

// spent reports whether nothing more may be sent in the session.
func (s *session) spent(now int64, l *Limits) bool {
	return s.counter >= 2*l.Frames || s.bytes >= 2*l.Bytes || now-s.began >= 2*int64(l.Age)
}
