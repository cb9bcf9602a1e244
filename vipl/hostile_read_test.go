package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// forger writes frames to a in b's name.
type forger struct {
	*duo
	like ethertype.Header // b's last frame, which has no seq before and is in order
}

const forgedDepth = 4

func newForger(t *testing.T) *forger {
	f := &forger{duo: readable(t, reliability.ReliableDelivery, forgedDepth)}
	in := f.post(f.a, 8)
	l := f.links[0]
	f.send(f.b, 8)
	if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
		t.Fatal(err)
	}
	f.run()
	x, err := f.a.RecvDone()
	f.took(x, err, in, vipl.StatusOpReceive)
	return f
}

// forge lets a take in a frame that comes in its turn, of payload behind what h
// says.
func (f *forger) forge(h ethertype.Header, payload []byte) {
	f.like.Seq++
	h.Dst, h.Src, h.Type, h.DstPort, h.SrcPort, h.Tag = f.like.Dst, f.like.Src, f.like.Type, f.like.DstPort, f.like.SrcPort, f.like.Tag
	h.Seq, h.Size, h.Count = f.like.Seq, uint16(len(payload)), 1
	if h.Ack == 0 {
		h.Ack = f.like.Ack
	}
	b := make([]byte, ethertype.HeaderSize, ethertype.HeaderSize+len(payload))
	h.Put(b)
	b = append(b, payload...)
	ethertype.Seal(b)
	if n, _ := f.links[1].Send([]transport.Frame{{Head: b}}); n != 1 {
		f.t.Fatal("the wire is full")
	}
	f.na.Poll()
}

// asking has a wait for the answer to a read of size bytes, and the forger know
// of the request.
func (f *forger) asking(size int) *vipl.Descriptor {
	f.like.Ack++
	return f.read(f.a, size, vipl.RemoteSegment{Addr: 1 << 20, Handle: 1})
}

// TestForgedReadData sends answers that nobody asked for, and wrong ones: the
// connection ends, and nothing beyond what was asked for is written.
func TestForgedReadData(t *testing.T) {
	data := func(h ethertype.Header, size int) func(f *forger) {
		h.Kind = ethertype.KindReadData
		return func(f *forger) { f.forge(h, make([]byte, size)) }
	}
	for name, forge := range map[string]func(f *forger){
		"NoRead":       data(ethertype.Header{Length: 8}, 8),
		"Empty":        data(ethertype.Header{Flags: ethertype.FlagLast}, 0),
		"NoSuchRead":   func(f *forger) { f.asking(8); data(ethertype.Header{Msg: 1, Length: 8}, 8)(f) },
		"ReadBefore":   func(f *forger) { f.asking(8); data(ethertype.Header{Msg: ^ethertype.Seq(0), Length: 8}, 8)(f) },
		"TooLong":      func(f *forger) { f.asking(8); data(ethertype.Header{Length: 9}, 8)(f) },
		"TooShort":     func(f *forger) { f.asking(8); data(ethertype.Header{Length: 7}, 7)(f) },
		"BeforeAsked":  func(f *forger) { f.asking(8); f.like.Ack--; data(ethertype.Header{Length: 8}, 8)(f) },
		"BytesMissing": func(f *forger) { f.asking(8); data(ethertype.Header{Flags: ethertype.FlagLast, Length: 8}, 7)(f) },
		"BytesTwice": func(f *forger) {
			f.asking(8)
			data(ethertype.Header{Length: 8}, 5)(f)
			f.alive()
			data(ethertype.Header{Length: 8, Offset: 4}, 4)(f)
		},
		"AfterTheEnd": func(f *forger) {
			r := f.asking(8)
			data(ethertype.Header{Flags: ethertype.FlagLast, Length: 8}, 8)(f)
			x, err := f.a.SendDone()
			f.took(x, err, r, vipl.StatusOpRDMARead)
			data(ethertype.Header{Length: 8}, 8)(f)
		},
		"SecondTooShort": func(f *forger) { // into one segment, by when such frames are predicted
			r := f.asking(9)
			data(ethertype.Header{Flags: ethertype.FlagLast, Length: 9}, 9)(f)
			x, err := f.a.SendDone()
			f.took(x, err, r, vipl.StatusOpRDMARead)
			f.asking(9)
			data(ethertype.Header{Flags: ethertype.FlagLast, Msg: 1, Length: 8}, 8)(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			forge(f)
			f.run()
			f.ended(vipl.ErrProtocol)
		})
	}
}

// TestForgedReadRequests asks for more reads than the owner serves at a time,
// and under wrong numbers.
func TestForgedReadRequests(t *testing.T) {
	ask := func(f *forger, m ethertype.Seq, size uint32, at vipl.RemoteSegment) {
		b := make([]byte, ethertype.RDMASize)
		ethertype.RDMA{Addr: at.Addr, Handle: uint32(at.Handle)}.Put(b)
		f.forge(ethertype.Header{Kind: ethertype.KindRDMARead, Msg: m, Length: size}, b)
	}
	for name, forge := range map[string]func(f *forger, at vipl.RemoteSegment){
		"TooMany": func(f *forger, at vipl.RemoteSegment) {
			for m := range ethertype.Seq(forgedDepth) {
				ask(f, m, 4000, at)
				f.links[1].tail = f.links[1].head + f.links[1].lent // b never hears of an answer
			}
			if f.a.State() != vipl.StateConnected {
				f.t.Fatal("the connection ended too early:", f.a.Err())
			}
			ask(f, forgedDepth, 4000, at)
		},
		"Ahead": func(f *forger, at vipl.RemoteSegment) { ask(f, forgedDepth, 8, at) },
		"Twice": func(f *forger, at vipl.RemoteSegment) {
			ask(f, 1, 8, at)
			f.alive()
			ask(f, 1, 8, at)
		},
		"ServedBefore": func(f *forger, at vipl.RemoteSegment) {
			ask(f, 0, 8, at)
			f.alive()
			ask(f, 0, 8, at)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			_, at := f.source(f.na, 1, 4000)
			forge(f, at)
			if f.run(); f.a.State() != vipl.StateError {
				t.Error("the connection holds")
			}
		})
	}
	t.Run("Unreliable", func(t *testing.T) {
		d := newDuo(t, &vipl.Attributes{Reliability: reliability.Unreliable}, &vipl.Attributes{Reliability: reliability.Unreliable})
		f := &forger{duo: d}
		l := f.links[0]
		f.send(f.b, 8)
		if _, err := f.like.Parse(l.slots[(l.tail-1)%memSlots][:l.lens[(l.tail-1)%memSlots]]); err != nil {
			t.Fatal(err)
		}
		_, at := f.source(f.na, 1, 64)
		ask(f, 0, 64, at)
		f.forge(ethertype.Header{Kind: ethertype.KindReadData, Length: 8}, make([]byte, 8))
		f.run()
		f.alive()
		if n := f.na.Snapshot().Dropped[drops.Format]; n != 2 {
			t.Errorf("%d frames dropped for their format, want 2", n)
		}
	})
}
