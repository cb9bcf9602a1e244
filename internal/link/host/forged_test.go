package host_test

import (
	"net"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/udp"
)

// These tests send frames by the wire whose source is the receiver's own address,
// as only somebody who forges them does: what comes from its own host does not come
// that way. Each is followed by an honest one, so that nothing is waited for in vain.

// asItself returns info with the address of at.
func asItself(info transport.Info, at transport.Link) transport.Info {
	info.MAC = at.Info().MAC
	info.Ports = transport.PortRange{Lo: 9 << 10, Hi: 10<<10 - 1}
	return info
}

// forgeries returns frames by the wire to a, all but the last forged.
func forgeries(stranger transport.Info, a transport.Link, payload []byte) (frames []transport.Frame) {
	all := a.Info()
	all.MAC = ethertype.Broadcast
	for _, h := range [][]byte{
		linktest.NewFrame(asItself(stranger, a), a.Info(), a.Info().Ports.Lo, payload),
		linktest.NewFrame(asItself(stranger, a), all, ethertype.PortAll, payload),
		linktest.NewFrame(asItself(stranger, a), all, a.Info().Ports.Lo, payload),
		linktest.NewFrame(stranger, a.Info(), a.Info().Ports.Lo, payload),
	} {
		frames = append(frames, transport.Frame{Head: h})
	}
	return frames
}

// wantHonest wants the last of frames at a, and the others counted.
func wantHonest(t *testing.T, a transport.Link, frames []transport.Frame) {
	t.Helper()
	before := a.Stats()
	got := receive(t, a, 1)
	a.Recv(make([][]byte, 1)) // the counters of the last Recv may lag
	if want := string(frames[len(frames)-1].Head); got[0] != want {
		t.Errorf("got a frame of %d bytes from %x, want the honest one of %d", len(got[0]), got[0][6:12], len(want))
	}
	after := a.Stats()
	if n := after.RxFiltered - before.RxFiltered; n != uint64(len(frames)-1) {
		t.Errorf("%d forged frames were counted as filtered, want %d", n, len(frames)-1)
	}
	if n := after.RxFrames - before.RxFrames; n != 1 {
		t.Errorf("%d frames were counted as received, want 1", n)
	}
}

// TestForged: by every driver on Ethernet, in one batch and one by one.
func TestForged(t *testing.T) {
	for outer := range outers {
		t.Run(outer, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			a, stranger := open(t, p, 0, outer), open(t, p, 1, outer)
			frames := forgeries(stranger.Info(), a, []byte("a payload that needs no padding"))
			if n, err := stranger.Send(frames); n != len(frames) || err != nil {
				t.Fatalf("Send = %d, %v", n, err)
			}
			wantHonest(t, a, frames)
		})
	}
}

// TestForgedLong: a long frame, of which only the beginning is looked at.
func TestForgedLong(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, stranger := open(t, p, 0, "Ring"), open(t, p, 1, "Ring")
	if !a.StartLong() || !stranger.StartLong() {
		t.Fatal("no long frames on veth")
	}
	frames := forgeries(stranger.Info(), a, make([]byte, 20_000))[:1]
	frames = append(frames, transport.Frame{Head: linktest.NewFrame(stranger.Info(), a.Info(), a.Info().Ports.Lo, []byte("a payload that needs no padding"))})
	if n, err := stranger.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	views := make([][]byte, 4)
	for end := a.Now() + int64(10*time.Second); a.Stats().RxFiltered == 0 && a.Now() < end; {
		n, err := a.Recv(views)
		if err != nil || n > 0 && a.Rest() > 0 {
			t.Fatalf("Recv = %d, %v: the beginning of a forged frame", n, err)
		}
		if a.Rest() != 0 || a.Fetch(ethertype.HeaderSize, [][]byte{make([]byte, 20_000)}) {
			t.Fatal("the rest of a forged frame can be fetched")
		}
		if n > 0 {
			return
		}
		a.Wait(end)
	}
	wantHonest(t, a, frames[1:])
}

// TestForgedDatagram: a program of the same host, and perhaps of another user, sends
// datagrams from the host's address and a port that nobody has claimed.
func TestForgedDatagram(t *testing.T) {
	const base = 20_000 // below the ports that Linux gives to clients
	ip := vethtest.Loopback(1)
	outer, err := udp.Open(t.Context(), &udp.Config{Interface: ip, BasePort: base})
	if err != nil {
		t.Fatal(err)
	}
	a, err := host.Join(outer, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	honest, err := udp.Open(t.Context(), &udp.Config{Interface: vethtest.Loopback(2), BasePort: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { honest.Close() })
	frames := forgeries(honest.Info(), a, []byte("a payload that needs no padding"))
	to := &net.UDPAddr{IP: net.ParseIP(ip), Port: base + int(a.Info().Ports.Lo>>10)}
	from, err := net.DialUDP("udp4", &net.UDPAddr{IP: to.IP, Port: base + 9}, to) // of block 9
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, f := range frames[:len(frames)-1] {
		if _, err := from.Write(f.Head); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := honest.Send(frames[len(frames)-1:]); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	wantHonest(t, a, frames)
}

// TestForgedSimulated: a station of a simulated segment.
func TestForgedSimulated(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	station, stranger := w.Station("a"), w.Station("stranger")
	a, err := host.Join(station, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	frames := forgeries(stranger.Info(), a, []byte("a payload that needs no padding"))
	if n, err := stranger.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if err := a.Wait(a.Now() + int64(time.Second)); err != nil {
		t.Fatal(err)
	}
	wantHonest(t, a, frames)
}
