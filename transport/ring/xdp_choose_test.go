package ring

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// TestVerdict gives the times of trials and expects the limits.
func TestVerdict(t *testing.T) {
	info := transport.Info{MAC: ethertype.MAC{2}, EtherType: ethertype.Default, Ports: transport.PortRange{Lo: 1024, Hi: 2047}}
	const fast, slow, even = 700, 1300, 990 // against 1000
	for _, test := range []struct {
		limit         int
		xdp           []int64
		batch, single int
	}{
		{4096, []int64{slow, fast, fast, fast}, 4096, 0},
		{4096, []int64{fast, fast, fast, slow}, 1514, 256},
		{4096, []int64{slow, fast, slow, fast}, 256, 0},
		{4096, []int64{even, even, even, even}, 0, 0},
		{4096, []int64{fast, slow, fast, fast}, 0, 256},
		{1514, []int64{slow, fast, fast}, 1514, 0},
		{1014, []int64{slow, fast, even}, 256, 0},
		{82, []int64{fast, fast}, 82, 82},
	} {
		trials := newTrials(info, test.limit)
		if len(trials) != len(test.xdp) {
			t.Errorf("limit %d: %d trials, want %d", test.limit, len(trials), len(test.xdp))
			continue
		}
		for i := range trials {
			trials[i].packet, trials[i].xdp = 1000, test.xdp[i]
		}
		if e := verdict(trials); e.batch != test.batch || e.single != test.single {
			t.Errorf("limit %d, times %v: batch %d, single %d; want %d, %d", test.limit, test.xdp, e.batch, e.single, test.batch, test.single)
		}
	}
	for _, k := range newTrials(info, 4096) { // a way that failed has no times
		if k.gain() {
			t.Error("a trial without times gains")
		}
	}
}

// TestFit asks which way batches go.
func TestFit(t *testing.T) {
	frame := func(size int) transport.Frame { return transport.Frame{Head: make([]byte, size)} }
	parts := func(size int) transport.Frame {
		return transport.Frame{Head: make([]byte, 60), Body: [][]byte{make([]byte, size-60)}}
	}
	many := transport.Frame{Head: make([]byte, 60), Body: make([][]byte, transport.MaxBody+1)}
	const mtu = 9014
	e := express{batch: 1514, single: 256}
	for name, test := range map[string]struct {
		batch []transport.Frame
		want  int
	}{
		"alone":                 {[]transport.Frame{frame(256)}, 1},
		"alone and too long":    {[]transport.Frame{frame(257)}, 0},
		"alone in parts":        {[]transport.Frame{parts(1514)}, 1},
		"batch":                 {[]transport.Frame{frame(60), parts(1514), frame(1000)}, 3},
		"one too long":          {[]transport.Frame{frame(60), frame(1515), frame(60)}, 0},
		"beyond the MTU":        {[]transport.Frame{frame(60), frame(mtu + 1), frame(60)}, 1},
		"too many parts":        {[]transport.Frame{frame(60), frame(60), many}, 2},
		"first with many parts": {[]transport.Frame{many, frame(60)}, 0},
	} {
		if got := e.fit(test.batch, mtu); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
		if got := new(express).fit(test.batch, mtu); got != 0 {
			t.Errorf("%s: %d without a socket", name, got)
		}
	}
}

// TestTrialFrames: who sees a trial on the wire knows what it is, and nobody takes
// it.
func TestTrialFrames(t *testing.T) {
	for _, k := range newTrials(transport.Info{EtherType: ethertype.Default}, 1514) {
		frame := k.frames[0].Head
		var h ethertype.Header
		if _, err := h.Parse(frame); err != ethertype.ErrKind || h.Kind != ethertype.KindTrial || frame[ethertype.EthernetSize] != ethertype.Version {
			t.Errorf("%v, %v, version %d", h.Kind, err, frame[ethertype.EthernetSize])
		}
	}
}
