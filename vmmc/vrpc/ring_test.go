package vrpc

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// newTestRing returns a ring with a reader and a writer, in one memory.
func newTestRing(size int) (mem []byte, r *ringReader, w ringWriter) {
	mem = make([]byte, ringControl+size)
	key := newRingKey()
	return mem, newRingReader(mem, key), newRingWriter(size, key)
}

// Records of all lengths come out as they went in, in order, over many rounds of the ring,
// whatever the messages contain: here, what lies behind earlier records.
func TestRing(t *testing.T) {
	for _, size := range []int{minRing, minRing + 8, 10000, 1 << 16} {
		rnd := rand.New(rand.NewPCG(uint64(size), 1))
		mem, r, w := newTestRing(size)
		var sent [][]byte
		var freed []uint32 // of records that were taken, and not told of yet
		told := uint32(0)
		for range 20000 {
			n := rnd.IntN(pieceMax(size) + 1)
			if rnd.IntN(3) > 0 {
				n = rnd.IntN(100)
			}
			if w.room(n) && rnd.IntN(2) == 0 {
				piece := make([]byte, n)
				copy(piece, mem[ringControl+rnd.IntN(size-n):]) // as a message may that echoes others
				offset, record := w.put(bytes.Clone(piece), n, n%2 == 0, uint32(n))
				copy(mem[offset:], record)
				sent = append(sent, piece)
			} else if len(sent) > 0 {
				rec, ok, err := r.next()
				if err != nil || !ok || !bytes.Equal(rec.payload, sent[0]) || rec.last != (len(sent[0])%2 == 0) || rec.freed != uint32(len(sent[0])) {
					t.Fatalf("size %d: %d bytes of %d, %v, %v", size, len(rec.payload), len(sent[0]), ok, err)
				}
				sent, freed = sent[1:], append(freed, rec.count)
			}
			if len(sent) == 0 && r.ready() {
				t.Fatal("a record that nobody has sent")
			}
			if len(freed) > 0 && rnd.IntN(3) == 0 {
				if told = freed[len(freed)-1]; w.credit([2]uint32{told, 0}) != nil {
					t.Fatal("what was freed is refused")
				}
				freed = freed[:0]
			}
			if len(sent) == 0 && !w.room(pieceMax(size)) && w.sent-told <= uint32(ackShare(size)) {
				t.Fatalf("size %d: no room for %d bytes in an empty ring: the next ends at %d", size, pieceMax(size), w.end)
			}
		}
	}
}

// A writer that says nonsense ends the connection; one that lags does not.
func TestRingCredit(t *testing.T) {
	_, _, w := newTestRing(minRing)
	w.put(nil, 0, true, 0)
	w.put(nil, 0, true, 0)
	for _, c := range []struct {
		said [2]uint32
		ok   bool
		want uint32
	}{
		{[2]uint32{0, 0}, true, 0}, {[2]uint32{24, 0}, true, 24}, {[2]uint32{24, 48}, true, 48}, {[2]uint32{40, 48}, true, 48},
		{[2]uint32{49, 48}, false, 48}, {[2]uint32{40, 1 << 30}, false, 48},
	} {
		if err := w.credit(c.said); (err == nil) != c.ok || w.freed != c.want {
			t.Errorf("%v: %v, %d freed, want %d", c.said, err, w.freed, c.want)
		}
	}
}

// A server that waits for room reads no calls: what its client has freed must reach it
// by itself, though calls have said so. A client reads replies while it waits.
func TestRingTold(t *testing.T) {
	for _, reads := range []bool{false, true} {
		mem, _, w := newTestRing(minRing)
		m := newMapped(nil, mem, w.key)
		m.reads = reads
		for range 20 {
			offset, record := w.put(make([]byte, 40), 40, true, 0)
			copy(mem[offset:], record)
			_, ticket, ok, err := m.receive()
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			m.free(ticket)
			m.tellNow()
		}
		if m.owed() == reads {
			t.Errorf("the other side reads: %v; it is owed a word: %v", reads, m.owed())
		}
	}
}

// Whatever a writer writes, and however often, the reader takes records that lie in the ring or
// finds an error, and comes to an end.
func FuzzRing(f *testing.F) {
	key := ringKey{1, 2, 3, 4, 5, 6, 7, 8}
	record := func(length, number uint32) []byte {
		b := append([]byte("12345678"), key[:]...)
		b = binary.BigEndian.AppendUint64(b, 7)
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, number), length)
	}
	f.Add(record(8|lastFragment, 1), uint16(minRing-32))
	f.Add(record(8, 1), uint16(8))
	f.Add(record(0xffffffff, 1), uint16(minRing-32))
	f.Add(append(record(0, 2), record(8|lastFragment, 1)...), uint16(minRing-64))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		mem := make([]byte, ringControl+minRing)
		copy(mem[ringControl+int(at)%minRing:], data)
		m := newMapped(nil, mem, key)
		for i := 0; ; i++ {
			rec, ticket, ok, err := m.receive()
			if err != nil || !ok {
				break
			}
			if i > minRing {
				t.Fatal("records without end")
			}
			if len(rec.payload) > pieceMax(minRing) || cap(rec.payload) != len(rec.payload) {
				t.Fatalf("a record of %d bytes", len(rec.payload))
			}
			_, inRing, whole, err := m.piece(rec, ticket, 1000)
			if err != nil {
				break
			}
			if whole && inRing {
				m.free(ticket)
			}
			if len(m.partial) > 1000 || len(m.held) > 1 {
				t.Fatalf("%d bytes of pieces, %d records", len(m.partial), len(m.held))
			}
		}
	})
}

// What a client or server offers of its ring is believed only if it is possible.
func FuzzOffer(f *testing.F) {
	offer := ringOffer{5, minRing, ringKey{1}}
	f.Add(offer.append(nil, greetingYes))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < setupSize {
			return
		}
		o, status, err := parseOffer(data)
		if err == nil && !bytes.Equal(o.append(nil, status), data[:setupSize]) {
			t.Fatalf("%+v", o)
		}
	})
}
