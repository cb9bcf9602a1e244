package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// jar makes cookies and knows its own. A cookie proves that who shows it has received what
// was sent to its address a moment ago, and costs no memory at who gave it. It is the time,
// and a keyed hash of that, of the address, and of the nonce that was asked with.
type jar struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// init gives the jar a secret of its own.
func (j *jar) init(random io.Reader) error {
	var secret [sha256.Size]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return err
	}
	j.mac = hmac.New(sha256.New, secret[:])
	return nil
}

// timeSize is the length of the time in a cookie.
const timeSize = 8

// put writes the cookie for a KindSealHello to answer, a KindSealCookie.
func (j *jar) put(answer, hello []byte, now int64) {
	cookie := answer[framing.SealCookie:][:framing.SealCookieSize]
	binary.BigEndian.PutUint64(cookie, uint64(now))
	copy(cookie[timeSize:], j.sumOf(hello, now))
}

// proves returns when the cookie that a KindSealInit shows was made. It reports false if
// it was not made here, for this address and nonce.
func (j *jar) proves(init []byte) (at int64, ok bool) {
	cookie := init[framing.SealCookie:][:framing.SealCookieSize]
	at = int64(binary.BigEndian.Uint64(cookie))
	return at, hmac.Equal(cookie[timeSize:], j.sumOf(init, at))
}

// sumOf returns the hash in a cookie for the sender of frame, valid until the next call.
func (j *jar) sumOf(frame []byte, at int64) []byte {
	j.mac.Reset()
	j.mac.Write(frame[framing.OffsetDst:framing.OffsetType])
	j.mac.Write(frame[framing.OffsetDstPort:framing.OuterSize])
	j.mac.Write(frame[framing.SealNonce:][:framing.SealNonceSize])
	var t [timeSize]byte
	binary.BigEndian.PutUint64(t[:], uint64(at))
	j.mac.Write(t[:])
	return j.mac.Sum(j.sum[:0])[:framing.SealCookieSize-timeSize]
}
