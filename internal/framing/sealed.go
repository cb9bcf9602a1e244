package framing

import (
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Sealed frames replace frames that only holders of the segment's key may read, change or make
// (package transport/seal). They have the EtherType and outer layout of the frames that they
// replace, so links and the kernel's filters pass both alike; only the kind differs. The rest
// depends on the kind:
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
// Numbers are in network byte order. A tag covers everything before it, encrypted or not. The
// second tag of a sealed-long covers only the rest. The check covers everything before it. The
// version is 1 as in all frames, and the flags are 0.

// SealKind is the purpose of a sealed frame.
type SealKind uint8

// The kinds. Their values do not overlap with those of ethertype.Kind and FabricKind.
const (
	KindSealed      SealKind = 0x40 + iota // a frame between two stations, in a session
	KindSealedGroup                        // a frame to all stations, or to all programs of a host
	KindSealHello                          // requests a session
	KindSealCookie                         // answers a hello: the handshake must carry this cookie
	KindSealInit                           // first message of the handshake
	KindSealReply                          // second message: the session exists
	KindSealUnknown                        // the receiver has no such session: begin another
	KindSealRefused                        // the receiver cannot open the frame: it has another key, or none
	KindSealedLong                         // a KindSealed of a frame that is longer than the MTU, in two parts
	sealEnd
)

// Field offsets of sealed frames, after the outer layout.
const (
	SealedSession = OuterSize // of a KindSealed, KindSealReply, KindSealUnknown: the receiver's number for the session
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
	SealedBegin     = 114 // bytes in the first part of a KindSealedLong
	SealCheckSize   = 16
	SealNonceSize   = 16
	SealCookieSize  = 24
	SealMessageSize = 64
	SealOverhead    = SealedBody + SealTagSize - ethertype.EthernetSize // bytes that a KindSealed is longer than the frame in it
	SealGroupMore   = SealedGroupBody - SealedBody                      // bytes that a KindSealedGroup is longer than a KindSealed
	SealLongMore    = SealTagSize                                       // bytes that a KindSealedLong is longer than a KindSealed
	sealHelloSize   = SealMessage + SealCheckSize                       // of a KindSealHello and KindSealCookie
	sealInitSize    = SealMessage + SealMessageSize + SealCheckSize     // of a KindSealInit
	sealReplySize   = SealAnswer + SealMessageSize + SealCheckSize      // of a KindSealReply
	sealNoticeSize  = SealedBody + SealCheckSize                        // of a KindSealUnknown and KindSealRefused; Ethernet pads them
)

// IsSealed reports whether frame has the kind of a sealed frame, and returns the kind. It does not
// check that the frame is intact.
func IsSealed(frame []byte) (kind SealKind, ok bool) {
	if len(frame) < OuterSize || frame[OffsetVersion] != ethertype.Version {
		return 0, false
	}
	kind = SealKind(frame[OffsetKind])
	return kind, kind >= KindSealed && kind < sealEnd
}

// Least returns the minimum size in bytes of a frame of kind k, or 0 for an unknown kind.
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

// PutSealed writes the part of a KindSealed or KindSealedLong that precedes the encrypted part to
// the first SealedBody bytes of b: the outer layout of frame with the given kind and no flags, the
// session and the counter. frame is the frame to seal.
func PutSealed(b, frame []byte, kind SealKind, session uint32, counter uint64) {
	b = b[:SealedBody:SealedBody]
	putSealOuter(b, frame, kind)
	binary.BigEndian.PutUint32(b[SealedSession:], session)
	binary.BigEndian.PutUint64(b[SealedCounter:], counter)
}

// PutSealedGroup writes the outer layout of a KindSealedGroup to b, which has at least
// SealedGroupBody bytes. The caller adds the nonce.
func PutSealedGroup(b, frame []byte) {
	b = b[:SealedGroupBody:SealedGroupBody]
	putSealOuter(b, frame, KindSealedGroup)
}

// putSealOuter writes frame's outer layout with another kind and no flags.
func putSealOuter(b, frame []byte, kind SealKind) {
	copy(b[:OuterSize], frame[:OuterSize])
	b[OffsetKind] = uint8(kind)
	binary.BigEndian.PutUint16(b[OffsetFlags:], 0)
}

// ParseSealed returns session and counter of a KindSealed, KindSealedLong or KindSealUnknown. frame
// must have at least SealedBody bytes.
func ParseSealed(frame []byte) (session uint32, counter uint64) {
	b := frame[:SealedBody:SealedBody]
	return binary.BigEndian.Uint32(b[SealedSession:]), binary.BigEndian.Uint64(b[SealedCounter:])
}

var sealNames = [sealEnd - KindSealed]string{
	"sealed", "sealed-group", "seal-hello", "seal-cookie", "seal-init", "seal-reply", "seal-unknown", "seal-refused", "sealed-long",
}

// String returns the kind's name, such as "seal-init", or "kind-77" for an unknown kind.
func (k SealKind) String() string {
	if k < KindSealed || k >= sealEnd {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return sealNames[k-KindSealed]
}

// dumpSealed implements Dump for a sealed frame:
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
