package tun

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
)

// foe is a neighbour that does not follow the protocol's rules.
type foe struct {
	t    *testing.T
	pair *vethtest.Pair
	host *stream.Host
	tun  *Tun
}

// newFoe starts a host with address 10.9.0.1 on one side of a veth pair, and a foe with address
// 10.9.0.9 on the other.
func newFoe(t *testing.T) *foe {
	p := vethtest.New(t, 1500)
	f := &foe{t: t, pair: p}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	err := p.In(0, func() (err error) {
		f.tun, err = Open(t.Context(), &Config{VIPL: vipl.Config{Interface: vethtest.Name}, Addrs: []netip.Prefix{netip.PrefixFrom(addr(1), 24)}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- f.tun.Run(ctx) }()
	err = p.In(1, func() (err error) {
		f.host, err = stream.Open(t.Context(), &stream.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.host.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.tun.Close()
	})
	if err := f.host.NIC().Advertise(name(DefaultNetwork, addr(9)), f.host.NIC().Addr()); err != nil {
		t.Fatal(err)
	}
	return f
}

// dial opens a stream to the host, and sends greeting if it is not empty.
func (f *foe) dial(greeting []byte) net.Conn {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at, err := f.host.NIC().Lookup(ctx, name(DefaultNetwork, addr(1)))
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := (&stream.Dialer{Host: f.host}).Dial(ctx, stream.Addr{Addr: at}.String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if len(greeting) == 0 {
		return c
	}
	if _, err := c.Write(greeting); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// await waits until is returns true for the host's state.
func (f *foe) await(what string, is func(s Snapshot) bool) {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(f.tun.Snapshot()); runtime.Gosched() {
		if time.Now().After(end) {
			f.t.Fatalf("%s: %+v", what, f.tun.Snapshot())
		}
	}
}

// greeting claims addresses.
func greeting(addrs ...netip.Addr) []byte {
	h := hello{network: DefaultNetwork, mtu: MaxMTU, addrs: addrs}
	return h.append(nil)
}

// record returns the record of a packet in a stream, with a header that requests no offload.
func record(packet []byte) []byte {
	b := newBuffer()
	clear(b.content().offload())
	b.fill(vnetSize + copy(b.room()[vnetSize:], packet))
	return b.record()
}

// TestClaims: of the addresses that a neighbour claims, it gets those that the segment's directory
// assigns to it. It does not get this host's addresses, unassigned ones, or those that no host can
// have. If it gets no address, or sends no greeting, its stream is refused.
func TestClaims(t *testing.T) {
	f := newFoe(t)
	group, local := netip.MustParseAddr("224.0.0.5"), netip.MustParseAddr("127.0.0.2")
	for _, a := range []netip.Addr{addr(255), group, local} {
		if err := f.host.NIC().Advertise(name(DefaultNetwork, a), f.host.NIC().Addr()); err != nil {
			t.Fatal(err)
		}
	}
	f.dial(greeting(addr(1), addr(9), addr(66), addr(255), group, local))
	f.await("one address", func(s Snapshot) bool {
		return len(s.Neighbours) == 1 && len(s.Neighbours[0].Addrs) == 1 && s.Neighbours[0].Addrs[0] == addr(9) && s.Counts.Claims == 5
	})
	for i, bad := range [][]byte{greeting(addr(1)), greeting(), []byte("GET / HTTP/1.0\r\n\r\n\r\n"), greeting(addr(9))[:20]} {
		c := f.dial(bad)
		c.(*stream.Conn).CloseWrite()
		io.Copy(io.Discard, c) // until it is refused
		f.await("refused", func(s Snapshot) bool { return s.Counts.Strangers == uint64(i+1) && len(s.Neighbours) == 1 })
	}
}

// TestForged: the host counts and drops packets from addresses that the neighbour does not have,
// packets for other hosts, truncated packets, and packets whose header describes more bytes than
// they have. It still receives valid packets. An impossible length ends the stream.
func TestForged(t *testing.T) {
	f := newFoe(t)
	c := f.dial(greeting(addr(9)))
	if _, err := readHello(c); err != nil {
		t.Fatal(err)
	}
	sound := packet4(addr(9), addr(1), 17, make([]byte, 8))
	beyond := record(sound)
	beyond[recordHead], beyond[recordHead+6] = vnetNeedsChecksum, 255
	beyond = append([]byte(nil), beyond...)
	for _, b := range [][]byte{
		record(packet4(addr(66), addr(1), 17, nil)), record(packet4(addr(9), addr(55), 17, nil)), record(sound[:len(sound)-1]), beyond, record(sound),
	} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	f.await("counted", func(s Snapshot) bool {
		n := s.Counts
		return n.Spoofed == 1 && n.Misdirected == 1 && n.Malformed == 2 && s.PacketsReceived == 1
	})
	if _, err := c.Write([]byte{255, 255, 255, 255}); err != nil {
		t.Fatal(err)
	}
	f.await("ended", func(s Snapshot) bool { return len(s.Neighbours) == 0 && s.Counts.Malformed == 3 })
}

// TestMutated: after thousands of changed records on many streams, a valid record still arrives.
func TestMutated(t *testing.T) {
	f := newFoe(t)
	r := rand.New(rand.NewPCG(1, 2))
	sound := record(packet4(addr(9), addr(1), 17, make([]byte, 100)))
	for range 20 {
		c := f.dial(greeting(addr(9)))
		for range 200 {
			b := append([]byte(nil), sound...)
			for range 1 + r.IntN(4) {
				b[recordHead+r.IntN(len(b)-recordHead)] = byte(r.Uint32())
			}
			if r.IntN(100) == 0 {
				b[r.IntN(recordHead)] ^= 1 << r.IntN(8)
			}
			if _, err := c.Write(b); err != nil {
				break // the host has ended the stream
			}
		}
		c.Close()
	}
	before := f.tun.Snapshot().PacketsReceived
	c := f.dial(greeting(addr(9)))
	if _, err := c.Write(sound); err != nil {
		t.Fatal(err)
	}
	f.await("a sound packet", func(s Snapshot) bool { return s.PacketsReceived > before })
}

// TestManyStreams: a station can have only a limited number of streams, whatever it claims. When
// one has ended, it can open another one.
func TestManyStreams(t *testing.T) {
	f := newFoe(t)
	var first net.Conn
	for i := range maxStreams {
		c := f.dial(greeting(addr(9)))
		if i == 0 {
			first = c
		}
	}
	f.await("as many as may be", func(s Snapshot) bool { return len(s.Neighbours) == maxStreams })
	more := f.dial(nil)
	more.Write(greeting(addr(9))) // the host may already have refused the stream
	io.Copy(io.Discard, more)     // until it is refused
	f.await("refused", func(s Snapshot) bool { return len(s.Neighbours) == maxStreams && s.Counts.Strangers == 1 })
	first.Close()
	f.await("one less", func(s Snapshot) bool { return len(s.Neighbours) == maxStreams-1 })
	f.dial(greeting(addr(9)))
	f.await("another one", func(s Snapshot) bool { return len(s.Neighbours) == maxStreams })
}

// TestSameNIC: a second Tun with the same address on one NIC is refused, without any effect on the
// first one.
func TestSameNIC(t *testing.T) {
	f := newFoe(t)
	err := f.pair.In(0, func() error {
		second, err := Open(t.Context(), &Config{NIC: f.tun.NIC(), Addrs: []netip.Prefix{netip.PrefixFrom(addr(1), 24)}})
		if err == nil {
			second.Close()
		}
		return err
	})
	if !errors.Is(err, vipl.ErrNameService) {
		t.Fatal(err)
	}
	f.dial(greeting(addr(9)))
	f.await("a neighbour", func(s Snapshot) bool { return len(s.Neighbours) == 1 })
}

// TestNICEnds: Run returns an error with the reason when its NIC or the NIC's link is closed, even
// if there is no traffic. After Close, Run does nothing.
func TestNICEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(nic *vipl.NIC) error
		want error
	}{
		"NIC":  {(*vipl.NIC).Close, vipl.ErrClosed},
		"link": {func(nic *vipl.NIC) error { return seam.Link(nic).Close() }, vipl.ErrLink},
	} {
		p := vethtest.New(t, 1500)
		var h *Tun
		err := p.In(0, func() (err error) {
			h, err = Open(t.Context(), &Config{VIPL: vipl.Config{Interface: vethtest.Name}, Addrs: []netip.Prefix{netip.PrefixFrom(addr(1), 24)}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		if err := tc.end(h.NIC()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		h.Close()
		if err := h.Run(ctx); err != net.ErrClosed {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestGone: a packet for a neighbour that has just disappeared is dropped and counted.
func TestGone(t *testing.T) {
	h, p := new(Tun), &peer{mtu: MaxMTU, queue: make(chan *buffer, 1), over: make(chan struct{})}
	close(p.over)
	h.send(p, newBuffer().fill(vnetSize+header4))
	if h.counts.Overflow.Load() != 1 || p.dropped.Load() != 1 || p.queued.Load() != 0 || len(p.queue) != 0 {
		t.Errorf("dropped %d, queued %d bytes", p.dropped.Load(), p.queued.Load())
	}
}

// TestQueueMemory: packets that wait for a neighbour do not use more memory than the limit,
// whatever their lengths.
func TestQueueMemory(t *testing.T) {
	for _, size := range []int{header4, 2100, 3000, 11_000, 33_000, 60_000} {
		h, p := new(Tun), &peer{mtu: MaxMTU, queue: make(chan *buffer, queuePackets), over: make(chan struct{})}
		for h.counts.Overflow.Load() == 0 {
			b := newBuffer()
			clear(b.content().offload())
			h.send(p, b.fill(vnetSize+size).keep())
		}
		memory, packets := 0, len(p.queue)
		for range packets {
			memory += len((<-p.queue).mem)
		}
		if memory > queueBytes {
			t.Errorf("%d packets of %d bytes take %d bytes, want %d at most", packets, size, memory, queueBytes)
		}
		if packets < queueBytes/(64<<10)-1 {
			t.Errorf("only %d packets of %d bytes wait", packets, size)
		}
	}
}
