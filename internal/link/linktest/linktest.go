// Package linktest is the suite that every transport.Link passes.
package linktest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Pair is two or three links on one segment that loses no frames, and on which no one else uses
// their EtherType. Run closes them.
type Pair struct {
	// A and B are different stations.
	A, B transport.Link
	// SameHost reports that the stations have one MAC address and different ports, like those of
	// one host.
	SameHost bool
	// C is at B's station with other ports. If it is nil, tests that need it are skipped.
	C transport.Link
	// Driven reports that frames move only while a goroutine polls or waits on their links, as with
	// a card without a processor of its own. A frame that A has accepted may stay there until B's
	// polling returns credit and A's polling notices it. The suite therefore also waits on A while
	// it expects frames at B, as the engine of a program would. A full queue drops nothing:
	// Overflow tests that instead.
	Driven bool
	// Allocates reports that the links may allocate, for example because they format text.
	Allocates bool
}

// Run runs the suite, each test on a fresh pair from open.
//
// On a link whose Info reports Virtual, time passes only in Wait, and one goroutine drives it.
// Tests with a second goroutine that waits, wakes or closes do not apply to it. All other tests
// block only in Wait.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	tests := []struct {
		name string
		run  func(*suite)
		real bool // needs real time and a second goroutine
	}{
		{"Info", (*suite).info, false},
		{"Order", (*suite).order, false},
		{"Batch", (*suite).batch, false},
		{"Bodies", (*suite).bodies, false},
		{"Sizes", (*suite).sizes, false},
		{"TooLong", (*suite).tooLong, false},
		{"TooManyParts", (*suite).tooManyParts, false},
		{"Views", (*suite).views, false},
		{"OneView", (*suite).oneView, false},
		{"Ports", (*suite).ports, false},
		{"PortAll", (*suite).portAll, false},
		{"Foreign", (*suite).foreign, false},
		{"OuterLayout", (*suite).outerLayout, false},
		{"WaitDeadline", (*suite).waitDeadline, false},
		{"WaitFrame", (*suite).waitFrame, false},
		{"WakeBefore", (*suite).wakeBefore, false},
		{"WakeDuring", (*suite).wakeDuring, true},
		{"FrameDuring", (*suite).frameDuring, true},
		{"WakeAnytime", (*suite).wakeAnytime, true},
		{"WakeAtEnd", (*suite).wakeAtEnd, true},
		{"Closed", (*suite).closed, false},
		{"CloseDuringWait", (*suite).closeDuringWait, true},
		{"CloseDuringAll", (*suite).closeDuringAll, true},
		{"Counters", (*suite).counters, false},
		{"Overflow", (*suite).overflow, false},
		{"Allocations", (*suite).allocations, false},
		{"LongFrames", (*suite).longFrames, false},
		{"LongDropped", (*suite).longDropped, false},
		{"LongLimits", (*suite).longLimits, false},
		{"LongAllocations", (*suite).longAllocations, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := open(t)
			s := &suite{T: t, Pair: p}
			t.Cleanup(s.close)
			if test.real && p.A.Info().Virtual {
				t.Skip("needs real time: the link is virtual")
			}
			test.run(s)
		})
	}
}

// suite is the state of one test.
type suite struct {
	*testing.T
	Pair
}

// close closes the links concurrently, because the kernel takes about 20 ms to close a packet
// socket.
func (s *suite) close() {
	var all sync.WaitGroup
	for _, l := range []transport.Link{s.A, s.B, s.C} {
		if l == nil {
			continue
		}
		all.Go(func() {
			if err := l.Close(); err != nil {
				s.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
}

// patience is the maximum time a test waits for an expected event.
const patience = int64(10 * time.Second)

// NewFrame returns a sealed frame from one link to a port of another.
func NewFrame(from, to transport.Info, port uint16, payload []byte) []byte {
	h := ethertype.Header{
		Dst: to.MAC, Src: from.MAC, Type: from.EtherType, Kind: ethertype.KindEcho,
		DstPort: port, SrcPort: from.Ports.Lo, Size: uint16(len(payload)),
	}
	f := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(payload))
	h.Put(f)
	ethertype.Seal(f)
	return append(f, payload...)
}

// frame returns a frame from A to B's first port.
func (s *suite) frame(payload []byte) transport.Frame {
	b := s.B.Info()
	return transport.Frame{Head: NewFrame(s.A.Info(), b, b.Ports.Lo, payload)}
}

// pattern returns n bytes that depend on position and seed.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

// maxPayload is the largest payload that fits the MTU.
func (s *suite) maxPayload() int {
	mtu := s.A.Info().MTU
	if l, ok := s.A.(optional.Local); ok && s.SameHost {
		mtu = l.LocalMTU()
	}
	return mtu + ethertype.EthernetSize - ethertype.HeaderSize
}

// send sends all frames from A, and waits while the network is full.
func (s *suite) send(frames ...transport.Frame) {
	s.Helper()
	for end := s.A.Now() + patience; len(frames) > 0; {
		n, err := s.A.Send(frames)
		if err != nil {
			s.Fatalf("Send: %v", err)
		}
		if frames = frames[n:]; n > 0 || len(frames) == 0 {
			continue
		}
		now := s.A.Now()
		if now >= end {
			s.Fatalf("Send: the queue stays full; counters: %+v", s.A.Stats())
		}
		if err := s.A.Wait(now + int64(time.Millisecond)); err != nil {
			s.Fatalf("Wait: %v", err)
		}
	}
}

// receive returns copies of the next n frames that arrive at l.
func (s *suite) receive(l transport.Link, n int) [][]byte {
	s.Helper()
	var got [][]byte
	views := make([][]byte, transport.MaxBatch)
	for end := l.Now() + patience; len(got) < n; {
		k, err := l.Recv(views[:min(len(views), n-len(got))])
		if err != nil {
			s.Fatalf("Recv: %v", err)
		}
		for _, v := range views[:k] {
			got = append(got, bytes.Clone(v))
		}
		if k > 0 {
			continue
		}
		if l.Now() >= end {
			s.Fatalf("%d of %d frames arrived; counters: %+v", len(got), n, l.Stats())
		}
		until := end
		if s.Driven {
			until = l.Now() + int64(time.Millisecond)
			if err := s.A.Wait(s.A.Now()); err != nil {
				s.Fatalf("Wait: %v", err)
			}
		}
		if err := l.Wait(until); err != nil {
			s.Fatalf("Wait: %v", err)
		}
	}
	return got
}

// expect receives len(want) frames at l and compares them. Padding may follow.
func (s *suite) expect(l transport.Link, want ...transport.Frame) {
	s.Helper()
	for i, got := range s.receive(l, len(want)) {
		sent := want[i].AppendTo(nil)
		if !bytes.HasPrefix(got, sent) {
			s.Fatalf("frame %d of %d: got %d bytes\n%x\nwant %d bytes\n%x", i, len(want),
				len(got), clip(got), len(sent), clip(sent))
		}
		if len(got) > max(len(sent), 60) {
			s.Fatalf("frame %d of %d: got %d bytes, sent %d", i, len(want), len(got), len(sent))
		}
	}
}

// clip shortens a frame for printing.
func clip(b []byte) []byte { return b[:min(len(b), 128)] }
