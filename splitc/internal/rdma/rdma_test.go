package rdma

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
)

var seeds = seedtest.Flags("splitc/internal/rdma", 10).Each

func TestLayer(t *testing.T) { layertest.Run(t, Open, seeds) }

func TestGather(t *testing.T) { layertest.Gathers(t, Open, seeds) }

// TestGathered: long data in the heap have a segment of their own, where they lie, and no
// others: what is short, or is elsewhere, is copied.
func TestGathered(t *testing.T) {
	const home, heapHandle = 1, 2
	l := &Layer{Base: mesh.Base{Memory: make([]byte, 8192)}, handle: heapHandle}
	elsewhere := make([]byte, layer.MaxControl)
	s := &slot{p: new(peer)}
	s.init(make([]byte, messageSize), home)
	for _, c := range []struct {
		data []byte
		segs int
	}{
		{l.Memory[4096:][:gather], 2}, {l.Memory[8192-1024:], 2}, {l.Memory[4096:][:gather-1], 1}, {elsewhere[:1024], 1}, {nil, 1},
	} {
		head := []byte("head")
		n := l.build(s, &header{kind: kindControl}, head)
		segs, sent := l.append(s, n, c.data), 0
		for _, seg := range s.segs[:segs] {
			sent += len(seg.Data)
		}
		if segs != c.segs || sent != headerSize+len(head)+len(c.data) {
			t.Errorf("%d bytes are sent in %d segments for %d of data, want %d", sent, segs, len(c.data), c.segs)
		}
		if segs == 2 && (&s.segs[1].Data[0] != &c.data[0] || s.segs[1].Handle != heapHandle) {
			t.Errorf("%d bytes of the heap are not sent from where they lie", len(c.data))
		}
	}
}
