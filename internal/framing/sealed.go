package framing

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Sealed frames stand for frames that somebody without the segment's key must not read,
// change or make (package transport/seal). They have the EtherType and the outer layout of
// the frames that they stand for, so that links and the kernel's filters pass them alike;
// only the kind differs. What follows the outer layout is, by kind:
//
//	sealed          4 session, 8 counter, then the inner frame from its version on, encrypted, and a tag of 16
//	sealed-group   16 salt, 8 counter, then the same
//	sealed-long     4 session, 8 counter, then 114 bytes of the inner frame, encrypted, and a tag of 16, then the rest, encrypted, and a tag
//	seal-hello     16 nonce, 24 zero, 16 check
//	seal-cookie    16 nonce of the hello, 24 cookie, 16 check
//	seal-init      16 nonce, 24 cookie, 64 first message of Noise NNpsk0, 16 check
//	seal-reply      4 session of the init's sender, 64 second message, 16 check
//	seal-unknown    4 session, 8 counter of a frame that its receiver has no session for, 16 check
//	seal-refused   12 zero, 16 check
//
// Numbers are in network byte order. The tag covers all that precedes it, in clear or not,
// but that of the rest only the rest, and the check all that precedes it. The version is 1 as in all frames, and the flags are 0.

// SealKind says what a sealed frame is for.
type SealKind uint8

// The kinds. They are none of a Header nor of the fabric, nor the other way round.
const (
	KindSealed      SealKind = 0x40 + iota // a frame between two stations, in a session
	KindSealedGroup                        // a frame to all stations, or to all of a host
	KindSealHello                          // I want a session with you
	KindSealCookie                         // then begin, and say this with it
	KindSealInit                           // first message of the handshake
	KindSealReply                          // second message: the session is there
	KindSealUnknown                        // I have no such session: begin another
	KindSealRefused                        // I cannot open what you sent: you have another key, or none
	KindSealedLong                         // a KindSealed of a frame that is longer than the MTU, in two parts
	sealEnd
)

// The field tables of sealed frames, behind the outer layout.
const (
	SealedSession = OuterSize // of a KindSealed, KindSealReply, KindSealUnknown: number that the receiver has given the session
	SealedCounter = 26
	SealedBody    = 34
	SealedRest    = SealedBody + SealedBegin + SealTagSize // of a KindSealedLong: the second part

	SealedGroupNonce = OuterSize // salt and counter
	SealedGroupBody  = SealedGroupNonce + 24

	SealNonce   = OuterSize // of a KindSealHello, KindSealCookie, KindSealInit
	SealCookie  = SealNonce + SealNonceSize
	SealMessage = SealCookie + SealCookieSize // of a KindSealInit
	SealAnswer  = SealedSession + 4           // of a KindSealReply
)

// Sizes of parts of sealed frames, in bytes.
const (
	SealTagSize     = 16
	SealedBegin     = 114 // of the first part of a KindSealedLong
	SealCheckSize   = 16
	SealNonceSize   = 16
	SealCookieSize  = 24
	SealMessageSize = 64
	SealOverhead    = SealedBody + SealTagSize - ethertype.EthernetSize // by which a KindSealed is longer than what it stands for
	SealGroupMore   = SealedGroupBody - SealedBody                      // by which a KindSealedGroup is longer than a KindSealed
	SealLongMore    = SealTagSize                                       // by which a KindSealedLong is longer than a KindSealed
	sealHelloSize   = SealMessage + SealCheckSize                       // of a KindSealHello and KindSealCookie
	sealInitSize    = SealMessage + SealMessageSize + SealCheckSize     // of a KindSealInit
	sealReplySize   = SealAnswer + SealMessageSize + SealCheckSize      // of a KindSealReply
	sealNoticeSize  = SealedBody + SealCheckSize                        // of a KindSealUnknown and KindSealRefused; Ethernet pads them
)

// IsSealed reports whether frame is a sealed one by its kind, intact or not, and which.
func IsSealed(frame []byte) (kind SealKind, ok bool) {
	if len(frame) < OuterSize || frame[OffsetVersion] != ethertype.Version {
		return 0, false
	}
	kind = SealKind(frame[OffsetKind])
	return kind, kind >= KindSealed && kind < sealEnd
}

