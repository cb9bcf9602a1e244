package vipl_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bobnet-go/bobnet/internal/conformance"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// markLink swallows long frames once it holds, and keeps the mark of the last one.
type markLink struct {
	transport.Link
	hold atomic.Bool
	long atomic.Int64
	mark atomic.Pointer[atomic.Uint64]
}

func (l *markLink) Send(frames []transport.Frame) (int, error) {
	if !l.hold.Load() || frames[0].Len() < 10_000 {
		return l.Link.Send(frames[:1])
	}
	l.mark.Store(frames[0].Mark)
	l.long.Add(1)
	return 1, nil
}

// TestMark: the data of a message can be lent from the time when it is posted until it is completed. Data of the
// unreliable level cannot, because such a send completes at once.
func TestMark(t *testing.T) {
	for _, level := range []reliability.Level{reliability.Unreliable, reliability.ReliableDelivery, reliability.ReliableReception} {
		t.Run(level.String(), func(t *testing.T) {
			var nics [2]*vipl.NIC
			var sender markLink
			for side := range nics {
				link, err := shm.Open(nil)
				if err != nil {
					t.Fatal(err)
				}
				cfg := vipl.Config{Link: link, WireOnly: true}
				if side == 0 {
					sender.Link = link
					cfg.Link = conformance.KeepLocal(link, &sender)
				}
				if nics[side], err = vipl.Open(t.Context(), &cfg); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nics[side].Close() })
			}
			a, _ := join(t, nics, &vipl.Attributes{Reliability: level})
			data, handle, err := nics[0].AllocMem(20_000, nil)
			if err != nil {
				t.Fatal(err)
			}
			sender.hold.Store(true)
			d := &vipl.Descriptor{Segs: []vipl.Segment{{Data: data, Handle: handle}}}
			if err := a.PostSend(d); err != nil {
				t.Fatal(err)
			}
			mark := sender.mark.Load()
			if sender.long.Load() == 0 || (mark != nil) != (level != reliability.Unreliable) {
				t.Fatalf("%d long frames with the mark %v", sender.long.Load(), mark)
			}
			if mark == nil {
				return
			}
			if mark.Load() == 0 {
				t.Error("the data cannot be lent while the send is in progress")
			}
			if err := a.Disconnect(); err != nil {
				t.Fatal(err)
			}
			if _, err := a.SendDone(); errors.Is(err, vipl.ErrNotDone) || mark.Load() != 0 {
				t.Errorf("after the end the send's state is %v, and the mark %#x", err, mark.Load())
			}
		})
	}
}
