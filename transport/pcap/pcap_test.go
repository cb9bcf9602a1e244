package pcap_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

func TestSimulated(t *testing.T) {
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		w := sim.New(sim.Options{})
		return linktest.Pair{A: pcap.New(w.Station("a"), io.Discard), B: pcap.New(w.Station("b"), io.Discard), Allocates: true}
	})
}

func TestReal(t *testing.T) {
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		file := pcap.NewWriter(io.Discard)
		open := func(ip string) transport.Link {
			l, err := udp.Open(t.Context(), &udp.Config{Interface: ip, EtherType: vethtest.EtherType(), MTU: 1458})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return file.Wrap(l)
		}
		return linktest.Pair{A: open(vethtest.Loopback(1)), B: open(vethtest.Loopback(2)), C: open(vethtest.Loopback(2)), Allocates: true}
	})
}

// overVeth returns links at the two ends of p, and another one at the second, that
// carry long frames, written to file.
func overVeth(t *testing.T, p *vethtest.Pair, file *pcap.Writer) (links [3]transport.Link) {
	for i, side := range []int{0, 1, 1} {
		err := p.In(side, func() error {
			l, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Slots: 64, Long: ring.On})
			if err == nil {
				t.Cleanup(func() { l.Close() })
				links[i] = file.Wrap(l)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return links
}

// TestLong runs the suite over links that carry long frames.
func TestLong(t *testing.T) {
	p := vethtest.New(t, 1500)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		l := overVeth(t, p, pcap.NewWriter(io.Discard))
		return linktest.Pair{A: l[0], B: l[1], C: l[2], Allocates: true}
	})
}

// packet is what a test looks at of a packet read back.
type packet struct {
	data []byte
	at   time.Time
	face pcapgo.NgInterface
	dir  pcapgo.NgEpbFlag
}

// read reads a pcapng file back.
func read(t *testing.T, file []byte) (packets []packet) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return packets
		}
		if err != nil {
			t.Fatal(err)
		}
		face, err := r.Interface(info.InterfaceIndex)
		if err != nil || face.LinkType != layers.LinkTypeEthernet || opts.Flags == nil {
			t.Fatalf("packet %d: interface %+v, options %+v (%v)", len(packets), face, opts, err)
		}
		packets = append(packets, packet{bytes.Clone(data), info.Timestamp, face, opts.Flags.Direction})
	}
}

// exchange sends frames of every small size, some of them in parts, from one
// simulated station to another, both written to w. It returns what was sent,
// and when it was received.
func exchange(t *testing.T, w io.Writer) (frames [][]byte, when []int64) {
	t.Helper()
	world := sim.New(sim.Options{})
	file := pcap.NewWriter(w)
	a, b := file.Wrap(world.Station("a")), file.Wrap(world.Station("b"))
	views := make([][]byte, 1)
	for n := range 70 {
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, bytes.Repeat([]byte{byte(n)}, n))
		if k, err := a.Send([]transport.Frame{{Head: f[:62], Body: [][]byte{f[62:]}}}); k != 1 || err != nil {
			t.Fatalf("Send = %d, %v", k, err)
		}
		for {
			k, err := b.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			if k == 1 {
				break
			}
			if err := b.Wait(b.Now() + int64(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		frames, when = append(frames, f), append(when, b.Now())
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	return frames, when
}

// TestReadBack compares a file with what was sent, byte for byte.
func TestReadBack(t *testing.T) {
	var file bytes.Buffer
	frames, when := exchange(t, &file)
	packets := read(t, file.Bytes())
	if len(packets) != 2*len(frames) {
		t.Fatalf("%d packets in the file, want %d", len(packets), 2*len(frames))
	}
	for i, p := range packets {
		want := pcapgo.NgEpbFlagDirectionOutbound
		if i%2 == 1 {
			want = pcapgo.NgEpbFlagDirectionInbound
			if at := time.Unix(0, when[i/2]); !p.at.Equal(at) {
				t.Errorf("packet %d was received at %v, the file says %v", i, at, p.at)
			}
		}
		if !bytes.HasPrefix(p.data, frames[i/2]) || len(p.data) > max(len(frames[i/2]), 60) || p.dir != want {
			t.Fatalf("packet %d: direction %d, %x\nwant %d, %x", i, p.dir, p.data, want, frames[i/2])
		}
		if !strings.Contains(p.face.Description, "sim") || p.face.Name == "" {
			t.Fatalf("packet %d is of the interface %+v", i, p.face)
		}
	}
}

// TestWallClock: the times of a real link are those of the wall clock.
func TestWallClock(t *testing.T) {
	l, err := udp.Open(t.Context(), &udp.Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "frames.pcapng")
	file, err := pcap.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	wrapped := file.Wrap(l)
	f := linktest.NewFrame(l.Info(), l.Info(), 5000, nil)
	if n, err := wrapped.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	after := time.Now()
	if err := errors.Join(wrapped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const slack = 10 * time.Microsecond // for a clock that is being adjusted
	p := read(t, text)
	if len(p) != 1 || p[0].at.Before(before.Add(-slack)) || p[0].at.After(after.Add(slack)) || p[0].face.Name != "lo" {
		t.Errorf("the file has %+v, want one packet of lo from %v to %v", p, before, after)
	}
}

// broken takes a number of bytes and then fails.
type broken struct{ room int }

var errFull = errors.New("disk full")

func (b *broken) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestBrokenFile: the link goes on, and the error is returned by the Close of one link, and
// by that of the file.
func TestBrokenFile(t *testing.T) {
	for _, room := range []int{0, 300, 5000} {
		w := sim.New(sim.Options{})
		file := pcap.NewWriter(&broken{room: room})
		a, b := file.Wrap(w.Station("a")), file.Wrap(w.Station("b"))
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 1000))
		for range 20 {
			if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
				t.Fatalf("Send = %d, %v", n, err)
			}
		}
		if err := a.Close(); !errors.Is(err, errFull) || !errors.Is(a.Err(), errFull) {
			t.Errorf("room for %d bytes: Close = %v, Err = %v", room, err, a.Err())
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Errorf("room for %d bytes: links have told it again: %v", room, err)
		}
		if err := file.Close(); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: Close of the file = %v", room, err)
		}
	}
	if _, err := pcap.Create(t.TempDir()); err == nil {
		t.Error("a directory was taken for a file")
	}
}
