package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSkippedMessage: a packed frame that comes in its turn and begins with
// another message than the next one ends the connection, whether its messages
// have room or not, and completes no receive. In particular none completes with
// the length of a message that was for another.
func TestSkippedMessage(t *testing.T) {
	posted := []int{16, 64, 256} // bytes, ascending: a message for a later receive does not fit an earlier one
	for _, c := range []struct {
		name  string
		skip  int
		sizes []int
		got   []int // messages that arrive
		cause error
	}{
		{"NoReceive", 1, []int{64, 256, 8}, nil, vipl.ErrProtocol},
		{"TooLong", 1, []int{64, 257}, nil, vipl.ErrProtocol},
		{"Fits", 1, []int{64, 256}, nil, vipl.ErrProtocol},
		{"Again", -1, []int{16, 16}, nil, vipl.ErrProtocol},
		{"BeyondAll", 3, []int{8, 8}, nil, vipl.ErrProtocol},
		{"InTurn_NoReceive", 0, []int{16, 64, 256, 8}, []int{16, 64, 256}, vipl.ErrRecvQueue},
		{"InTurn_TooLong", 0, []int{16, 65}, []int{16}, vipl.ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDuo(t, nil, nil)
			h := d.firstMessage()
			var in []*vipl.Descriptor
			for _, size := range posted {
				in = append(in, d.post(d.a, size))
			}
			h.Seq++
			h.Msg += ethertype.Seq(1 + c.skip)
			if n, _ := d.links[1].Send([]transport.Frame{{Head: packed(h, c.sizes)}}); n != 1 {
				t.Fatal("the wire is full")
			}
			d.na.Poll()
			for i, want := range in {
				got, err := d.a.RecvDone()
				switch {
				case got != want:
					t.Fatalf("receive %d: took %v (%v)", i, got, err)
				case i < len(c.got):
					if err != nil || int(got.Length) != c.got[i] {
						t.Errorf("receive %d: %d bytes, %v (%v), want %d bytes", i, got.Length, got.Status, err, c.got[i])
					}
				case err == nil || got.Length != 0:
					t.Errorf("receive %d of %d bytes completed with %d bytes, %v (%v), and no message was for it", i, posted[i], got.Length, got.Status, err)
				}
			}
			d.run()
			d.ended(c.cause)
		})
	}
}

// firstMessage sends a message from b to a and returns its frame's header.
func (d *duo) firstMessage() (h ethertype.Header) {
	d.t.Helper()
	in := d.post(d.a, 10)
	d.links[1].onSend = func(f []byte) {
		var x ethertype.Header
		if _, err := x.Parse(f); err == nil && x.Kind == ethertype.KindData {
			h = x
		}
	}
	d.send(d.b, 10)
	d.run()
	d.links[1].onSend = nil
	got, err := d.a.RecvDone()
	d.took(got, err, in, vipl.StatusOpReceive)
	return h
}

// packed returns a sealed frame like h with messages of the given sizes.
func packed(h ethertype.Header, sizes []int) []byte {
	h.Flags, h.Offset, h.Length, h.Size, h.Count = ethertype.FlagPacked, 0, 0, 0, uint16(len(sizes))
	for _, size := range sizes {
		h.Size += uint16(ethertype.Packed(size))
	}
	f := make([]byte, ethertype.HeaderSize+int(h.Size))
	h.Put(f)
	records := f[ethertype.HeaderSize:]
	for _, size := range sizes {
		ethertype.Record{Size: uint16(size)}.Put(records)
		records = records[ethertype.Packed(size):]
	}
	ethertype.Seal(f)
	return f
}
