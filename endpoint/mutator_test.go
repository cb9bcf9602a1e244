package endpoint_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Where the fields of a frame's header stand that mutants are changed in.
const (
	atSrcMAC  = 6
	atKind    = 15
	atSrcPort = 20
	atTag     = 22
	atSeq     = 26
	atAck     = 30
	atMsg     = 34
	atSize    = 54
	atCRC     = 58
)

// mutator makes wrong frames from right ones.
type mutator struct {
	rng     *rand.Rand
	right   [][]byte
	longest int // bytes that a frame may have
	scratch []byte
	parsed  ethertype.Header
}

var zeros [ethertype.HeaderSize]byte

// wrong returns a frame that is wrong for what protects a connection, its tag or
// the CRC, and right as far as the filters of links look. It is valid until the
// next call.
func (m *mutator) wrong() []byte {
	for {
		f := m.alter(append(m.scratch[:0], m.right[m.rng.IntN(len(m.right))]...))
		if m.rng.IntN(8) == 0 {
			f = m.noise(f[:0])
		}
		f = fit(f, m.right[0])
		m.scratch = f
		reseal(f)
		if m.rng.IntN(2) == 0 {
			binary.BigEndian.PutUint32(f[atTag:], m.rng.Uint32()|1)
			if reseal(f); f[atKind] >= byte(ethertype.KindQuery) {
				continue // needs no tag
			}
		} else {
			f[atCRC+m.rng.IntN(4)] ^= 1 << m.rng.IntN(8)
		}
		if _, err := m.parsed.Parse(f); err == nil && m.parsed.Kind == ethertype.KindReset {
			continue // proves itself by the other side's tag
		}
		return f
	}
}

func (m *mutator) noise(f []byte) []byte {
	for range m.rng.IntN(200) {
		f = append(f, byte(m.rng.Uint32()))
	}
	return f
}

// alter changes a frame in up to three places.
func (m *mutator) alter(f []byte) []byte {
	rng := m.rng
	for range 1 + rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			f = f[:rng.IntN(len(f)+1)]
		case 1:
			f = append(f, zeros[:rng.IntN(len(zeros))]...)
		case 2: // a field, or two halves of some, to a value near an edge
			if len(f) > ethertype.HeaderSize {
				edges := []uint32{0, 1, 2, 0x7fffffff, 0x80000000, ^uint32(0), ^uint32(0) - 1, 62, 1452, 4000}
				binary.BigEndian.PutUint32(f[ethertype.EthernetSize+rng.IntN(len(f)-ethertype.EthernetSize-4):], edges[rng.IntN(len(edges))])
			}
		case 3: // a number a little further
			if len(f) > ethertype.HeaderSize {
				at := []int{atSeq, atAck, atMsg}[rng.IntN(3)]
				binary.BigEndian.PutUint32(f[at:], binary.BigEndian.Uint32(f[at:])+uint32(rng.IntN(40)))
			}
		default:
			if len(f) > 0 {
				f[rng.IntN(len(f))] ^= 1 << rng.IntN(8)
			}
		}
	}
	return f[:min(len(f), m.longest)]
}

// fit makes f pass the filters of links, which look at addresses, type, version
// and the blocks of ports, as right does.
func fit(f, right []byte) []byte {
	if len(f) < ethertype.HeaderSize {
		f = append(f, zeros[len(f):]...)
	}
	copy(f[:ethertype.EthernetSize+1], right)
	block(f[framing.OffsetDstPort:], right[framing.OffsetDstPort:])
	block(f[atSrcPort:], right[atSrcPort:])
	return f
}

// block gives a port another's block of 1024.
func block(port, of []byte) { port[0] = port[0]&3 | of[0]&^3 }

// reseal makes the CRC of a changed frame right.
func reseal(f []byte) {
	size := min(int(binary.BigEndian.Uint16(f[atSize:])), len(f)-ethertype.HeaderSize)
	ethertype.Seal(f[:ethertype.HeaderSize+size])
}
