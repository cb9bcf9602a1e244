package host_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/transport/udp"
	"golang.org/x/sys/unix"
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
	if !a.StartLong() || !stranger.StartLong() || !a.ReceiveLong(true) {
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

// squat takes the names of all blocks of ports on a side as another user: the claims, by stream sockets that
// listen or do not, and the names within the host. It keeps them until the test ends.
func squat(t *testing.T, p *vethtest.Pair, side, uid int, listen bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	err := p.In(side, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		return vethtest.As(uid, func() error {
			for b := range 64 {
				claim, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				t.Cleanup(func() { unix.Close(claim) })
				if err := unix.Bind(claim, &unix.SockaddrUnix{Name: fmt.Sprintf("@bobnet/%d/%04x/%d", at.Index, uint16(ethertype.Default), b)}); err != nil {
					return err
				}
				if listen {
					if err := unix.Listen(claim, 1); err != nil {
						return err
					}
				}
				block, err := net.ListenPacket("unixgram", fmt.Sprintf("@bobnet-host/%v/%04x/%d/%d", at.MAC, uint16(ethertype.Default), at.Index, b))
				if err != nil {
					return err
				}
				t.Cleanup(func() { block.Close() })
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openPorts opens a joined link that claims ports.
func openPorts(p *vethtest.Pair, ports transport.PortRange) (l *host.Link, err error) {
	err = p.In(0, func() error {
		link, err := ring.Open(context.Background(), &ring.Config{Interface: vethtest.Name, Slots: 64, Ports: ports})
		if err != nil {
			return err
		}
		if l, err = host.Join(link, nil); err != nil {
			link.Close()
		}
		return err
	})
	return l, err
}

// TestSquatted: a user without rights who has taken all names does not keep root's links from opening, with
// ports of their choice or any, nor from reaching each other within the host. Root's links keep ports from
// each other all the same, and give them back.
func TestSquatted(t *testing.T) {
	p := vethtest.New(t, 1500)
	squat(t, p, 0, 4001, true)
	open := func(t *testing.T, ports transport.PortRange) *host.Link {
		t.Helper()
		l, err := openPorts(p, ports)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	chosen := transport.PortRange{Lo: 5000, Hi: 5100}
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		links := linktest.Pair{A: open(t, transport.PortRange{}), B: open(t, chosen), C: open(t, transport.PortRange{}), SameHost: true}
		if l, err := openPorts(p, transport.PortRange{Lo: 5050, Hi: 5050}); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%v, %v: want that another link of root's has the ports", l, err)
		}
		return links
	})
	deaf := vethtest.New(t, 1500) // where the sockets do not listen
	squat(t, deaf, 0, 4001, false)
	p = deaf
	open(t, chosen)
	open(t, transport.PortRange{})
}

// TestClaimWithRights: a program of another user's that may open packet sockets keeps its ports, also from root.
func TestClaimWithRights(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	for outer := range outers {
		p := vethtest.New(t, 1500)
		var with transport.Link
		if err := p.In(0, func() (err error) {
			unix.Setfsuid(4001) // the sockets are that user's, and the thread keeps CAP_NET_RAW
			defer unix.Setfsuid(0)
			with, err = outers[outer]()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer with.Close()
		if l, err := openPorts(p, with.Info().Ports); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: %v, %v: want that another user has the ports", outer, l, err)
		}
	}
}
