package conn

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// TestPackLong: messages of 256 bytes and more share long frames where the path carries
// those; shorter ones share the others.
func TestPackLong(t *testing.T) {
	c := &Conn{Path: Path{Data: 1400, MaxData: 65000}}
	c.tx.c = c
	for total, want := range map[uint32]int{0: 1400, 64: 1400, 255: 1400, 256: 65000, 1024: 65000, 1025: 65000, 60000: 65000} {
		d := &Descriptor{}
		d.total = total
		if got := c.tx.shared(d); got != want {
			t.Errorf("messages of %d bytes share frames of %d bytes, want %d", total, got, want)
		}
	}
	if c.Path.MaxData = c.Path.Data; c.tx.shared(&Descriptor{}) != 1400 {
		t.Error("where no long frames go, they share others than such as go there")
	}
}

// TestWritesJoin: short writes and reads that are posted faster than frames leave share Ethernet
// frames, and each is done; long ones go at once.
func TestWritesJoin(t *testing.T) {
	const times = 40
	for _, c := range []struct {
		op    code.Op
		more  bool
		size  int
		least int
		most  int
	}{{code.OpRDMAWrite, true, 8, 3, times / 3}, {code.OpRDMAWrite, false, 8, 3, times}, {code.OpRDMARead, false, 8, 3, times / 2}, {code.OpRDMAWrite, true, 1000, times, 3 * times}} {
		p := newPair(t, reliability.ReliableDelivery, 1500)
		e := p.ends[0]
		for i := range outAt + 2000 {
			e.heap[i], e.peer.heap[i] = byte(i), byte(i+1)
		}
		for i := range times {
			d := e.descriptor(outAt+i, c.size)
			d.RDMA = e.peer.remote(lentAt + i*c.size)
			if c.more {
				d.when = More
			}
			if d.Op = c.op; c.op == code.OpRDMARead {
				d = e.descriptor(readAt+i*c.size, c.size)
				d.Op, d.RDMA = c.op, e.peer.remote(outAt+i)
			}
			e.post(d, false)
		}
		if waits := e.sent == corkFrom; waits != (c.size == 8 && (c.more || c.op == code.OpRDMARead)) {
			t.Errorf("%d frames left at once of %d of %v of %d bytes, more to come: %v", e.sent, times, c.op, c.size, c.more)
		}
		p.run(func() bool { return e.c.SQ.Pending() == 0 })
		for i := range times {
			got, want := e.peer.heap[lentAt+i*c.size:][:c.size], e.heap[outAt+i:][:c.size]
			if c.op == code.OpRDMARead {
				got, want = e.heap[readAt+i*c.size:][:c.size], e.peer.heap[outAt+i:][:c.size]
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%v %d of %d bytes: % x, want % x", c.op, i, c.size, got, want)
			}
		}
		if sent := e.sent; sent < c.least || sent > c.most {
			t.Errorf("%d frames for %d of %v of %d bytes, want %d to %d", sent, times, c.op, c.size, c.least, c.most)
		}
	}
}

// TestJoinedTooLong: where shared frames do not pass any more, few are lost.
func TestJoinedTooLong(t *testing.T) {
	const rounds, each = 100, 10
	p := newPair(t, reliability.ReliableDelivery, 1500)
	e := p.ends[0]
	lost := 0
	e.longer = func(frame []byte) bool {
		if len(frame) > 200 {
			lost++
		}
		return len(frame) > 200
	}
	for range rounds {
		for i := range each {
			d := e.descriptor(outAt+8*i, 8)
			d.Op, d.RDMA, d.when = code.OpRDMAWrite, e.peer.remote(lentAt+8*i), More
			e.post(d, false)
		}
		p.run(func() bool { return e.c.SQ.Pending() == 0 })
		for e.c.SQ.Dequeue() != nil {
		}
	}
	if lost == 0 || lost > rounds*each/64+1 {
		t.Errorf("%d frames of %d were lost", lost, rounds*each)
	}
}
