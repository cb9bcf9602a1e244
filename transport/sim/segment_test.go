package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// settle lets the world go on for a virtual second.
func settle(t testing.TB, w *World) {
	t.Helper()
	if err := w.Sleep(time.Second); err != nil {
		t.Fatal(err)
	}
}

// count returns the numbers from 0 to n-1.
func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// expect compares what a station has received.
func expect(t testing.TB, s *Station, want ...int) {
	t.Helper()
	if got := numbers(t, s); !slices.Equal(got, want) {
		t.Errorf("%s received %v, want %v", s, got, want)
	}
}

func TestUnicastReachesOnlyItsReceiver(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b, c := w.Station("a"), w.Station("b"), w.Station("c")
	send(t, a, b, 5)
	send(t, a, a, 6)
	settle(t, w)
	expect(t, a)
	expect(t, b, 5)
	expect(t, c)
	if got := w.Stats().Unrouted; got != 1 {
		t.Errorf("%d frames went nowhere, want the one to its own sender", got)
	}
}

func TestGroupFramesFlood(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b, c := w.Station("a"), w.Station("b"), w.Station("c")
	for i, dst := range []ethertype.MAC{ethertype.Broadcast, {0x01, 0, 0x5e, 0, 0, 1}} {
		if _, err := a.Send([]transport.Frame{to(a, dst, 100, uint32(i))}); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, w)
	expect(t, a)
	expect(t, b, 0, 1)
	expect(t, c, 0, 1)
}

func TestDelayAndBandwidth(t *testing.T) {
	// 976 bytes and 24 of overhead are 8000 bits: 8 µs on each of two lines.
	w := New(Options{Seed: seed(t), Delay: 3 * time.Microsecond, Bandwidth: 1e9})
	a, b := w.Station("a"), w.Station("b")
	sendSized(t, a, b, 976, 0)
	sendSized(t, a, b, 976, 1)
	for i, want := range []int64{19_000, 27_000} {
		if err := b.Wait(transport.Forever); err != nil {
			t.Fatal(err)
		}
		if got := w.Now() - Start; got != want {
			t.Errorf("frame %d came after %d ns, want %d", i, got, want)
		}
		expect(t, b, i)
	}
}

func TestShortFramesTakeTheLeastTime(t *testing.T) {
	if got, want := wireTime(1, 1e9), wireTime(60, 1e9); got != want || got != 672 {
		t.Errorf("1 byte takes %d ns and 60 take %d, want 672", got, want)
	}
	if got := wireTime(ethertype.MaxFrame, 1); got != 524_584_000_000_000 {
		t.Errorf("the largest frame takes %d ns at 1 bit/s", got)
	}
}

func TestLineFreesItsRoomInTime(t *testing.T) {
	l := line{bandwidth: 1e9, limit: 1}
	leaves, ok := l.admit(5, 976)
	if leaves != 8005 || !ok {
		t.Fatalf("admit = %d, %v", leaves, ok)
	}
	if _, ok := l.admit(leaves-1, 976); ok {
		t.Error("room before the frame has left")
	}
	if again, ok := l.admit(leaves, 976); again != 16005 || !ok {
		t.Errorf("admit = %d, %v when the frame has left", again, ok)
	}
}

func TestStationBandwidthOverrides(t *testing.T) {
	w := New(Options{Seed: seed(t), Bandwidth: 1e9, Delay: time.Nanosecond})
	slow := w.StationWith(StationOptions{Name: "slow", Bandwidth: 1e6})
	fast := w.StationWith(StationOptions{Name: "fast", Bandwidth: -1})
	sendSized(t, slow, fast, 976, 0)
	if err := fast.Wait(transport.Forever); err != nil {
		t.Fatal(err)
	}
	if got := w.Now() - Start; got != 8_000_001 {
		t.Errorf("took %d ns, want 8 ms on the slow line only", got)
	}
}

