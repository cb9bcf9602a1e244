package doctor

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// mute is a station whose answers to echoes get lost.
type mute struct{ *sim.Station }

// Send implements transport.Link.
func (m mute) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		if frames[i].Head[ethertype.EthernetSize+1] == byte(ethertype.KindEchoReply) {
			continue
		}
		if n, err := m.Station.Send(frames[i : i+1]); n == 0 {
			return i, err
		}
	}
	return len(frames), nil
}

// TestPeerGone: of three stations that were found one has ended before it is asked,
// one answers, and one is there and does not.
func TestPeerGone(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	here, stays, ends, silent := w.Station("here"), w.Station("stays"), w.Station("ends"), w.Station("silent")
	done := false
	for _, s := range []*sim.Station{stays, ends, silent} {
		w.Go(s.String(), func() {
			var link transport.Link = s
			if s == silent {
				link = mute{s}
			}
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 2})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			for !done {
				nic.Poll()
				if s.Wait(s.Now()+1e6) != nil { // killed
					return
				}
			}
		})
	}
	w.Go("here", func() {
		defer func() { done = true }()
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: here, Seed: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer nic.Close()
		found, err := discover(t.Context(), nic)
		if err != nil || len(found) != 3 {
			t.Errorf("found %v, %v", found, err)
			return
		}
		w.Kill(ends)
		for _, p := range askPeers(t.Context(), nic, found) {
			gone := p.Addr.MAC == ends.MAC()
			if answers := p.Addr.MAC == stays.MAC(); (p.SmallErr == nil) != answers || p.Gone != gone {
				t.Errorf("%+v", p)
			}
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
