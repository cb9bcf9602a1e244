package vipl_test

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
	"pgregory.net/rapid"
)

// readModel is a naive account of a VI that writes to and reads from one region
// of the peer: the list of what has been posted. What a read may return follows
// from the order of posting and the fences.
type readModel struct {
	*duo
	region  []byte
	remote  vipl.RemoteSegment
	posted  []*readModelOp
	taken   int
	receipt int // receives that have completed
	sends   int // sends posted
}

type readModelOp struct {
	d    *vipl.Descriptor
	fill byte // of a write
}

const readModelSize = 4000

// TestReadModel posts random sequences of sends, writes, reads and fences while
// the two sides run at random, and wants of each read bytes that the writes
// before it, or those that may overtake it, have left.
func TestReadModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		depth := rapid.IntRange(1, 5).Draw(rt, "depth")
		m := &readModel{duo: readable(t, rapid.SampledFrom(reliableLevels).Draw(rt, "level"), depth)}
		defer m.na.Close()
		defer m.nb.Close()
		m.region, m.remote = m.source(m.nb, 0, readModelSize)
		clear(m.region)
		rt.Repeat(map[string]func(*rapid.T){
			"post": m.post1,
			"take": m.take,
			"a":    func(*rapid.T) { m.na.Poll() },
			"b":    func(rt *rapid.T) { m.nb.Poll(); m.received(rt) },
		})
		for range 20 {
			m.run()
		}
		for m.taken < len(m.posted) {
			if x, _ := m.a.SendDone(); x == nil {
				rt.Fatalf("descriptor %d of %d does not complete: %v", m.taken, len(m.posted), m.a.Err())
			} else {
				m.check(rt, x)
			}
		}
		if m.received(rt); m.receipt != m.sends {
			rt.Fatalf("%d messages arrived of %d", m.receipt, m.sends)
		}
	})
}

func (m *readModel) post1(rt *rapid.T) {
	if len(m.posted)-m.taken >= 200 {
		return
	}
	op := &readModelOp{d: &vipl.Descriptor{Fence: rapid.IntRange(0, 4).Draw(rt, "fence") == 0, Remote: m.remote}}
	op.d.Op = rapid.SampledFrom([]vipl.Op{vipl.OpSend, vipl.OpRDMAWrite, vipl.OpRDMARead, vipl.OpRDMARead}).Draw(rt, "op")
	size := rapid.SampledFrom([]int{0, 1, 64, 1452, readModelSize}).Draw(rt, "size")
	buf, h := m.buffer(m.na, max(size, 1), nil)
	op.d.Segs = split(buf[:size], h, size)
	switch op.d.Op {
	case vipl.OpSend:
		m.post(m.b, size)
		m.sends++
	case vipl.OpRDMAWrite:
		op.fill = byte(len(m.posted)%250 + 1)
		copy(buf, bytes.Repeat([]byte{op.fill}, size))
	}
	if err := m.a.PostSend(op.d); err != nil {
		rt.Fatal(err)
	}
	m.posted = append(m.posted, op)
}

// received takes what has arrived at b. Behind a fence nothing arrives before
// the reads before it are complete.
func (m *readModel) received(rt *rapid.T) {
	for {
		x, _ := m.b.RecvDone()
		if x == nil {
			return
		}
		m.receipt++
		sends, open := 0, false
		done := m.taken + m.a.Snapshot().SendUntaken
		for i, op := range m.posted {
			if op.d.Fence && open {
				rt.Fatalf("message %d arrived although a read before the fence before it is open", m.receipt)
			}
			open = open || op.d.Op == vipl.OpRDMARead && i >= done
			if op.d.Op == vipl.OpSend {
				if sends++; sends == m.receipt {
					break
				}
			}
		}
	}
}

func (m *readModel) take(rt *rapid.T) {
	if x, _ := m.a.SendDone(); x != nil {
		m.check(rt, x)
	}
}

// check compares a completed descriptor with the account.
func (m *readModel) check(rt *rapid.T, x *vipl.Descriptor) {
	i, op := m.taken, m.posted[m.taken]
	m.taken++
	status := map[vipl.Op]vipl.Status{vipl.OpRDMAWrite: vipl.StatusOpRDMAWrite, vipl.OpRDMARead: vipl.StatusOpRDMARead}[op.d.Op]
	b := joined(x)
	if x != op.d || x.Status != status|vipl.StatusDone || int(x.Length) != len(b) {
		rt.Fatalf("descriptor %d is %v with %d bytes, want %v with %d", i, x.Status, x.Length, status, len(b))
	}
	if op.d.Op != vipl.OpRDMARead {
		return
	}
	for p, c := range b {
		if !m.possible(i, p, c) {
			rt.Fatalf("byte %d of read %d is %d", p, i, c)
		}
	}
}

// possible reports whether read i can have found c at p.
func (m *readModel) possible(i, p int, c byte) bool {
	was := byte(0)
	for j, op := range m.posted {
		if j > i && op.d.Fence {
			break
		}
		if op.d.Op != vipl.OpRDMAWrite || p >= len(joined(op.d)) {
			continue
		}
		if j < i {
			was = op.fill
		} else if c == op.fill {
			return true
		}
	}
	return c == was
}