func TestIncastOverflowsTheBottleneck(t *testing.T) {
	const senders, each, room = 8, 20, 10
	w := New(Options{Seed: seed(t), Bandwidth: 1e9, Queue: room})
	sink := w.Station("sink")
	for i := range senders {
		s := w.Station(fmt.Sprint("sender", i))
		for range each {
			send(t, s, sink, uint32(i))
		}
	}
	settle(t, w)
	got, st := len(numbers(t, sink)), w.Stats()
	if got+int(st.QueueFull) != senders*each {
		t.Errorf("%d received, %d dropped, of %d", got, st.QueueFull, senders*each)
	}
	// While the senders send, the output sends as much as one of them.
	if want := each + room; got < want-2 || got > want+2 {
		t.Errorf("%d frames got through, want about %d", got, want)
	}
}

func TestReceiveQueueIsLimited(t *testing.T) {
	w := New(Options{Seed: seed(t), RxSlots: 3})
	a, b := w.Station("a"), w.Station("b")
	for i := range uint32(5) {
		send(t, a, b, i)
	}
	settle(t, w)
	expect(t, b, 0, 1, 2)
	if st := b.Stats(); st.RxDrops != 2 || st.RxFrames != 3 || st.RxBytes != 300 || b.Info().Slots != 3 {
		t.Errorf("stats %+v", st)
	}
}

func TestFullUplinkIsNotADrop(t *testing.T) {
	w := New(Options{Seed: seed(t), Bandwidth: 1e9, TxSlots: 4})
	a, b := w.Station("a"), w.Station("b")
	frames := make([]transport.Frame, 10)
	for i := range frames {
		frames[i] = to(a, b.MAC(), 100, uint32(i))
	}
	for sent := 0; sent < len(frames); {
		n, err := a.Send(frames[sent:])
		if err != nil || n > 4 {
			t.Fatalf("Send = %d, %v", n, err)
		}
		sent += n
		settle(t, w)
	}
	expect(t, b, count(10)...)
	if st := a.Stats(); st.TxFull != 2 || st.TxDrops != 0 || st.TxFrames != 10 {
		t.Errorf("stats %+v", st)
	}
}

func TestFilter(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a := w.Station("a")
	b := w.StationWith(StationOptions{Name: "b", Ports: transport.PortRange{Lo: 10, Hi: 19}, EtherType: 0x88b6})
	number := uint32(0)
	for _, port := range []uint16{0, 9, 10, 19, 20} {
		for _, kind := range []uint16{0x88b5, 0x88b6} {
			f := to(a, b.MAC(), 100, number)
			f.Head[12], f.Head[13] = byte(kind>>8), byte(kind)
			f.Head[18], f.Head[19] = byte(port>>8), byte(port)
			ethertype.Seal(f.Head)
			if _, err := a.Send([]transport.Frame{f}); err != nil {
				t.Fatal(err)
			}
			number++
		}
	}
	settle(t, w)
	expect(t, b, 1, 5, 7)
	if got := b.Stats().RxFiltered; got != 7 {
		t.Errorf("%d filtered, want 7", got)
	}
}

func TestFrameSizes(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	big := w.StationWith(StationOptions{Name: "big", MTU: 9000})
	small := w.Station("small")
	frames := []transport.Frame{to(small, big.MAC(), 1514, 0), to(small, big.MAC(), 1515, 1), to(small, big.MAC(), 100, 2)}
	if n, err := small.Send(frames); n != 1 || !errors.Is(err, transport.ErrFrameSize) {
		t.Errorf("Send = %d, %v, want the first frame and ErrFrameSize", n, err)
	}
	sendSized(t, big, small, 1514, 3)
	sendSized(t, big, small, 1515, 4)
	settle(t, w)
	expect(t, big, 0)
	expect(t, small, 3)
	if got := w.Stats().TooLong; got != 1 {
		t.Errorf("%d frames were too long for their receiver, want 1", got)
	}
}

