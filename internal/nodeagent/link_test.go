package nodeagent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/vishvananda/netlink"
)

// TestLink: links on sockets of the agent's are as links on their own. Of a guarded pair only the
// receiver is the agent's: the other one sends foreign frames, too. Of an unguarded pair both are,
// and carry long frames.
func TestLink(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: TestTenants has such links")
	}
	for name, unguarded := range map[string]bool{"guarded": false, "unguarded": true} {
		t.Run(name, func(t *testing.T) {
			p, path := vethtest.New(t, 1500), socketPath(t)
			paths := [2]string{path}
			startAgent(t, p, 0, testConfig{Path: path, Allow: allow, Unguarded: unguarded})
			cfg := ring.Config{Long: ring.Auto, XDP: ring.Off, Slots: 64}
			if unguarded {
				cfg.Long, paths[1] = ring.On, socketPath(t)
				startAgent(t, p, 1, testConfig{Path: paths[1], Allow: allow, Unguarded: true})
			}
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				a := openLink(t, p, 1, vethtest.Name, paths[1], cfg)
				return linktest.Pair{A: a, B: openLink(t, p, 0, vethtest.Name, path, cfg), C: openLink(t, p, 0, vethtest.Name, path, cfg)}
			})
		})
	}
}

// openLink opens a link on a side, by the agent at path if there is one.
func openLink(t *testing.T, p *vethtest.Pair, side int, name, path string, cfg ring.Config) (l *ring.Link) {
	t.Helper()
	cfg.Interface, cfg.Agent = name, path
	err := p.In(side, func() (err error) {
		l, err = ring.Open(t.Context(), &cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestGuardedSend: a link whose sends are judged sends batches of frames of any length and number
// of parts, whole and in order, and allocates nothing; also on an interface whose name is longer
// than the address of its socket has room for, and when the interface gets another name.
func TestGuardedSend(t *testing.T) {
	p, path := vethtest.New(t, 9000), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	const longName = "enx0123456789ab" // as udev names a card on USB
	short := openLink(t, p, 0, vethtest.Name, path, ring.Config{})
	if err := rename(p, vethtest.Name, longName); err != nil {
		t.Fatal(err)
	}
	err := p.In(0, func() error {
		_, err := ring.Open(t.Context(), &ring.Config{Interface: longName, Agent: path, QdiscBypass: true})
		return err
	})
	if !errors.Is(err, transport.ErrPermission) || !strings.Contains(fmt.Sprint(err), "leave out QdiscBypass") {
		t.Errorf("to bypass the queueing discipline: %v", err)
	}
	if _, err := ring.Open(t.Context(), &ring.Config{Interface: longName, Agent: path, Long: ring.On}); err == nil {
		t.Error("a guarded link carries long frames")
	}
	long := openLink(t, p, 0, longName, path, ring.Config{})
	to := openLink(t, p, 1, vethtest.Name, "", ring.Config{XDP: ring.Off})
	sendSizes(t, long, to)
	if err := rename(p, longName, "bob7"); err != nil {
		t.Fatal(err)
	}
	sendSizes(t, long, to) // by the name that the agent gave the interface beside
	sendSizes(t, short, to)
	frames := []transport.Frame{frameOf(short, to, 64, 0), frameOf(short, to, 4000, 3), frameOf(short, to, 64, 2)}
	if n := testing.AllocsPerRun(100, func() {
		for _, batch := range [][]transport.Frame{frames[:1], frames[1:2], frames} {
			if n, err := short.Send(batch); n != len(batch) || err != nil {
				t.Errorf("sent %d frames of %d: %v", n, len(batch), err)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// rename gives the interface of side 0 another name.
func rename(p *vethtest.Pair, from, to string) error {
	return p.In(0, func() error {
		link, err := netlink.LinkByName(from)
		if err == nil {
			err = netlink.LinkSetDown(link)
		}
		if err == nil {
			err = errors.Join(netlink.LinkSetName(link, to), netlink.LinkSetUp(link))
		}
		for end := time.Now().Add(patience); err == nil && link.Attrs().OperState != netlink.OperUp; {
			if link, err = netlink.LinkByName(to); time.Now().After(end) {
				return fmt.Errorf("%s does not come up", to)
			}
		}
		return err
	})
}

// frameOf returns a frame with size bytes of data, in one piece or in parts.
func frameOf(from, to transport.Link, size, parts int) transport.Frame {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i + size)
	}
	whole := linktest.NewFrame(from.Info(), to.Info(), to.Info().Ports.Lo, data)
	f := transport.Frame{Head: whole}
	if parts > 0 {
		f.Head, whole = whole[:ethertype.HeaderSize], whole[ethertype.HeaderSize:]
	}
	for i := range parts {
		piece := len(whole) / (parts - i)
		f.Body, whole = append(f.Body, whole[:piece]), whole[piece:]
	}
	return f
}

// sendSizes sends frames of many sizes in one batch, and compares what arrives.
func sendSizes(t *testing.T, from, to *ring.Link) {
	t.Helper()
	var frames []transport.Frame
	for i, size := range []int{0, 1, 64, 1400, 4000, 4096, 5000, 8900} {
		frames = append(frames, frameOf(from, to, size, 0), frameOf(from, to, size, 1+i%transport.MaxBody))
	}
	if n, err := from.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("sent %d frames of %d: %v", n, len(frames), err)
	}
	views, got := make([][]byte, 1), 0
	for end := time.Now().Add(patience); got < len(frames); {
		n, err := to.Recv(views)
		if err != nil || time.Now().After(end) {
			t.Fatalf("after %d frames of %d: %v", got, len(frames), err)
		}
		if n == 0 {
			to.Wait(to.Now() + int64(10*time.Millisecond))
			continue
		}
		want := append([]byte(nil), frames[got].Head...)
		for _, part := range frames[got].Body {
			want = append(want, part...)
		}
		if !bytes.Equal(views[0], want) {
			t.Fatalf("frame %d has %d bytes, want %d", got, len(views[0]), len(want))
		}
		got++
	}
}
