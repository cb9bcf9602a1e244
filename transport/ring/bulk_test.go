package ring_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/linktest"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// bulkFrame returns a frame with ethertype.FlagBulk.
func bulkFrame(from, to transport.Info, payload []byte) []byte {
	f := linktest.NewFrame(from, to, to.Ports.Lo, payload)
	flags := ethertype.Flags(binary.BigEndian.Uint16(f[ethertype.FieldFlags:])) | ethertype.FlagBulk
	binary.BigEndian.PutUint16(f[ethertype.FieldFlags:], uint16(flags))
	return f
}

func newSlots(n, mtu int) []transport.BulkSlot {
	slots := make([]transport.BulkSlot, n)
	for i := range slots {
		slots[i].Frame = make([]byte, mtu+ethertype.EthernetSize)
		slots[i].At = ethertype.HeaderSize
	}
	return slots
}

// recvBulk waits for bulk frames.
func recvBulk(t *testing.T, l *ring.Link, slots []transport.BulkSlot) int {
	t.Helper()
	for {
		n, err := l.RecvBulk(slots)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return n
		}
		if err := l.Wait(l.Now() + int64(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBulk sends both kinds of frames: each arrives by its own way, and bulk
// ones where the slots say.
func TestBulk(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{Bulk: ring.On})
	if !b.Bulk() {
		t.Fatal("no bulk socket, although the test has the rights for one")
	}
	payload := []byte("straight to where it belongs, and the rest behind")
	marked := bulkFrame(a.Info(), b.Info(), payload)
	plain := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("by the ring"))
	slots := newSlots(4, 1500)
	if err := b.StartBulk(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.RecvBulk(slots); n != 0 || err != nil {
		t.Fatalf("RecvBulk of nothing = %d, %v", n, err)
	}
	if n, err := a.Send([]transport.Frame{{Head: marked}, {Head: plain}, {Head: marked}}); n != 3 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	slots[0].Body = make([]byte, 28) // the second slot has no guess
	for got := 0; got < 2; got += recvBulk(t, b, slots[got:]) {
	}
	body, rest := payload[:28], payload[28:]
	if s := &slots[0]; s.Size < len(marked) || string(s.Body) != string(body) || string(s.Frame[:s.At]) != string(marked[:s.At]) ||
		string(s.Frame[s.At+28:][:len(rest)]) != string(rest) {
		t.Errorf("first slot: %+v", s)
	}
	if s := &slots[1]; string(s.Frame[:len(marked)]) != string(marked) {
		t.Errorf("second slot: % x", s.Frame[:s.Size])
	}
	views := make([][]byte, 4)
	if n, err := b.Recv(views); n != 1 || err != nil || string(views[0][:len(plain)]) != string(plain) {
		t.Errorf("Recv = %d, %v", n, err)
	}
	if st := b.Stats(); st.RxFrames < 2 {
		t.Errorf("counters: %+v", st)
	}
}

// TestBulkCut receives a frame that is longer than its slot.
func TestBulkCut(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{Bulk: ring.On})
	slots := newSlots(1, 200)
	if err := b.StartBulk(); err != nil {
		t.Fatal(err)
	}
	a.Send([]transport.Frame{{Head: bulkFrame(a.Info(), b.Info(), make([]byte, 500))}})
	recvBulk(t, b, slots)
	if st := b.Stats(); st.RxTruncated != 1 || slots[0].Size != len(slots[0].Frame) {
		t.Errorf("size %d, counters %+v", slots[0].Size, st)
	}
}

// TestBulkNotStarted: before StartBulk, or without the socket, frames with the
// flag come by the ring.
func TestBulkNotStarted(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b, c := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{Bulk: ring.On}), open(t, p, 1, ring.Config{Bulk: ring.Off})
	if err := c.StartBulk(); c.Bulk() || err != nil {
		t.Errorf("without the socket: %v, %v", c.Bulk(), err)
	}
	views := make([][]byte, 4)
	for _, l := range []*ring.Link{b, c} {
		a.Send([]transport.Frame{{Head: bulkFrame(a.Info(), l.Info(), nil)}})
		for n := 0; n == 0; {
			var err error
			if n, err = l.Recv(views); err != nil {
				t.Fatal(err)
			}
			if n == 0 && l.Wait(l.Now()+int64(10*time.Second)) != nil {
				t.Fatal("Wait failed")
			}
		}
		if n, err := l.RecvBulk(newSlots(1, 1500)); n != 0 || err != nil {
			t.Errorf("RecvBulk = %d, %v", n, err)
		}
	}
	if def := open(t, p, 1, ring.Config{}); def.Bulk() {
		t.Error("the second socket is there without being asked for")
	}
}
