package tun

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// recordOf returns the record of a packet of n bytes.
func recordOf(rng *rand.Rand, n int) []byte {
	b := newBuffer()
	defer b.free()
	for i := range b.room()[:vnetSize+n] {
		b.room()[i] = byte(rng.Uint32())
	}
	return bytes.Clone(b.fill(vnetSize + n).record())
}

// TestRecords: records arrive unchanged, whatever the pieces in which the stream arrives, and
// without allocations.
func TestRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []byte
	var want [][]byte
	for range 400 {
		n := 1 + rng.IntN(maxRecord-vnetSize)
		if rng.IntN(2) == 0 {
			n = 1 + rng.IntN(100)
		}
		r := recordOf(rng, n)
		want = append(want, r[recordHead:])
		all = append(all, r...)
	}
	for _, size := range []int{len(all), 300_000, recordHead + maxRecord} {
		from := &lying{rng: rng, rest: all, size: size}
		r := newRecords(from)
		i := 0
		for ; i < len(want); i++ {
			got, err := r.next()
			if err != nil || !bytes.Equal(slices.Concat(got.parts[:]...), want[i]) {
				t.Fatalf("ring of %d: record %d of %d bytes came as %d, or %v", size, i, len(want[i]), got.n, err)
			}
			if b, n := got.packet(); n != len(want[i])-vnetSize || len(b) != min(n, beginSize-vnetSize) || from.has(got.parts[0]) {
				t.Fatalf("ring of %d: record %d: %d bytes of a packet of %d, of %d, are at hand", size, i, len(b), n, len(want[i])-vnetSize)
			}
		}
		if _, err := r.next(); err != io.EOF || from.peeked != nil {
			t.Errorf("ring of %d: the end is %v", size, err)
		}
	}
	r := newRecords(&lying{rng: rng, rest: all, size: len(all)})
	if n := testing.AllocsPerRun(300, func() { r.next() }); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}

// lying is a stream of which a part has arrived. The part lies in memory in one or two pieces.
type lying struct {
	rng    *rand.Rand
	rest   []byte // bytes that have not been discarded
	size   int    // of its ring
	peeked []byte
}

func (l *lying) Peek(n int) (first, rest []byte, err error) {
	switch {
	case l.peeked != nil || n > l.size:
		panic("Peek without Discard, or of more than the ring holds")
	case len(l.rest) == 0:
		return nil, nil, io.EOF
	case len(l.rest) < n:
		return nil, nil, io.ErrUnexpectedEOF
	}
	most := min(l.size, len(l.rest))
	l.peeked = l.rest[: n+l.rng.IntN(min(most-n, 1<<l.rng.IntN(20))+1) : most]
	at := len(l.peeked)
	if l.rng.IntN(2) == 0 {
		at = l.rng.IntN(at + 1)
	}
	return l.peeked[:at], l.peeked[at:], nil
}

func (l *lying) Discard(n int) {
	if l.peeked == nil || n > len(l.peeked) {
		panic("more is discarded than there is")
	}
	l.peeked, l.rest = nil, l.rest[n:]
}

// has reports whether b lies in memory to which the other end could write.
func (l *lying) has(b []byte) bool {
	return len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))-uintptr(unsafe.Pointer(&l.rest[0])) < uintptr(len(l.rest))
}

// TestRecordsWrong: a stream that ends within a record, or contains an invalid length, is an error.
func TestRecordsWrong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := recordOf(rng, 1000)
	for _, n := range []int{1, recordHead - 1, recordHead, recordHead + 1, len(whole) - 1} {
		if _, err := newRecords(&lying{rng: rng, rest: whole[:n], size: len(whole)}).next(); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	for _, head := range [][]byte{{0, 0, 0, 0}, {vnetSize, 0, 0, 0}, {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0x80}} {
		if _, err := newRecords(&lying{rng: rng, rest: slices.Concat(head, whole), size: 2 * len(whole)}).next(); !errors.Is(err, errRecord) {
			t.Errorf("length % x: %v", head, err)
		}
	}
}
