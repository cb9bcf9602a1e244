package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// jar creates and verifies cookies. A cookie proves that its sender recently received a frame at
// its address, without stored state at the station that issued it. A cookie consists of a time, and
// a keyed hash over the time, the address and the nonce of the request.
type jar struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// init gives the jar its own secret.
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

// put writes the cookie for a KindSealHello to answer, which is a KindSealCookie.
func (j *jar) put(answer, hello []byte, now int64) {
	cookie := answer[framing.SealCookie:][:framing.SealCookieSize]
	binary.BigEndian.PutUint64(cookie, uint64(now))
	copy(cookie[timeSize:], j.sumOf(hello, now))
}

// proves returns when the cookie in a KindSealInit was created. It returns false if this jar did
// not create it for this address and nonce.
func (j *jar) proves(init []byte) (at int64, ok bool) {
	cookie := init[framing.SealCookie:][:framing.SealCookieSize]
	at = int64(binary.BigEndian.Uint64(cookie))
	return at, hmac.Equal(cookie[timeSize:], j.sumOf(init, at))
}

// sumOf returns the hash in a cookie for the sender of frame. It is valid until the next call.
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
