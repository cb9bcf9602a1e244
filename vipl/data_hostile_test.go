package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// fragment forges n bytes of a message of length bytes, from offset on. The
// message is the one that goes into the oldest receive.
func (f *forger) fragment(offset, n, length uint32, flags ethertype.Flags) {
	f.forge(ethertype.Header{Kind: ethertype.KindData, Flags: flags, Msg: f.like.Msg + 1, Offset: offset, Length: length}, make([]byte, n))
}

// written is fragment for an RDMA write with immediate data, to at.
func (f *forger) written(at vipl.RemoteSegment, offset, n, length uint32, flags ethertype.Flags) {
	b := make([]byte, ethertype.RDMASize+int(n))
	ethertype.RDMA{Addr: at.Addr, Handle: uint32(at.Handle), Immediate: 7}.Put(b)
	f.forge(ethertype.Header{Kind: ethertype.KindRDMAWrite, Flags: flags | ethertype.FlagImmediate, Msg: f.like.Msg + 1, Offset: offset, Length: length}, b)
}

// packed forges a packed frame with a message of n bytes.
func (f *forger) packed(n int) {
	b := make([]byte, ethertype.Packed(n))
	ethertype.Record{Size: uint16(n)}.Put(b)
	f.forge(ethertype.Header{Kind: ethertype.KindData, Flags: ethertype.FlagPacked, Msg: f.like.Msg + 1}, b)
}

// TestForgedData sends messages whose frames contradict each other: the
// connection ends, and no receive completes with bytes that nobody has sent.
func TestForgedData(t *testing.T) {
	const last = ethertype.FlagLast
	for name, forge := range map[string]func(f *forger, at vipl.RemoteSegment){
		"BytesMissing": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 12, 0)
			f.alive()
			f.fragment(8, 4, 12, last)
		},
		"BytesTwice": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 5, 8, 0)
			f.alive()
			f.fragment(4, 4, 8, last)
		},
		"LastFirst": func(f *forger, _ vipl.RemoteSegment) { f.fragment(0, 4, 8, last) },
		"OtherLength": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.fragment(4, 4, 9, last)
		},
		"PackedOverFragments": func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.packed(8)
		},
		"SendOverWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.fragment(4, 4, 8, last)
		},
		"PackedOverWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.packed(8)
		},
		"WriteOverSend": func(f *forger, at vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.alive()
			f.written(at, 4, 4, 8, last)
		},
		"OtherLengthOfWrite": func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.alive()
			f.written(at, 4, 5, 9, last)
		},
		"BytesOfWriteMissing": func(f *forger, at vipl.RemoteSegment) { f.written(at, 0, 4, 8, last) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			in := f.post(f.a, 64)
			_, at := f.source(f.na, 1, 64)
			forge(f, at)
			f.run()
			f.ended(vipl.ErrProtocol)
			if d, _ := f.a.RecvDone(); d != in || !d.Status.Failed() {
				t.Errorf("the receive completed with %v", in.Status)
			}
		})
	}
}

// TestForgedLooseData: on the unreliable level a frame of another kind than the
// message that it says to belong to is dropped, and the message goes on.
func TestForgedLooseData(t *testing.T) {
	const last = ethertype.FlagLast
	for name, c := range map[string]struct {
		forge func(f *forger, at vipl.RemoteSegment)
		want  vipl.Status
	}{
		"SendOverWrite": {func(f *forger, at vipl.RemoteSegment) {
			f.written(at, 0, 4, 8, 0)
			f.fragment(4, 4, 8, last)
			f.written(at, 4, 4, 8, last)
		}, vipl.StatusOpRemoteRDMAWrite | vipl.StatusImmediate},
		"WriteOverSend": {func(f *forger, at vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.written(at, 4, 4, 8, last)
			f.fragment(4, 4, 8, last)
		}, vipl.StatusOpReceive},
		"OtherLength": {func(f *forger, _ vipl.RemoteSegment) {
			f.fragment(0, 4, 8, 0)
			f.fragment(4, 4, 9, last)
			f.fragment(4, 4, 8, last)
		}, vipl.StatusOpReceive},
	} {
		t.Run(name, func(t *testing.T) {
			attr := &vipl.Attributes{Reliability: reliability.Unreliable, EnableRDMAWrite: true}
			f := &forger{duo: newDuo(t, attr, attr)}
			l := f.links[0]
			f.send(f.b, 8)
			if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
				t.Fatal(err)
			}
			f.run()
			in := f.post(f.a, 64)
			_, at := f.source(f.na, 1, 64)
			c.forge(f, at)
			if n := f.na.Snapshot().Dropped[vipl.DropRange]; n != 1 {
				t.Errorf("%d frames dropped, want the one between", n)
			}
			d, err := f.a.RecvDone()
			f.took(d, err, in, c.want)
			f.alive()
		})
	}
}

// TestForgedAcks: a frame in its turn that acknowledges what was never sent is
// dropped whole, though it comes alone, so that its acknowledgement could wait.
func TestForgedAcks(t *testing.T) {
	for name, change := range map[string]func(f *forger, h *ethertype.Header){
		"Ahead":  func(f *forger, h *ethertype.Header) { h.Ack = f.like.Ack + 9 },
		"Behind": func(f *forger, h *ethertype.Header) { h.Ack = f.like.Ack - 1<<30 - 9 },
		"Sack":   func(f *forger, h *ethertype.Header) { h.Sack = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			f.post(f.a, 64)
			h := ethertype.Header{Kind: ethertype.KindData, Flags: ethertype.FlagLast, Msg: f.like.Msg + 1, Length: 8}
			change(f, &h)
			f.forge(h, make([]byte, 8))
			if d, err := f.a.RecvDone(); d != nil || f.na.Snapshot().Dropped[vipl.DropAck] != 1 {
				t.Errorf("took %v (%v); drops: %v", d, err, f.na.Snapshot().Dropped)
			}
			f.alive()
		})
	}
}
