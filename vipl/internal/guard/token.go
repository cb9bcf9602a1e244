package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Mint creates tokens and recognizes its own.
//
// Any station can send a request with a forged address. So the NIC answers a request with a Retry,
// which is shorter. The sender proves that it can be reached at its address when it repeats the
// request with the Retry's token (RFC 9000, section 8.1.2). A token is computed from the request
// and a secret, so the NIC stores nothing.
type Mint struct{ key [32]byte }

// Init generates the secret.
func (m *Mint) Init(r *Random) {
	for i := 0; i < len(m.key); i += 8 {
		binary.NativeEndian.PutUint64(m.key[i:], r.Uint64())
	}
}

// Identity distinguishes a request from others with the same addresses and ports: the requester's
// tag and first sequence number.
type Identity struct {
	Tag uint32
	Seq ethertype.Seq
}

// tokenLife is the minimum lifetime of a token; the maximum is twice as long.
const tokenLife = 10 * 1000e6 // ns

// Token returns the token of the request with header h, at a time in ns. It is never 0.
func (m *Mint) Token(h *ethertype.Header, id Identity, now int64) uint64 {
	return m.token(h, id, now/tokenLife)
}

func (m *Mint) token(h *ethertype.Header, id Identity, period int64) uint64 {
	b := make([]byte, 0, 64)
	b = append(append(b, h.Src[:]...), h.Dst[:]...)
	be := binary.BigEndian
	b = be.AppendUint16(be.AppendUint16(b, h.SrcPort), h.DstPort)
	b = be.AppendUint32(be.AppendUint32(b, id.Tag), uint32(id.Seq))
	b = be.AppendUint64(b, uint64(period))
	sum := hmac.New(sha256.New, m.key[:])
	sum.Write(b)
	return max(binary.BigEndian.Uint64(sum.Sum(b[:0])), 1)
}

// Proven reports whether the request with header h carries a token of this mint.
func (m *Mint) Proven(h *ethertype.Header, id Identity, now int64) bool {
	period := now / tokenLife
	return h.Sack != 0 && (h.Sack == m.token(h, id, period) || h.Sack == m.token(h, id, period-1))
}
