package vipl

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Anybody can send a request in another's name. So it is answered by a Retry, which is
// shorter, and its sender proves that it is reached at the address that it gives when it
// asks again with the token that comes with that (RFC 9000, section 8.1.2). Until then
// little is believed of it (backlog.go), and nothing of a peer-to-peer one (peer.go).
//
// A token is made of the request and a secret, so that there is nothing to remember.

// tokenMint makes tokens, and knows its own.
type tokenMint struct{ key [32]byte }

func (m *tokenMint) init(r *random) {
	for i := 0; i < len(m.key); i += 8 {
		binary.NativeEndian.PutUint64(m.key[i:], r.uint64())
	}
}

// tokenLife is how long a token holds, at least; at most twice as long.
const tokenLife = 10 * 1000e6 // ns

// token returns the token of a request in a period of time. It is never 0.
func (m *tokenMint) token(h *ethertype.Header, c *connInfo, period int64) uint64 {
	b := make([]byte, 0, 64)
	b = append(append(b, h.Src[:]...), h.Dst[:]...)
	be := binary.BigEndian
	b = be.AppendUint16(be.AppendUint16(b, h.SrcPort), h.DstPort)
	b = be.AppendUint32(be.AppendUint32(b, c.tag), uint32(c.seq))
	b = be.AppendUint64(b, uint64(period))
	sum := hmac.New(sha256.New, m.key[:])
	sum.Write(b)
	return max(binary.BigEndian.Uint64(sum.Sum(b[:0])), 1)
}

// proven reports whether a request has a token of this NIC's.
func (n *NIC) proven(h *ethertype.Header, c *connInfo) bool {
	period := n.now / tokenLife
	return h.Sack != 0 && (h.Sack == n.tokens.token(h, c, period) || h.Sack == n.tokens.token(h, c, period-1))
}

// sendRetry has who sent a request ask again with a token.
func (n *NIC) sendRetry(h *ethertype.Header, c *connInfo) {
	token := n.tokens.token(h, c, n.now/tokenLife)
	n.sendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindRetry, DstPort: h.SrcPort, SrcPort: h.DstPort, Tag: c.tag, Ack: c.seq, Sack: token})
}
