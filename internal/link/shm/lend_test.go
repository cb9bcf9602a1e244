package shm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// lending returns two links that have met, of which b fetches lent frames.
func lending(t *testing.T) (a, b *shm.Link) {
	t.Helper()
	a, b = open(t, shm.Config{}), open(t, shm.Config{Lend: true})
	b.StartLong()
	pump(t, a, b, 1, frameTo(a, b, 10))
	word := uint64(1)
	if _, err := b.ReadMemory(a.Info().Ports.Lo, make([]byte, 8), addressOf(&word), addressOf(&word)); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("the kernel does not permit process_vm_readv(2): %v", err)
	}
	if !b.Lends() {
		t.Fatal("the kernel permits it, and yet no frames are lent")
	}
	return a, b
}

func frameTo(a, b *shm.Link, n int) transport.Frame {
	return transport.Frame{Head: linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, n))}
}

// lentFrame returns a frame whose body is in parts of those sizes.
func lentFrame(a, b *shm.Link, mark *atomic.Uint64, sizes ...int) transport.Frame {
	f := frameTo(a, b, 20)
	f.Mark = mark
	r := rand.New(rand.NewPCG(1, uint64(len(sizes))))
	for _, n := range sizes {
		part := make([]byte, n)
		for i := range part {
			part[i] = byte(r.Uint32())
		}
		f.Body = append(f.Body, part)
	}
	return f
}

func send(t *testing.T, l *shm.Link, frames ...transport.Frame) {
	t.Helper()
	if n, err := l.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("sent %d of %d frames, %v", n, len(frames), err)
	}
}

// receive returns the next view of b.
func receive(t *testing.T, b *shm.Link) []byte {
	t.Helper()
	views := make([][]byte, 1)
	n, err := b.Recv(views)
	if n != 1 || err != nil {
		t.Fatalf("received %d frames, %v", n, err)
	}
	return views[0]
}

// TestLent: a lent frame arrives as its beginning, and Fetch copies it from every offset, to pieces of all sizes.
func TestLent(t *testing.T) {
	a, b := lending(t)
	var mark atomic.Uint64
	mark.Store(0x123456789abcdef)
	for _, sizes := range [][]int{{60_000}, {8192, 1}, {1, 20_000, 0, 13}, {3, 5, 7, 30_000}} {
		f := lentFrame(a, b, &mark, sizes...)
		whole := f.AppendTo(nil)
		for _, from := range []int{ethertype.HeaderSize, len(f.Head) - 1, len(f.Head), len(f.Head) + 1, transport.LongBegin} {
			send(t, a, f)
			view := receive(t, b)
			if len(view) != transport.LongBegin || b.Rest() != len(whole)-len(view) || !bytes.Equal(view, whole[:len(view)]) || b.Cut() {
				t.Fatalf("parts of %v: a view of %d bytes and %d to fetch", sizes, len(view), b.Rest())
			}
			got := make([]byte, len(whole)-from)
			if !b.Fetch(from, [][]byte{got[:1], got[1:1], got[1:100], got[100:]}) || !bytes.Equal(got, whole[from:]) {
				t.Fatalf("parts of %v: fetched something else from offset %d on", sizes, from)
			}
			if b.Rest() != 0 || b.Fetch(from, [][]byte{got}) {
				t.Error("the frame can be fetched twice")
			}
		}
	}
}

// TestNotLent: frames that are short, have many parts or no mark, or whose receiver does not fetch, hold their data.
func TestNotLent(t *testing.T) {
	a, b := lending(t)
	var mark, zero atomic.Uint64
	mark.Store(1)
	deaf := open(t, shm.Config{Lend: true})
	pump(t, a, deaf, 1, frameTo(a, deaf, 10))
	for what, f := range map[string]transport.Frame{
		"short":      lentFrame(a, b, &mark, 4000),
		"many parts": lentFrame(a, b, &mark, 4000, 4000, 4000, 4000, 4000),
		"no mark":    lentFrame(a, b, nil, 20_000),
		"zero":       lentFrame(a, b, &zero, 20_000),
		"deaf":       lentFrame(a, deaf, &mark, 20_000),
	} {
		to := b
		if what == "deaf" {
			to = deaf
		}
		if got := pump(t, a, to, 1, f); to.Rest() != 0 || !bytes.Equal(got[0], f.AppendTo(nil)) {
			t.Errorf("%s: %d bytes and %d to fetch", what, len(got[0]), to.Rest())
		}
	}
}

// TestLoanEnds: what is fetched after its sender has ended the loan is lost, whatever its memory holds then, and so is a
// frame that nobody fetches.
func TestLoanEnds(t *testing.T) {
	a, b := lending(t)
	var mark atomic.Uint64
	for _, after := range []uint64{0, 8} { // ended, or lent by another connection
		mark.Store(7)
		f := lentFrame(a, b, &mark, 20_000)
		send(t, a, f)
		receive(t, b)
		mark.Store(after)
		if got := make([]byte, 20_000); b.Fetch(len(f.Head), [][]byte{got}) {
			t.Errorf("fetched behind a mark of %d", after)
		}
	}
	mark.Store(7)
	send(t, a, lentFrame(a, b, &mark, 20_000), frameTo(a, b, 30))
	receive(t, b)
	if view := receive(t, b); b.Rest() != 0 || len(view) != len(frameTo(a, b, 30).Head) {
		t.Errorf("%d bytes and %d to fetch after a frame that was not fetched", len(view), b.Rest())
	}
}

// TestPace: the sender takes the faster way, measures the other one from time to time, and follows a change. The slower
// of both copies counts for the ring.
func TestPace(t *testing.T) {
	p := shm.NewPace()
	// run sends n frames at such speeds, and counts those that are lent.
	run := func(n int, own, ring, loan uint64) (lent int) {
		for range n {
			if p.Lends() {
				lent++
			}
			p.Sent(own, ring, loan)
		}
		return lent
	}
	for _, c := range []struct {
		own, ring, loan uint64
		lends           bool
	}{
		{400, 40, 80, true}, {40, 60, 80, false}, {40, 400, 80, true}, {79, 79, 80, false}, {1, 1, 1 << 40, false},
	} {
		run(2_000, c.own, c.ring, c.loan)
		lent := run(10_000, c.own, c.ring, c.loan)
		if c.lends && lent < 9_800 || !c.lends && lent > 200 {
			t.Errorf("%d of 10,000 frames are lent: ring %d and %d, loan %d ps per byte", lent, c.own, c.ring, c.loan)
		}
	}
}

// FuzzLoan: whatever a record holds, what is read of other memory is of the size that was asked for.
func FuzzLoan(f *testing.F) {
	valid := make([]byte, 254)
	for i, v := range []uint64{20_062, 62, 4096, 1, 8192, 20_000} {
		binary.NativeEndian.PutUint64(valid[134+8*i:], v)
	}
	f.Add(valid, uint16(62), uint16(20_000))
	f.Fuzz(func(t *testing.T, record []byte, from, want uint16) {
		size, sum, ok := shm.ParseLoan(record, int(from), int(want))
		if ok && (size > ethertype.MaxFrame || sum != int(want)) {
			t.Errorf("a frame of %d bytes, of which %d are read, want %d", size, sum, want)
		}
	})
}
