// Package mutant creates invalid frames and messages from valid ones, for tests.
package mutant

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// Offsets of fields of the frame header.
const (
	AtSrcMAC  = 6
	AtVersion = 14
	AtKind    = 15
	AtSrcPort = 20
	AtTag     = 22
	AtSeq     = 26
	AtAck     = 30
	AtMsg     = 34
	AtSize    = 54
	AtCRC     = 58
)

// Frames creates invalid frames from valid ones.
type Frames struct {
	RNG     *rand.Rand
	Right   [][]byte
	Longest int // maximum length of a frame in bytes

	scratch []byte
	parsed  ethertype.Header
}

var zeros [ethertype.HeaderSize]byte

// Mutate returns a changed copy of one of the valid frames, or random bytes. The result is valid
// until the next call.
func (m *Frames) Mutate() []byte {
	f := m.scratch[:0]
	if m.RNG.IntN(8) == 0 {
		for range m.RNG.IntN(200) {
			f = append(f, byte(m.RNG.Uint32()))
		}
	} else {
		f = m.Alter(append(f, m.Right[m.RNG.IntN(len(m.Right))]...))
	}
	m.scratch = f
	return f
}

// Alter changes up to three things in f, and returns it.
func (m *Frames) Alter(f []byte) []byte {
	rng := m.RNG
	for range 1 + rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			f = f[:rng.IntN(len(f)+1)]
		case 1:
			f = append(f, zeros[:rng.IntN(len(zeros))]...)
		case 2: // set a field, or the halves of two fields, to a value near a limit
			if len(f) > ethertype.HeaderSize {
				end := len(f)
				if rng.IntN(2) == 0 {
					end = ethertype.HeaderSize
				}
				edges := []uint32{0, 1, 2, 0x7fffffff, 0x80000000, ^uint32(0), ^uint32(0) - 1, 62, 1452, 4000}
				binary.BigEndian.PutUint32(f[AtVersion+rng.IntN(end-AtVersion-4):], edges[rng.IntN(len(edges))])
			}
		case 3: // increase a sequence or message number slightly
			if len(f) > ethertype.HeaderSize {
				at := []int{AtSeq, AtAck, AtMsg}[rng.IntN(3)]
				binary.BigEndian.PutUint32(f[at:], binary.BigEndian.Uint32(f[at:])+uint32(rng.IntN(40)))
			}
		default:
			if len(f) > 0 {
				f[rng.IntN(len(f))] ^= 1 << rng.IntN(8)
			}
		}
	}
	return f[:min(len(f), m.Longest)]
}

// Wrong is Mutate for frames that fail a check that protects a connection: they have a wrong tag
// and a valid CRC, or an invalid CRC. If fit is not nil, it is applied to the frames first.
func (m *Frames) Wrong(fit func(f []byte) []byte) []byte {
	for {
		f := m.Mutate()
		if fit != nil {
			f = fit(f)
			m.scratch = f
		}
		if Reseal(f); m.RNG.IntN(2) == 0 && len(f) >= AtTag+4 {
			binary.BigEndian.PutUint32(f[AtTag:], m.RNG.Uint32()|1)
			if Reseal(f) && Kind(f) >= ethertype.KindQuery {
				continue // needs no tag
			}
		} else if len(f) >= ethertype.HeaderSize {
			f[AtCRC+m.RNG.IntN(4)] ^= 1 << m.RNG.IntN(8)
		}
		if _, err := m.parsed.Parse(f); err == nil && m.parsed.Kind == ethertype.KindReset {
			continue // this kind carries the other side's tag as proof
		}
		return f
	}
}

// Fit changes f so that it passes the filters of links, as right does. The filters check addresses,
// type, version and the blocks of ports.
func Fit(f, right []byte) []byte {
	if len(f) < ethertype.HeaderSize {
		f = append(f, zeros[len(f):]...)
	}
	copy(f[:ethertype.EthernetSize+1], right)
	Block(f[framing.OffsetDstPort:], right[framing.OffsetDstPort:])
	Block(f[AtSrcPort:], right[AtSrcPort:])
	return f
}

// Block moves port to the block of 1024 ports that contains of.
func Block(port, of []byte) { port[0] = port[0]&3 | of[0]&^3 }

// Kind returns the kind of a frame that has a header.
func Kind(f []byte) ethertype.Kind { return ethertype.Kind(f[AtKind]) }

// Reseal sets the version and the CRC of a changed frame to valid values. It reports false if f is
// too short for a header.
func Reseal(f []byte) bool {
	if len(f) < ethertype.HeaderSize {
		return false
	}
	f[AtVersion] = ethertype.Version
	size := min(int(binary.BigEndian.Uint16(f[AtSize:])), len(f)-ethertype.HeaderSize)
	ethertype.Seal(f[:ethertype.HeaderSize+size])
	return true
}

// Flip changes one to four bits of b.
func Flip(rng *rand.Rand, b []byte) {
	first := rng.IntN(8 * len(b))
	b[first/8] ^= 1 << (first % 8)
	for range rng.IntN(4) {
		if bit := rng.IntN(8 * len(b)); bit != first {
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// Bend changes up to three bits of the first n bytes of b. It returns these bytes, or sometimes a
// different number of bytes of b.
func Bend(rng *rand.Rand, b []byte, n int) []byte {
	for range rng.IntN(4) {
		b[rng.IntN(n)] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(8) == 0 {
		n = rng.IntN(len(b) + 1)
	}
	return b[:n]
}
