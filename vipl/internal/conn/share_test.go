package conn

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// keeper is a link that keeps the frames, but takes none while it is full.
type keeper struct {
	full   bool
	frames [][]byte
}

func (l *keeper) Send(frames []transport.Frame) (int, error) {
	if l.full {
		return 0, nil
	}
	for i := range frames {
		l.frames = append(l.frames, frames[i].AppendTo(nil))
	}
	return len(frames), nil
}

// sharing is what AddShared is told of a NIC.
type sharing struct {
	peer uint64
	most int
	to   byte   // the station
	port uint16 // of it
}

// addShared adds a frame with data that may share one with others.
func addShared(b *Batch, s *sharing, seq ethertype.Seq, data []byte) {
	slot := b.Slot()
	h := ethertype.Header{Dst: ethertype.MAC{2, 5: s.to}, DstPort: s.port, Kind: ethertype.KindData, Seq: seq, Size: uint16(len(data)), Length: uint32(len(data))}
	h.Put(slot)
	b.AddShared(&joining{Peer: s.peer}, s.most, false, slot[:ethertype.HeaderSize+copy(slot[ethertype.HeaderSize:], data)])
}

// seqs returns the sequence numbers of all frames, those of one Ethernet frame together.
func (l *keeper) seqs(t *testing.T) (all [][]ethertype.Seq) {
	for _, frame := range l.frames {
		var in []ethertype.Seq
		for frame != nil {
			var h ethertype.Header
			payload, err := h.Parse(frame)
			if err != nil || !bytes.Equal(payload, data(h.Seq)) {
				t.Fatalf("%v: % x", err, frame)
			}
			in, frame = append(in, h.Seq), h.Next(frame)
		}
		all = append(all, in)
	}
	return all
}

func data(seq ethertype.Seq) []byte { return bytes.Repeat([]byte{byte(seq)}, 40+int(seq)) }

// TestShared: frames share an Ethernet frame if they are for one NIC, follow one another, and
// there is room; each is whole.
func TestShared(t *testing.T) {
	one, other := &sharing{peer: 1, most: 1500}, &sharing{peer: 2, most: 1500}
	liar, neighbour := &sharing{peer: 1, most: 1500, to: 1}, &sharing{peer: 1, most: 1500, port: framing.PortBlock}
	short, none := &sharing{peer: 1, most: 250}, &sharing{most: 1500}
	for name, c := range map[string]struct {
		with []*sharing // nil: it has a body, and is added by Add
		want []int      // how many are in each Ethernet frame
	}{
		"one NIC":  {[]*sharing{one, one, one}, []int{3}},
		"two NICs": {[]*sharing{one, other, one, one}, []int{1, 1, 2}},
		"a station that gives another's incarnation as its own": {[]*sharing{one, liar, one}, []int{1, 1, 1}},
		"a program that does": {[]*sharing{one, one, neighbour, neighbour}, []int{2, 2}},
		"no NIC":              {[]*sharing{none, none, one}, []int{1, 1, 1}},
		"no room":             {[]*sharing{short, short, short, short}, []int{2, 2}},
		"a long frame":        {[]*sharing{one, nil, one, one}, []int{1, 1, 2}},
	} {
		link := &keeper{}
		b, stats := newBatch(t, link)
		for i, s := range c.with {
			seq := ethertype.Seq(i)
			if s != nil {
				addShared(b, s, seq, data(seq))
				continue
			}
			slot := b.Slot()
			h := ethertype.Header{Kind: ethertype.KindData, Seq: seq, Size: uint16(len(data(seq))), Length: 100}
			h.Put(slot)
			b.Add(slot[:ethertype.HeaderSize], append(b.Body(), data(seq)), nil)
		}
		b.Flush(1)
		got, seq := link.seqs(t), ethertype.Seq(0)
		if len(got) != len(c.want) || stats.TxFrames != uint64(len(c.want)) || stats.TxJoined != uint64(len(c.with)-len(c.want)) {
			t.Fatalf("%s: %v, %+v", name, got, *stats)
		}
		for i, in := range got {
			if len(in) != c.want[i] {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
			for _, s := range in {
				if s != seq {
					t.Errorf("%s: out of order: %v", name, got)
				}
				seq++
			}
		}
	}
}

// TestSharedFresh: nothing is joined to a frame that the link has refused, or has taken.
func TestSharedFresh(t *testing.T) {
	one := &sharing{peer: 1, most: 1500}
	link := &keeper{full: true}
	b, _ := newBatch(t, link)
	addShared(b, one, 0, data(0))
	b.Flush(1)
	addShared(b, one, 1, data(1))
	link.full = false
	b.Flush(b.RetryAt(1))
	addShared(b, one, 2, data(2))
	b.Flush(b.RetryAt(1))
	if got := link.seqs(t); len(got) != 3 {
		t.Errorf("%v", got)
	}
}
