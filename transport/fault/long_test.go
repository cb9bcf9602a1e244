package fault_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
)

// longSize returns how many bytes of payload frame i has: every other frame is long.
func longSize(i int) int {
	if i%2 == 0 {
		return 100
	}
	return 2000 + i*257%60_000
}

// TestLongFaults has a script do everything to long frames that may happen to one,
// on the way out and on the way in: each arrives whole as often and in such an order
// as a short one would, and is changed where it should be.
func TestLongFaults(t *testing.T) {
	for name, dir := range map[string]fault.Direction{"Tx": fault.Tx, "Rx": fault.Rx} {
		t.Run(name, func(t *testing.T) {
			const seed, frames = 4, 400
			script := map[int]fault.Action{1: fault.Drop, 3: fault.Dup, 5: fault.Corrupt, 7: fault.Reorder}
			opts := fault.Options{Seed: seed, Dir: dir, ReorderBy: 4, Script: func(_ fault.Direction, n uint64, f []byte) fault.Action {
				if want := ethertype.HeaderSize + longSize(int(n)); len(f) != want {
					t.Errorf("the script sees %d bytes of frame %d, want %d", len(f), n, want)
				}
				return script[int(n)%8]
			}}
			p := vethtest.New(t, 1500)
			a, b := fault.New(open(t, p, 0, 0), opts).(transport.LongLink), fault.New(open(t, p, 1, 0), opts).(transport.LongLink)
			if !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
				t.Fatal("no long frames on veth")
			}
			got := longTraffic(t, a, b, frames)
			for i := range frames {
				want := map[int]int{1: 0, 3: 2}
				n, given := want[i%8]
				if !given {
					n = 1
				}
				if len(got.changed[i]) != n {
					t.Fatalf("seed %d: frame %d arrived %d times, want %d", seed, i, len(got.changed[i]), n)
				}
				for _, wrong := range got.changed[i] {
					if (wrong > 0) != (i%8 == 5) {
						t.Errorf("seed %d: %d bytes of frame %d are changed", seed, wrong, i)
					}
				}
			}
			if got.overtaken == 0 {
				t.Errorf("seed %d: no frame was overtaken", seed)
			}
			faults := a.Stats().Faults
			if dir == fault.Rx {
				faults = b.Stats().Faults
			}
			if faults != frames/2 {
				t.Errorf("%d faults were counted, want %d", faults, frames/2)
			}
		})
	}
}

// arrived is what has come of numbered frames.
type arrived struct {
	changed   map[int][]int // how many bytes of a frame are not as sent, for each time that it came
	overtaken int
	last      int
	total     int
}

// longTraffic sends numbered frames from a to b, of which as many arrive as are sent,
// and returns what has arrived.
func longTraffic(t *testing.T, a, b transport.LongLink, count int) *arrived {
	t.Helper()
	got := &arrived{changed: map[int][]int{}}
	views := make([][]byte, transport.MaxBatch)
	recv := func() {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range views[:n] {
			if f := bytes.Clone(v); i < n-1 || b.Rest() == 0 {
				got.note(f)
			} else {
				rest := b.Rest()
				f = append(f, make([]byte, rest)...)
				if !b.Fetch(len(v), [][]byte{f[len(v) : len(v)+1], f[len(v)+1:]}) || b.Rest() != 0 {
					t.Fatalf("%d bytes were not fetched; counters %+v", rest, b.Stats())
				}
				got.note(f)
			}
		}
	}
	for i := 0; i < count; recv() {
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, longPayload(i))
		n, err := a.Send([]transport.Frame{{Head: f[:70], Body: [][]byte{f[70:]}}})
		if err != nil {
			t.Fatal(err)
		}
		i += n
	}
	for end := a.Now() + int64(10*time.Second); got.total < count && a.Now() < end; recv() {
		for _, l := range []transport.Link{a, b} {
			if err := l.Wait(l.Now() + int64(2*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	recv()
	return got
}

// longPayload says which frame it is of, several times over.
func longPayload(i int) []byte {
	b := make([]byte, longSize(i))
	for at := 0; at+4 <= len(b); at += 4 {
		binary.BigEndian.PutUint32(b[at:], uint32(i))
	}
	return b
}

// note takes down a frame. Which one it is, its words say by majority.
func (g *arrived) note(f []byte) {
	f = f[ethertype.HeaderSize:]
	votes := map[uint32]int{}
	for at := 0; at+4 <= min(len(f), 64); at += 4 {
		votes[binary.BigEndian.Uint32(f[at:])]++
	}
	i := 0
	for n, v := range votes {
		if v > len(votes) {
			i = int(n)
		}
	}
	changed := 0
	for at, b := range longPayload(i) {
		if at >= len(f) || f[at] != b {
			changed++
		}
	}
	if len(f) > longSize(i) {
		changed++
	}
	g.total++
	if g.changed[i] = append(g.changed[i], changed); i < g.last {
		g.overtaken++
	}
	g.last = i
}
