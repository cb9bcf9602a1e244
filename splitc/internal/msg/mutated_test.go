package msg

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

// TestMillionMutated: a million messages, each right but for a few bytes or its length. The
// owner does what they say within its heap, refuses it, or finds them garbled; no byte beside
// the heap or beside what gets wait for changes, and the count of operations stays right.
func TestMillionMutated(t *testing.T) {
	const heap, margin = 8192, 256
	rounds := 1_000_000
	if !need.Full() {
		rounds = 50_000
	}
	rng := rand.New(rand.NewPCG(7, 8))
	all := bytes.Repeat([]byte{0xa5}, heap+2*margin)
	dst := bytes.Repeat([]byte{0x5a}, 64+2*margin)
	l := Layer{Base: mesh.Base{Config: layer.Config{Handler: new(echo)}, Memory: all[margin:][:heap:heap]}}
	c := &Channel{Pending: NewPending(16)}
	p := &c.Pending
	reply, m := make([]byte, Size(Medium)), make([]byte, Size(Medium))
	served, refused, garbled, replied := 0, uint64(0), 0, 0
	for range rounds {
		if p.Room() {
			p.begin(byte(Get+rng.IntN(3)), dst[margin:][:rng.IntN(65)])
			l.Count.Outstanding++
		}
		channel := rng.IntN(Channels)
		msg := mutated(rng, m[:Size(channel)], heap)
		if len(msg) >= HeaderSize && IsReply(msg[0]) {
			if l.Replied(c, msg) {
				replied++
			}
		} else if n, ok := l.Serve(1, channel, msg, reply[:Size(channel)]); ok {
			served++
			if n > Size(channel) {
				t.Fatalf("a reply of %d bytes to % x", n, msg)
			}
		} else {
			garbled++
		}
		if l.Count.Outstanding != p.Count() {
			t.Fatalf("%d operations are outstanding, and %d are known", l.Count.Outstanding, p.Count())
		}
	}
	for what, b := range map[string][]byte{"before the heap": all[:margin], "behind the heap": all[margin+heap:]} {
		if len(bytes.Trim(b, "\xa5")) != 0 {
			t.Errorf("memory %s has changed", what)
		}
	}
	if len(bytes.Trim(dst[:margin], "\x5a")) != 0 || len(bytes.Trim(dst[margin+64:], "\x5a")) != 0 {
		t.Error("memory beside the destination of gets has changed")
	}
	if refused = l.Did.Refused; served == 0 || refused == 0 || garbled == 0 || replied == 0 {
		t.Errorf("%d served, %d refused, %d garbled, %d replies taken: want some of each", served, refused, garbled, replied)
	}
}

// mutated writes a message into b, for a heap of so many bytes, and changes up to three of
// its bytes, and at times its length.
func mutated(rng *rand.Rand, b []byte, heap int) []byte {
	le := binary.LittleEndian
	b[0], b[1] = byte(Get+rng.IntN(Refused)), 0
	le.PutUint16(b[2:], uint16(rng.IntN(16)))
	n := HeaderSize + rng.IntN(65)
	switch b[0] {
	case Get:
		n = prefix + 4
		le.PutUint32(b[prefix:], uint32(rng.IntN(65)))
	case Put, Store:
		n += 8
	case Stores:
		n = HeaderSize
		for range rng.IntN(3) {
			le.PutUint64(b[n:], uint64(rng.IntN(heap))|uint64(1+rng.IntN(40))<<recordBits)
			n += recordHead + int(b[n+7])
		}
		b[1+rng.IntN(n-1)] ^= byte(rng.IntN(8) / 7)
		return b[:n]
	case PutDone, Refused:
		n = HeaderSize
	}
	if b[0] < Stores {
		le.PutUint64(b[HeaderSize:], uint64(rng.IntN(heap)))
	}
	return mutant.Bend(rng, b, n)
}
