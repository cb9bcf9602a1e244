package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
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
	ethertype.PutSealed(dst, outer, s.remote, s.counter)
	head, body := dst[:ethertype.SealedBody], dst[ethertype.SealedBody:]
	binary.BigEndian.PutUint64(s.nonce[4:], s.counter)
	s.counter++
	s.octets += uint64(len(body))
	out := s.send.Seal(body[:0], s.nonce[:], body, head)
	return dst[:ethertype.SealedBody+len(out)]
}

// open appends to dst the decrypted part of frame, which is one of this session. It
// reports false if the frame is not the peer's, or has been changed.
func (s *session) open(dst, frame []byte, counter uint64) ([]byte, bool) {
	binary.BigEndian.PutUint64(s.nonce[4:], counter)
	out, err := s.receive.Open(dst, s.nonce[:], frame[ethertype.SealedBody:], frame[:ethertype.SealedBody])
	return out, err == nil
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
