package vipl_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/ethertype"
)

// mutator makes wrong frames from right ones.
type mutator struct {
	rng      *rand.Rand
	captured [][]byte // the right ones
	longest  int      // bytes that a frame may have
	scratch  []byte
	parsed   ethertype.Header
}

var zeros [ethertype.HeaderSize]byte

func newMutator(seed uint64, mtu int) mutator {
	return mutator{rng: rand.New(rand.NewPCG(seed, 9)), longest: mtu + ethertype.EthernetSize}
}

// control adds to the captured frames, of which there are some of a connection, one of
// each kind that has no sequence number, with the connection's tag.
func (m *mutator) control() {
	h := &m.parsed
	if _, err := h.Parse(m.captured[0]); err != nil {
		panic(err)
	}
	for k := ethertype.KindAck; k <= ethertype.KindEchoReply; k++ {
		h.Kind, h.Flags, h.Size, h.Count, h.Length, h.Offset = k, ethertype.FlagWholeCRC, 64, 0, 0, 0
		f := make([]byte, ethertype.HeaderSize+64)
		h.Put(f)
		ethertype.Seal(f)
		m.captured = append(m.captured, f)
	}
}

// unshared returns the frames that share an Ethernet frame, each as it is alone.
func unshared(frame []byte) (frames [][]byte) {
	for frame != nil {
		var h ethertype.Header
		payload, err := h.Parse(frame)
		if err != nil {
			return append(frames, bytes.Clone(frame))
		}
		f := bytes.Clone(frame[:ethertype.HeaderSize+len(payload)])
		frame = h.Next(frame)
		h.Flags &^= ethertype.FlagMore
		h.Put(f)
		ethertype.Seal(f)
		frames = append(frames, f)
	}
	return frames
}

// mutate returns a captured frame, changed, or plain noise. It is valid until
// the next call.
func (m *mutator) mutate() []byte {
	rng := m.rng
	if rng.IntN(8) == 0 {
		m.scratch = m.scratch[:0]
		for range rng.IntN(200) {
			m.scratch = append(m.scratch, byte(rng.Uint32()))
		}
		return m.scratch
	}
	f := append(m.scratch[:0], m.captured[rng.IntN(len(m.captured))]...)
	m.scratch = f
	for range 1 + rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			f = f[:rng.IntN(len(f)+1)]
		case 1:
			f = append(f, zeros[:rng.IntN(len(zeros))]...)
		case 2: // a field of the header, to a value near an edge
			if len(f) > ethertype.HeaderSize {
				edges := []uint32{0, 1, 2, 0x7fffffff, 0x80000000, ^uint32(0), ^uint32(0) - 1, 62, 1452, 4000}
				binary.BigEndian.PutUint32(f[12+rng.IntN(46):], edges[rng.IntN(len(edges))])
			}
		case 3: // a sequence or message number a little further
			if len(f) > ethertype.HeaderSize {
				at := []int{26, 30, 34}[rng.IntN(3)]
				binary.BigEndian.PutUint32(f[at:], binary.BigEndian.Uint32(f[at:])+uint32(rng.IntN(40)))
			}
		default:
			if len(f) > 0 {
				f[rng.IntN(len(f))] ^= 1 << rng.IntN(8)
			}
		}
		if len(f) < 15 {
			break
		}
	}
	return f[:min(len(f), m.longest)]
}

// wrong returns a frame that is wrong for what protects a connection: one with
// another tag and a right CRC, or with a wrong CRC.
func (m *mutator) wrong() []byte {
	for {
		f := m.mutate()
		if reseal(f); m.rng.IntN(2) == 0 && len(f) > 26 {
			binary.BigEndian.PutUint32(f[22:], m.rng.Uint32()|1) // another tag
			if reseal(f) && f[15] >= byte(ethertype.KindQuery) {
				continue // needs no tag
			}
		} else if len(f) >= ethertype.HeaderSize {
			f[58+m.rng.IntN(4)] ^= 1 << m.rng.IntN(8) // a wrong CRC
		}
		if _, err := m.parsed.Parse(f); err == nil && m.parsed.Kind == ethertype.KindReset {
			continue // proves itself by the other tag
		}
		return f
	}
}

// kindOf returns the kind of a frame that has a header.
func kindOf(frame []byte) ethertype.Kind { return ethertype.Kind(frame[15]) }

// reseal makes the CRC of a changed frame right.
func reseal(f []byte) bool {
	if len(f) < ethertype.HeaderSize {
		return false
	}
	f[14] = ethertype.Version
	size := min(int(binary.BigEndian.Uint16(f[54:])), len(f)-ethertype.HeaderSize)
	ethertype.Seal(f[:ethertype.HeaderSize+size])
	return true
}