// Least returns how many bytes a frame of kind k has at least, 0 for a kind that there
// is not.
func (k SealKind) Least() int {
	switch k {
	case KindSealed:
		return SealedBody + SealTagSize
	case KindSealedGroup:
		return SealedGroupBody + SealTagSize
	case KindSealedLong:
		return SealedRest + SealTagSize
	case KindSealHello, KindSealCookie:
		return sealHelloSize
	case KindSealInit:
		return sealInitSize
	case KindSealReply:
		return sealReplySize
	case KindSealUnknown, KindSealRefused:
		return sealNoticeSize
	}
	return 0
}

// PutSealed writes what precedes the encrypted part of a KindSealed or KindSealedLong to the
// first SealedBody bytes of b: the outer layout of frame, which it stands for, with the kind
// and flags of a sealed one, and the session and the counter.
func PutSealed(b, frame []byte, kind SealKind, session uint32, counter uint64) {
	b = b[:SealedBody:SealedBody]
	putSealOuter(b, frame, kind)
	binary.BigEndian.PutUint32(b[SealedSession:], session)
	binary.BigEndian.PutUint64(b[SealedCounter:], counter)
}

// PutSealedGroup writes what precedes the encrypted part of a KindSealedGroup to the first
// SealedGroupBody bytes of b, but for the nonce.
func PutSealedGroup(b, frame []byte) {
	b = b[:SealedGroupBody:SealedGroupBody]
	putSealOuter(b, frame, KindSealedGroup)
}

// putSealOuter writes frame's outer layout with another kind.
func putSealOuter(b, frame []byte, kind SealKind) {
	copy(b[:OuterSize], frame[:OuterSize])
	b[OffsetKind] = uint8(kind)
	binary.BigEndian.PutUint16(b[OffsetFlags:], 0)
}

// ParseSealed returns session and counter of a KindSealed, KindSealedLong or KindSealUnknown, which has at
// least SealedBody bytes.
func ParseSealed(frame []byte) (session uint32, counter uint64) {
	b := frame[:SealedBody:SealedBody]
	return binary.BigEndian.Uint32(b[SealedSession:]), binary.BigEndian.Uint64(b[SealedCounter:])
}

var sealNames = [sealEnd - KindSealed]string{
	"sealed", "sealed-group", "seal-hello", "seal-cookie", "seal-init", "seal-reply", "seal-unknown", "seal-refused", "sealed-long",
}

// String returns the kind's name, as in "seal-init"; "kind-77" for a kind that there is
// not.
func (k SealKind) String() string {
	if k < KindSealed || k >= sealEnd {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return sealNames[k-KindSealed]
}

// dumpSealed is Dump of a sealed frame:
//
//	02:00:00:00:00:01/5 > 02:00:00:00:00:02/9 sealed session 0x1f2e3d4c counter 7 of 114 bytes
func dumpSealed(frame []byte, kind SealKind) string {
	o, _ := ParseOuter(frame)
	s := fmt.Sprintf("%s > %s %s", ethertype.Addr{MAC: o.Src, Port: o.SrcPort}, ethertype.Addr{MAC: o.Dst, Port: o.DstPort}, kind)
	if o.Type != ethertype.Default {
		s += fmt.Sprintf(" type %#04x", uint16(o.Type))
	}
	if len(frame) < kind.Least() {
		return fmt.Sprintf("%s malformed: %d bytes, want at least %d", s, len(frame), kind.Least())
	}
	switch kind {
	case KindSealed, KindSealedLong, KindSealUnknown:
		session, counter := ParseSealed(frame)
		s += fmt.Sprintf(" session %#x counter %d", session, counter)
	case KindSealedGroup:
		s += fmt.Sprintf(" salt %x counter %d", frame[SealedGroupNonce:SealedGroupNonce+4], binary.BigEndian.Uint64(frame[SealedGroupBody-8:]))
	case KindSealReply:
		s += fmt.Sprintf(" session %#x", binary.BigEndian.Uint32(frame[SealedSession:]))
	case KindSealHello, KindSealCookie, KindSealInit:
		s += fmt.Sprintf(" nonce %x", frame[SealNonce:SealNonce+4])
	}
	return s + fmt.Sprintf(" of %d bytes", len(frame))
}