func TestBodyIsGathered(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b := w.Station("a"), w.Station("b")
	whole := to(a, b.MAC(), 100, 0).Head
	frame := transport.Frame{Head: bytes.Clone(whole[:62]), Body: [][]byte{whole[62:70], nil, whole[70:]}}
	if _, err := a.Send([]transport.Frame{frame}); err != nil {
		t.Fatal(err)
	}
	clear(frame.Head)
	settle(t, w)
	views := make([][]byte, 1)
	if n, err := b.Recv(views); n != 1 || err != nil || !bytes.Equal(views[0], whole) {
		t.Errorf("received % x, want % x", views[0], whole)
	}
	late := views[0]
	if _, err := b.Recv(views); err != nil {
		t.Fatal(err)
	}
	if late[0] != poison || late[99] != poison {
		t.Error("a view can be read after its time")
	}
}

func TestCloseAndKill(t *testing.T) {
	for _, kill := range []bool{false, true} {
		w := New(Options{Seed: seed(t)})
		a, b := w.Station("a"), w.Station("b")
		send(t, a, b, 1)
		send(t, b, a, 2)
		var waited error
		w.Go("waits", func() { waited = a.Wait(transport.Forever) })
		w.Go("ends it", func() {
			if kill {
				w.Kill(a)
			} else if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		run(t, w)
		settle(t, w)
		_, sendErr := a.Send(nil)
		_, recvErr := a.Recv(nil)
		for _, err := range []error{waited, sendErr, recvErr, a.Wait(0)} {
			if !errors.Is(err, transport.ErrClosed) {
				t.Errorf("kill %v: %v, want ErrClosed", kill, err)
			}
		}
		if kill {
			expect(t, b)
		} else {
			expect(t, b, 1)
		}
		if err := a.Close(); err != nil || a.Ready() {
			t.Errorf("second Close: %v", err)
		}
	}
}

func TestCloseTakesFramesBack(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b := w.Station("a"), w.Station("b")
	send(t, a, b, 1)
	send(t, a, b, 2)
	settle(t, w)
	views := make([][]byte, 1)
	if n, err := b.Recv(views); n != 1 || err != nil || !b.Ready() {
		t.Fatalf("Recv = %d, %v", n, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if views[0][0] != poison || b.Ready() {
		t.Error("a view can be read after Close, or a frame is still there")
	}
}

func TestRestartedHostKeepsItsAddress(t *testing.T) {
	w := New(Options{Seed: seed(t)})
	a, b := w.Station("a"), w.Station("b")
	again := w.StationWith(StationOptions{Name: "b again", MAC: b.MAC()})
	if err := b.Wait(0); err == nil || !strings.Contains(err.Error(), "b was killed") {
		t.Errorf("the old station: %v", err)
	}
	send(t, a, b, 1)
	settle(t, w)
	expect(t, again, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	send(t, a, b, 2)
	settle(t, w)
	expect(t, again, 2)
}

func TestDefaults(t *testing.T) {
	w := New(Options{})
	a, b := w.Station(""), w.Station("")
	want := transport.Info{
		Driver: "sim", Interface: "s1", MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, EtherType: ethertype.Default,
		Ports: transport.AllPorts, MTU: 1500, Slots: 4096, Virtual: true,
	}
	if got := a.Info(); got != want || b.MAC() == a.MAC() {
		t.Errorf("Info = %+v, want %+v", got, want)
	}
	if !New(Options{Corrupt: 0.1}).Station("").Info().Unprotected {
		t.Error("a world that corrupts frames claims to protect them")
	}
}

func TestNonsenseOptionsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"MTU":         func() { New(Options{MTU: 10}) },
		"probability": func() { New(Options{Loss: 1.5}) },
		"reorder":     func() { New(Options{ReorderBy: 65}) },
		"duration":    func() { New(Options{Delay: -1}) },
		"station":     func() { New(Options{}).StationWith(StationOptions{Queue: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f()
		}()
	}
}

func TestLogTellsEachFate(t *testing.T) {
	var log bytes.Buffer
	w := New(Options{Seed: seed(t), Log: &log})
	a, b := w.Station("a"), w.Station("b")
	send(t, a, b, 1)
	settle(t, w)
	w.Partition(a, b, true)
	send(t, a, b, 2)
	settle(t, w)
	for _, want := range []string{"10µs a > b delivered: 02:00:00:00:00:01/1 >", "tag 0x1", "1.00001s a > b partitioned: ", "tag 0x2"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log does not say %q:\n%s", want, &log)
		}
	}
}
