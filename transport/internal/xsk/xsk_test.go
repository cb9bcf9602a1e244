package xsk

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"golang.org/x/sys/unix"
)

var seed = flag.Uint64("xsk.seed", 1, "seed of the random operations")

// world is a socket on one side of a veth and a link on the other that
// receives what it sends.
type world struct {
	*testing.T
	*vethtest.Pair
	*Socket
	index int
	sink  transport.Link
	next  int // number of the next frame
	views [][]byte
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Pair: vethtest.New(t, 9000), views: make([][]byte, transport.MaxBatch)}
	err := w.In(0, func() error {
		ifi, err := iface.Find(vethtest.Name)
		if err == nil {
			w.index = ifi.Index
			w.Socket, err = Open(w.index, MaxFrame, time.Second)
		}
		return err
	})
	if errors.Is(err, unix.EAFNOSUPPORT) {
		t.Skip("needs a kernel with AF_XDP (CONFIG_XDP_SOCKETS)")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Socket.Close() })
	err = w.In(1, func() (err error) {
		w.sink, err = packet.Open(t.Context(), &packet.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.sink.Close() })
	return w
}

// frames returns n frames of their own content and up to size bytes of payload.
func (w *world) frames(n, size int) []transport.Frame {
	frames := make([]transport.Frame, n)
	to := w.sink.Info()
	for i := range frames {
		payload := bytes.Repeat([]byte{byte(w.next), byte(w.next >> 8), byte(w.next >> 16)}, 1+size/3)[:size]
		f := linktest.NewFrame(to, to, to.Ports.Lo, payload)
		cut := w.next % len(f)
		frames[i] = transport.Frame{Head: f[:cut], Body: [][]byte{f[cut:], nil}}
		w.next++
	}
	return frames
}

// expect receives the frames that were sent, and no other.
func (w *world) expect(sent []transport.Frame) {
	w.Helper()
	for end := w.sink.Now() + int64(10*time.Second); len(sent) > 0; {
		n, err := w.sink.Recv(w.views[:min(len(w.views), len(sent))])
		if err != nil {
			w.Fatal(err)
		}
		for i, v := range w.views[:n] {
			if want := sent[i].AppendTo(nil); !bytes.HasPrefix(v, want) || len(v) > max(60, len(want)) {
				w.Fatalf("got %d bytes %x, want %d bytes %x", len(v), v[:min(80, len(v))], len(want), want[:min(80, len(want))])
			}
		}
		if sent = sent[n:]; n > 0 || len(sent) == 0 {
			continue
		}
		if w.sink.Now() > end {
			w.Fatalf("%d frames that were sent did not arrive", len(sent))
		}
		if err := w.sink.Wait(end); err != nil {
			w.Fatal(err)
		}
	}
	if n, err := w.sink.Recv(w.views); n != 0 || err != nil {
		w.Fatalf("received %d frames too many, %v", n, err)
	}
}

// send sends frames, expects want to go, and receives them.
func (w *world) send(frames []transport.Frame, want int) {
	w.Helper()
	n, nbytes := w.Send(frames)
	total := 0
	for i := range frames[:n] {
		total += frames[i].Len()
	}
	if n != want || nbytes != total {
		w.Fatalf("Send of %d frames = %d, %d bytes; want %d frames", len(frames), n, nbytes, want)
	}
	w.expect(frames[:n])
}

// overfill enters more frames than the kernel sends in one kick, so that it
// leaves some, and expects those to be withdrawn.
func (w *world) overfill(extra int) {
	w.Helper()
	if !w.reclaimed && !w.reclaim() {
		w.Fatal("the socket has not reclaimed its chunks")
	}
	w.reap()
	frames := w.frames(Budget+extra, 100)
	first := w.sent
	for i := range frames {
		w.enter(&frames[i])
	}
	errno := w.kick()
	if n := w.withdraw(first, errno); n != Budget {
		w.Fatalf("a kick with %d frames (%v): %d went, want %d", len(frames), errno, n, Budget)
	}
	w.expect(frames[:Budget])
}

func TestSend(t *testing.T) {
	w := newWorld(t)
	largest := MaxFrame - len(w.frames(1, 0)[0].AppendTo(nil))
	for n := range Budget + 8 {
		w.send(w.frames(n, n*largest/(Budget+7)), min(n, Budget))
	}
	for range 3 * slots { // around the rings
		w.send(w.frames(5, 1), 5)
	}
	batch := w.frames(Budget, 64)
	if n := testing.AllocsPerRun(100, func() {
		if w.Send(batch[:1]); w.sent == 0 {
			t.Error("nothing was sent")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}

// TestWithdraw leaves frames in the TX ring, which must neither arrive late nor
// keep their chunks.
func TestWithdraw(t *testing.T) {
	w := newWorld(t)
	for extra := 1; extra <= Budget; extra *= 2 {
		w.overfill(extra)
		for range 5 {
			w.send(w.frames(Budget, 1000), Budget)
		}
	}
}

// TestDisturbed switches both ends of the interface off and on, and removes it.
func TestDisturbed(t *testing.T) {
	w := newWorld(t)
	for side := range 2 {
		for range 3 {
			w.send(w.frames(20, 50), 20)
			if err := w.SetUp(side, false); err != nil {
				t.Fatal(err)
			}
			w.send(w.frames(20, 60), 0)
			w.send(w.frames(3, 60), 0)
			if err := w.SetUp(side, true); err != nil {
				t.Fatal(err)
			}
			w.send(w.frames(20, 70), 20)
		}
	}
	if err := w.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, _ := w.Send(w.frames(2, 0)); n != 0 {
			t.Errorf("sent %d frames on an interface that is gone", n)
		}
	}
	if !w.gone {
		t.Error("the socket has not noticed that the interface is gone")
	}
}

// TestRandom does random things and expects exactly those frames to arrive of
// which Send said so, in order.
func TestRandom(t *testing.T) {
	w := newWorld(t)
	t.Logf("repeat with -xsk.seed=%d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	up := [2]bool{true, true}
	for range 300 {
		switch op := rng.IntN(20); {
		case op < 16:
			n := 1 + rng.IntN(Budget)
			want := n
			if !up[0] || !up[1] {
				want = 0
			}
			w.send(w.frames(n, rng.IntN(4000)), want)
		case op < 18 && up[0] && up[1]:
			w.overfill(1 + rng.IntN(slots-Budget))
		default:
			side := rng.IntN(2)
			up[side] = !up[side]
			if err := w.SetUp(side, up[side]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestQueueTaken opens a second socket where there is one queue.
func TestQueueTaken(t *testing.T) {
	w := newWorld(t)
	open := func(give time.Duration) (s *Socket, err error) {
		err = w.In(0, func() (err error) {
			s, err = Open(w.index, MaxFrame, give)
			return err
		})
		return s, err
	}
	if _, err := open(0); err != unix.EBUSY {
		t.Fatalf("a second socket on one queue: %v, want EBUSY", err)
	}
	w.Socket.Close()
	s, err := open(10 * time.Second) // the kernel frees the queue in the background
	if err != nil {
		t.Fatal(err)
	}
	w.Socket = s
	w.send(w.frames(3, 3), 3)
}

func TestChunks(t *testing.T) {
	for limit, want := range map[int]int{82: 2048, 1514: 2048, 2048: 2048, 2049: 4096, 4096: 4096, 65549: 4096} {
		if got := int(chunkSize(limit)); got != want || Memory(limit) != want*slots {
			t.Errorf("frames of %d bytes: chunks of %d, want %d", limit, got, want)
		}
	}
}
