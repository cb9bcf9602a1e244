package sim_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestLongPaths: long frames arrive whole or are joined from segments, or vanish, as the sender's path says at the time.
func TestLongPaths(t *testing.T) {
	w := sim.New(sim.Options{Long: sim.LongWhole})
	a, b := w.Station("a"), w.Station("b")
	if !a.StartLong() || !b.StartLong() || !a.ReceiveLong(true) || !b.ReceiveLong(true) {
		t.Fatal("no long frames")
	}
	f := linktest.NewFrame(a.Info(), b.Info(), 1024, make([]byte, 20_000))
	views := make([][]byte, 4)
	for _, c := range []struct {
		path    sim.LongPath
		arrives int
		cut     uint64
	}{{sim.LongWhole, 1, 0}, {sim.LongCut, 1, 14}, {sim.LongBlocked, 0, 14}, {sim.LongCut, 1, 28}, {sim.LongWhole, 1, 28}} {
		a.SetLong(c.path)
		if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := w.Sleep(1e6); err != nil {
			t.Fatal(err)
		}
		n, err := b.Recv(views)
		if n != c.arrives || err != nil || b.Stats().RxCut != c.cut || (b.Rest() > 0) != (n > 0) || n > 0 && b.Cut() != (c.path == sim.LongCut) {
			t.Errorf("path %d: %d, %v; counters %+v", c.path, n, err, b.Stats())
		}
	}
	data := [][]byte{make([]byte, 20_000)}
	if b.Fetch(ethertype.HeaderSize-1, data) || !b.Fetch(ethertype.HeaderSize, data) || b.Fetch(ethertype.HeaderSize, data) {
		t.Error("the end of the last frame")
	}
	if st := w.Stats(); st.Blocked != 1 || st.Copies != 31 || st.Copies != st.Delivered+st.Blocked {
		t.Errorf("%+v", st)
	}
}
