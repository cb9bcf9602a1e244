package linktest

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// counters compares the counters of both ends with the frames sent.
func (s *suite) counters() {
	frames, nbytes := 0, 0
	for i := range 40 {
		batch := []transport.Frame{s.frame(pattern(min(i, s.maxPayload()), i)), s.frame(pattern(min(2*i, s.maxPayload()), i))}
		s.send(batch...)
		s.expect(s.B, batch...)
		frames += 2
		nbytes += batch[0].Len() + batch[1].Len()
	}
	if n, err := s.B.Recv(make([][]byte, 1)); n != 0 || err != nil { // after it all frames are counted
		s.Fatalf("Recv of an empty queue: %d, %v", n, err)
	}
	a, b := s.A.Stats(), s.B.Stats()
	want := transport.Stats{TxFrames: uint64(frames), TxBytes: uint64(nbytes)}
	if a.TxFrames != want.TxFrames || a.TxBytes != want.TxBytes || a.TxDrops != 0 || a.RxFrames != 0 {
		s.Errorf("sender: %+v, want %+v", a, want)
	}
	if b.RxFrames != want.TxFrames || b.RxBytes != want.TxBytes || b.RxDrops+b.RxTruncated != 0 || b.TxFrames != 0 {
		s.Errorf("receiver: %+v, want the frames and bytes of %+v", b, want)
	}
	if a.TxCalls == 0 || a.TxCalls > a.TxFrames+a.TxFull || b.RxCalls == 0 || b.RxCalls > b.RxFrames {
		s.Errorf("calls: %d for %d frames sent, %d for %d received", a.TxCalls, a.TxFrames, b.RxCalls, b.RxFrames)
	}
}

// slotsLimit is the largest queue that overflow fills. With a larger one, queues on the path could
// also lose frames, which no link can know.
const slotsLimit = 400

// overflow sends more frames than B can hold: each is either received or counted as dropped.
func (s *suite) overflow() {
	if s.SameHost {
		s.Skip("between stations of one host the sender counts what its queue does not hold")
	}
	if s.Driven {
		s.backPressure()
		return
	}
	slots := s.B.Info().Slots
	if slots == 0 || slots > slotsLimit {
		s.Skipf("the receive queue holds %d frames; needs a known number up to %d", slots, slotsLimit)
	}
	sent := 2 * slots
	f := s.frame(pattern(min(64, s.maxPayload()), 1))
	for range sent {
		s.send(f)
	}
	views := make([][]byte, transport.MaxBatch)
	for got, end := 0, s.B.Now()+patience; ; {
		st := s.B.Stats()
		if int(st.RxDrops)+got == sent {
			if st.RxDrops == 0 || got < slots {
				s.Errorf("a queue of %d held %d of %d frames, dropped %d", slots, got, sent, st.RxDrops)
			}
			return
		}
		if s.B.Now() >= end {
			s.Fatalf("sent %d frames, received %d, counted: %+v", sent, got, st)
		}
		// No frame is received before the queue has overflowed.
		if st.RxDrops > 0 || s.B.Info().Virtual {
			n, err := s.B.Recv(views)
			if err != nil {
				s.Fatal(err)
			}
			if got += n; n > 0 {
				continue
			}
		}
		if err := s.B.Wait(s.B.Now() + int64(time.Millisecond)); err != nil {
			s.Fatal(err)
		}
	}
}

// backPressure is overflow for a driven pair, where a full queue drops nothing: frames that B does
// not poll for stay with their sender, whose Send stops when it has no room. When B polls again,
// every frame arrives, in order.
func (s *suite) backPressure() {
	if !s.A.Info().Virtual {
		s.Skip("an end that is not driven for seconds counts as gone: a process that waits for a processor would fail this; the pair in virtual time has it")
	}
	const most = 1 << 16
	var sent []transport.Frame
	for {
		f := s.frame(pattern(min(64, s.maxPayload()), len(sent)))
		n, err := s.A.Send([]transport.Frame{f})
		if err != nil {
			s.Fatal(err)
		}
		if n == 0 {
			break
		}
		if sent = append(sent, f); len(sent) == most {
			s.Fatalf("%d frames were taken, and nobody has polled for any", most)
		}
	}
	if a := s.A.Stats(); a.TxFull == 0 || a.TxDrops != 0 {
		s.Errorf("the sender has no more room after %d frames, and counts %+v", len(sent), a)
	}
	s.expect(s.B, sent...)
	if b := s.B.Stats(); b.RxDrops != 0 || int(b.RxFrames) != len(sent) {
		s.Errorf("%d frames were taken, the receiver counts %+v", len(sent), b)
	}
}

// allocations counts allocations on the paths of frames.
func (s *suite) allocations() {
	if s.Allocates {
		s.Skip("the link allocates by design")
	}
	payload := pattern(min(64, s.maxPayload()), 1)
	whole := s.frame(payload)
	split := transport.Frame{Head: whole.Head, Body: [][]byte{nil}}
	for name, batch := range map[string][]transport.Frame{
		"one": {whole}, "gathered": {split}, "batch": {whole, split, whole, split, whole, split},
	} {
		views := make([][]byte, transport.MaxBatch)
		round := func() {
			for got, rest := 0, batch; got < len(batch); {
				n, err := s.A.Send(rest)
				if err != nil {
					s.Fatal(err)
				}
				rest = rest[n:]
				if n, err = s.B.Recv(views); err != nil {
					s.Fatal(err)
				}
				if got += n; n == 0 && !s.B.Ready() {
					if err := s.B.Wait(s.B.Now() + patience); err != nil {
						s.Fatal(err)
					}
				}
			}
		}
		round()
		if n := testing.AllocsPerRun(100, round); n != 0 {
			s.Errorf("%s: %v allocations to send and receive %d frames", name, n, len(batch))
		}
	}
}
