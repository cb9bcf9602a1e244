package sim

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

var seedFlag = flag.Uint64("sim.seed", 1, "seed of the tests' worlds")

// seed returns the seed of the test's worlds and has it printed on failure.
func seed(t testing.TB) uint64 {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; play it again with -sim.seed=%[1]d", *seedFlag)
		}
	})
	return *seedFlag
}

// to returns a frame of size bytes from one station to an address, with a
// number in it.
func to(from *Station, dst ethertype.MAC, size int, number uint32) transport.Frame {
	h := ethertype.Header{
		Dst: dst, Src: from.MAC(), Type: ethertype.Default, Kind: ethertype.KindEcho,
		DstPort: 1, SrcPort: 1, Tag: number, Size: uint16(size - ethertype.HeaderSize),
	}
	b := make([]byte, size)
	h.Put(b)
	ethertype.Seal(b)
	return transport.Frame{Head: b}
}

// send sends one frame of 100 bytes.
func send(t testing.TB, from, dst *Station, number uint32) {
	t.Helper()
	sendSized(t, from, dst, 100, number)
}

func sendSized(t testing.TB, from, dst *Station, size int, number uint32) {
	t.Helper()
	n, err := from.Send([]transport.Frame{to(from, dst.MAC(), size, number)})
	if n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
}

// numbers takes all frames from the receive queue of s and returns their
// numbers; -1 stands for a frame that does not parse.
func numbers(t testing.TB, s *Station) (got []int) {
	t.Helper()
	views := make([][]byte, 64)
	for {
		n, err := s.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return got
		}
		for _, v := range views[:n] {
			var h ethertype.Header
			if _, err := h.Parse(v); err != nil {
				got = append(got, -1)
				continue
			}
			got = append(got, int(h.Tag))
		}
	}
}

func run(t testing.TB, w *World) {
	t.Helper()
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

func TestPingPong(t *testing.T) {
	w := New(Options{Seed: seed(t), Delay: 5 * time.Microsecond})
	a, b := w.Station("a"), w.Station("b")
	const rounds = 100
	w.Go("a", func() {
		for i := range uint32(rounds) {
			send(t, a, b, i)
			if err := a.Wait(transport.Forever); err != nil {
				t.Error(err)
			}
			if got := numbers(t, a); len(got) != 1 || got[0] != int(i) {
				t.Fatalf("round %d: got %v", i, got)
			}
		}
	})
	w.Go("b", func() {
		for range rounds {
			if err := b.Wait(transport.Forever); err != nil {
				t.Error(err)
			}
			for _, number := range numbers(t, b) {
				send(t, b, a, uint32(number))
			}
		}
	})
	run(t, w)
	if got, want := w.Now()-Start, int64(rounds*10*time.Microsecond); got != want {
		t.Errorf("took %d ns, want %d", got, want)
	}
}

func TestDeadlockNamesProcesses(t *testing.T) {
	w := New(Options{Seed: 7})
	a := w.Station("alpha")
	w.Go("reader", func() { a.Wait(transport.Forever) })
	w.Go("sleeper", func() { w.Sleep(time.Second) })
	err := w.Run()
	if !errors.Is(err, ErrDeadlock) {
		t.Fatalf("Run = %v, want ErrDeadlock", err)
	}
	for _, want := range []string{"after 1s", "seed 7", "reader waits", "alpha", a.MAC().String(), "for ever"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
