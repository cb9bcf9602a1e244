package ring_test

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
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
	flags := ethertype.Flags(binary.BigEndian.Uint16(f[ethertype.OffsetFlags:])) | ethertype.FlagBulk
	binary.BigEndian.PutUint16(f[ethertype.OffsetFlags:], uint16(flags))
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
}

// TestBulkChoices: who drives the link is told what its Config leaves open.
func TestBulkChoices(t *testing.T) {
	p := vethtest.New(t, 1500)
	for choice, want := range map[ring.Choice][2]bool{ring.Auto: {true, true}, ring.Off: {false, false}, ring.On: {true, false}} {
		l := open(t, p, 0, ring.Config{Bulk: choice})
		if got := [2]bool{l.Bulk(), l.BulkOnTrial()}; got != want {
			t.Errorf("%v: can and is on trial: %v, want %v", choice, got, want)
		}
	}
}

// recv returns how many frames there are by the ring.
func recv(t *testing.T, l *ring.Link) (got int) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for n := 1; n > 0; got += n {
		var err error
		if n, err = l.Recv(views); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// boundSockets returns how many packet sockets of a side are bound, of whomever.
func boundSockets(t *testing.T, p *vethtest.Pair, side int) (bound int) {
	t.Helper()
	err := p.In(side, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/packet")
		for _, line := range strings.Split(string(text), "\n")[1:] {
			if f := strings.Fields(line); len(f) > 5 && f[5] == "1" { // is told of frames
				bound++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// stopTest is what TestBulkStop sends over, from a to b.
type stopTest struct {
	*testing.T
	a, b          *ring.Link
	long          bool // b receives long frames
	marked, plain []byte
}

// send sends two frames with the flag, and one without between them.
func (t *stopTest) send() {
	t.Helper()
	if n, err := t.a.Send([]transport.Frame{{Head: t.marked}, {Head: t.plain}, {Head: t.marked}}); n != 3 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
}

// wants looks how what was sent comes.
func (t *stopTest) wants(when string, wantRing, wantApart int) {
	t.Helper()
	slots := newSlots(8, 1500)
	byRing := recv(t.T, t.b)
	apart, err := t.b.RecvBulk(slots)
	more, moreErr := t.b.RecvBulk(slots)
	if byRing != wantRing || apart+more != wantApart || err != nil || moreErr != nil {
		t.Fatalf("%s: %d by the ring, %d and %d apart (%v, %v), want %d and %d", when, byRing, apart, more, err, moreErr, wantRing, wantApart)
	}
}

// wantsLong sends a long frame, which comes if b receives such.
func (t *stopTest) wantsLong(when string) {
	t.Helper()
	head := linktest.NewFrame(t.a.Info(), t.b.Info(), t.b.Info().Ports.Lo, nil)
	if n, err := t.a.Send([]transport.Frame{{Head: head, Body: [][]byte{make([]byte, 20_000)}}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if got := recv(t.T, t.b); (got == 1) != t.long {
		t.Fatalf("%s %d long frames of 1 come", when, got)
	}
}

// start and stop have b receive frames with the flag apart, and no more.
func (t *stopTest) start() {
	t.Helper()
	if err := t.b.StartBulk(); err != nil {
		t.Fatal(err)
	}
}

func (t *stopTest) stop(forGood bool) {
	t.Helper()
	if err := t.b.StopBulk(forGood); err != nil {
		t.Fatal(err)
	}
}

// TestBulkStop stops and starts a link: frames with the flag come by the ring from
// then on, those that came before are still to be had, and the socket is gone when
// it is stopped for good. With and without long frames, which the ring takes besides.
func TestBulkStop(t *testing.T) {
	for _, long := range []ring.Choice{ring.Off, ring.On} {
		t.Run("Long="+long.String(), func(t *testing.T) {
			p := vethtest.New(t, 1500)
			a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{Long: long})
			s := &stopTest{T: t, a: a, b: b, long: long == ring.On, marked: bulkFrame(a.Info(), b.Info(), []byte("marked")),
				plain: linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("not marked"))}
			a.StartLong()
			sockets := boundSockets(t, p, 1)
			s.send()
			s.wants("before the start", 3, 0)
			s.wantsLong("before the start")
			for range 3 {
				s.start()
				s.send()
				s.wants("after a start", 1, 2)
				s.wantsLong("after a start")
				s.send()
				s.stop(false)
				s.send()
				s.wants("after a stop", 4, 2)
				s.wantsLong("after a stop")
			}
			if got := boundSockets(t, p, 1); got != sockets+1 {
				t.Errorf("%d sockets are bound, want %d", got, sockets+1)
			}
			s.start()
			s.send()
			s.stop(true)
			s.send()
			s.wants("after a stop for good", 4, 2)
			for end := time.Now().Add(time.Minute); boundSockets(t, p, 1) != sockets; runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatal("the second socket is still there")
				}
			}
			s.start()
			s.send()
			s.wants("after that", 3, 0)
		})
	}
}

// TestBulkStopUnderTraffic stops and starts a link while marked frames arrive: none
// is lost.
func TestBulkStopUnderTraffic(t *testing.T) {
	const frames, ahead = 5000, 32
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{})
	credits := make(chan struct{}, frames+ahead)
	for range ahead {
		credits <- struct{}{}
	}
	go func() {
		for i := range uint32(frames) {
			<-credits
			f := bulkFrame(a.Info(), b.Info(), binary.BigEndian.AppendUint32(nil, i))
			for n := 0; n == 0; {
				n, _ = a.Send([]transport.Frame{{Head: f}})
			}
		}
	}()
	var came [frames]int
	total := 0
	note := func(f []byte) {
		i := binary.BigEndian.Uint32(f[ethertype.HeaderSize:])
		if came[i]++; came[i] == 1 {
			total++
			credits <- struct{}{}
		}
	}
	views, slots := make([][]byte, transport.MaxBatch), newSlots(transport.MaxBatch, 1500)
	end := time.Now().Add(time.Minute)
	for round := 0; total < frames; round++ {
		var err error
		switch round % 20 {
		case 5:
			err = b.StartBulk()
		case 15:
			err = b.StopBulk(false)
		}
		n, recvErr := b.Recv(views)
		for _, f := range views[:n] {
			note(f)
		}
		k, bulkErr := b.RecvBulk(slots)
		for i := range k {
			note(slots[i].Frame)
		}
		if err := errors.Join(err, recvErr, bulkErr); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d frames have come: %+v", total, frames, b.Stats())
		}
	}
}
