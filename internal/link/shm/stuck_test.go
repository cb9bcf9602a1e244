package shm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
)

// again has each of two links, which look after themselves now and then, send the
// other a frame until it arrives: frames may be lost, but not for ever.
func again(t *testing.T, a, b *shm.Link) {
	t.Helper()
	links := [2]*shm.Link{a, b}
	text := [2]transport.Frame{frame(b, a, "to a"), frame(a, b, "to b")} // by receiver
	var arrived [2]bool
	views := make([][]byte, transport.MaxBatch)
	for end := a.Now() + int64(10*time.Second); !arrived[0] || !arrived[1]; {
		for i, l := range links {
			if err := transport.Check(l); err != nil {
				t.Fatal(err)
			}
			links[1-i].Send(text[i : i+1])
			if err := l.Wait(l.Now() + int64(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := l.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range views[:n] {
				arrived[i] = arrived[i] || string(v) == string(text[i].Head)
			}
		}
		if a.Now() > end {
			t.Fatalf("frames arrive at %v of a and b, which count %+v and %+v", arrived, a.Stats(), b.Stats())
		}
	}
}

// counted counts the links that give rings up because they cannot be.
func counted(links ...*shm.Link) *int {
	n := new(int)
	for _, l := range links {
		l.OnDeparture(func(_ transport.PortRange, why error) {
			if errors.Is(why, shm.ErrBroken) {
				*n++
			}
		})
	}
	return n
}

// TestStuck: rings whose ends have lost each other, though each word by itself is
// possible, are found out without a frame more, and replaced.
func TestStuck(t *testing.T) {
	const size, control, line = 1 << 20, 64 << 10, 64
	put := func(mem []byte, at int, word uint64) { binary.NativeEndian.PutUint64(mem[at:], word) }
	length := func(mem []byte, n int) { binary.NativeEndian.PutUint16(mem, uint16(n-ethertype.HeaderSize+1)) }
	for what, spoil := range map[string]func(mem, record []byte, n int){
		"the frame is not there": func(_, record []byte, _ int) { put(record, 0, 0) },
		"it is shorter":          func(_, record []byte, n int) { length(record, n-2*line) },
		"it is longer":           func(_, record []byte, n int) { length(record, n+9*line) },
		"more is free than is":   func(mem, _ []byte, _ int) { put(mem, 0, 1<<19) },
		"part of a line is free": func(mem, _ []byte, _ int) { put(mem, 0, line+1) },
	} {
		t.Run(what, func(t *testing.T) {
			a, b := open(t, shm.Config{Ring: size}), open(t, shm.Config{})
			hello, f := frame(a, b, "hello"), frame(a, b, strings.Repeat("\x00", 1000))
			pump(t, a, b, 1, hello)
			broken := counted(a, b)
			mem := a.Shared()
			a.Send([]transport.Frame{f})
			at := control + (2+hello.Len()+line-1)/line*line
			spoil(mem, mem[at:], f.Len())
			for range 3 {
				for _, l := range []*shm.Link{b, a} {
					l.Recv(make([][]byte, 4))
					transport.Check(l)
				}
			}
			if *broken != 1 {
				t.Errorf("%d links say that the rings are broken, want 1", *broken)
			}
			again(t, a, b)
		})
	}
}

// TestSleepOfNoKind: a peer of which the ring says that it sleeps in a way that
// there is not, and which would not be woken, is given up.
func TestSleepOfNoKind(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, a, b, 1, frame(a, b, "hello"))
	broken := counted(a)
	copy(a.Shared()[256:], []byte{3, 3, 3, 3})
	a.Send([]transport.Frame{frame(a, b, "wake")})
	if a.Recv(make([][]byte, 4)); *broken != 1 {
		t.Errorf("%d links say that the rings are broken, want 1", *broken)
	}
	again(t, a, b)
}

// TestStuckRandom writes a little nonsense into rings under traffic and stops.
// Whatever it was, frames pass soon.
func TestStuckRandom(t *testing.T) {
	seeds := uint64(400)
	if !need.Full() {
		seeds = 50
	}
	a, b := open(t, shm.Config{Ring: 512 << 10}), open(t, shm.Config{})
	for seed := *seedFlag; seed < *seedFlag+seeds; seed++ {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("replay: -shm.seed=%d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			again(t, a, b)
			spoilTraffic(rng, a, b)
			again(t, a, b)
		})
		if !ok {
			return
		}
	}
}

// spoilTraffic has links send each other frames, of which some are spoiled before
// they are received.
func spoilTraffic(rng *rand.Rand, a, b *shm.Link) {
	views := make([][]byte, transport.MaxBatch)
	for range 1 + rng.IntN(20) {
		from, to := a, b
		if rng.IntN(2) == 0 {
			from, to = b, a
		}
		for range rng.IntN(4) {
			from.Send([]transport.Frame{frame(from, to, strings.Repeat("\x00", rng.IntN(3000)))})
		}
		mem := a.Shared() // others than before, if those were given up and are gone
		for range rng.IntN(3) {
			if mem != nil {
				spoilRecord(rng, mem)
			}
		}
		if rng.IntN(3) > 0 {
			to.Recv(views[:1+rng.IntN(8)])
		}
	}
}

// spoilRecord changes a record that there is, or scribbles anywhere.
func spoilRecord(rng *rand.Rand, mem []byte) {
	const control = 64 << 10
	ring := mem[control+rng.IntN(2)*(len(mem)-control)/2:][:(len(mem)-control)/4]
	at := rng.IntN(len(ring)) &^ 63
	for i := 0; i < len(ring) && binary.NativeEndian.Uint64(ring[at:]) == 0; i += 64 {
		at = (at + 64) & (len(ring) - 1)
	}
	switch rng.IntN(4) {
	case 0:
		clear(ring[at : at+8])
	case 1:
		binary.NativeEndian.PutUint16(ring[at:], uint16(1+rng.IntN(3000)))
	case 2:
		ring[at+rng.IntN(64)] = byte(rng.Uint32())
	default:
		scribble(rng, mem)
	}
}
