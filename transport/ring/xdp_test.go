package ring_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// openXDP opens a link that sends through AF_XDP.
func openXDP(t testing.TB, p *vethtest.Pair, side int) *ring.Link {
	t.Helper()
	l, err := try(p, side, ring.Config{XDP: ring.On, Slots: 64})
	if errors.Is(err, unix.EAFNOSUPPORT) {
		t.Skip("needs a kernel with AF_XDP (CONFIG_XDP_SOCKETS)")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestXDPLink(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			if testing.Short() && mtu != 1500 {
				t.Skip("-short: MTU 1500 only")
			}
			p := vethtest.New(t, mtu)
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				a := openXDP(t, p, 0)
				if a.Info().Driver != "ring+xdp" {
					t.Errorf("Driver = %q", a.Info().Driver)
				}
				return linktest.Pair{A: a, B: openXDP(t, p, 1), C: open(t, p, 1, ring.Config{Slots: 64})}
			})
		})
	}
}

// receive returns copies of the next n frames.
func receive(t *testing.T, l *ring.Link, n int) (got [][]byte) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := l.Now() + patience; len(got) < n; {
		k, err := l.Recv(views[:min(len(views), n-len(got))])
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views[:k] {
			got = append(got, bytes.Clone(v))
		}
		if k > 0 {
			continue
		}
		if l.Now() > end {
			t.Fatalf("%d of %d frames arrived", len(got), n)
		}
		if err := l.Wait(end); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// TestXDPMixed sends batches in which some frames are too long for AF_XDP, and
// batches of either kind in turns, and expects one order.
func TestXDPMixed(t *testing.T) {
	p := vethtest.New(t, 9000)
	a, b := openXDP(t, p, 0), open(t, p, 1, ring.Config{})
	const most = 4096
	number, short := 0, 0
	for round := range 200 {
		var batch []transport.Frame
		longest := 0
		for i := range 1 + round%40 {
			size := []int{64, 300, most - 1, most, most + 1, 9014}[(round+i*i)%(2+round%5)]
			f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 9000))[:size]
			f[size-2], f[size-1] = byte(number), byte(number>>8)
			batch = append(batch, transport.Frame{Head: f[:60], Body: [][]byte{f[60:]}})
			longest = max(longest, size)
			number++
		}
		if longest <= most {
			short += len(batch)
		}
		for rest := batch; len(rest) > 0; {
			n, err := a.Send(rest)
			if n == 0 || err != nil {
				t.Fatalf("Send = %d, %v", n, err)
			}
			rest = rest[n:]
		}
		for i, got := range receive(t, b, len(batch)) {
			if want := batch[i].AppendTo(nil); !bytes.Equal(got, want) {
				t.Fatalf("round %d, frame %d of %d: got %d bytes that end in %x, want %d that end in %x",
					round, i, len(batch), len(got), got[len(got)-2:], len(want), want[len(want)-2:])
			}
		}
	}
	if st := a.Stats(); st.TxXDP != uint64(short) || st.TxFrames != uint64(number) || short == 0 || short == number {
		t.Errorf("%d frames, %d in batches that fit AF_XDP; counters: %+v", number, short, st)
	}
}

// TestXDPFaults changes the interface under a link: what AF_XDP does not take
// the packet socket gets, which says why.
func TestXDPFaults(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := openXDP(t, p, 0), open(t, p, 1, ring.Config{})
	batch := make([]transport.Frame, 5)
	for i := range batch {
		batch[i].Head = linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 1400))
	}
	through := func() {
		t.Helper()
		before := a.Stats().TxXDP
		if n, err := a.Send(batch); n != len(batch) || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		receive(t, b, len(batch))
		if got := a.Stats().TxXDP - before; got != uint64(len(batch)) {
			t.Errorf("%d of %d frames went through AF_XDP", got, len(batch))
		}
	}
	refused := func(want error) {
		t.Helper()
		for range 2 {
			if n, err := a.Send(batch); n != 0 || !errors.Is(err, want) {
				t.Fatalf("Send = %d, %v; want 0, %v", n, err, want)
			}
		}
	}
	set := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	through()
	set(p.SetUp(0, false))
	refused(transport.ErrLinkDown)
	set(p.SetUp(0, true))
	through()
	for side := range 2 {
		set(p.SetMTU(side, 1000))
	}
	refused(transport.ErrFrameSize)
	for side := range 2 {
		set(p.SetMTU(side, 1500))
	}
	through()
	set(p.Delete())
	refused(transport.ErrGone)
}

// TestXDPTaken opens links where there is one queue.
func TestXDPTaken(t *testing.T) {
	p := vethtest.New(t, 1500)
	first := openXDP(t, p, 0)
	if second := open(t, p, 0, ring.Config{}); second.Info().Driver != "ring" {
		t.Errorf("the second link's driver is %q, want ring", second.Info().Driver)
	}
	_, err := try(p, 0, ring.Config{XDP: ring.On})
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(fmt.Sprint(err), "other AF_XDP sockets") {
		t.Errorf("On without a free queue: %v", err)
	}
	first.Close()
	openXDP(t, p, 0)
}

// TestXDPAuto opens links that choose, which must not disturb a peer, and
// leaves out AF_XDP where it would pass by traffic control.
func TestXDPAuto(t *testing.T) {
	p := vethtest.New(t, 9000)
	b := open(t, p, 1, ring.Config{})
	a := open(t, p, 0, ring.Config{})
	t.Logf("the link chose %s", a.Info().Driver)
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
	batch := []transport.Frame{{Head: f}, {Head: f}}
	if n, err := a.Send(batch); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	receive(t, b, 2)
	if n, err := b.Recv(make([][]byte, 1)); n != 0 || err != nil {
		t.Errorf("Recv = %d, %v", n, err)
	}
	if st := b.Stats(); st.RxFrames != 2 || st.RxDrops+st.RxTruncated != 0 {
		t.Errorf("counters of the peer of a link that measured: %+v", st)
	}
	if st := a.Stats(); st.TxFrames != 2 || st.TxDrops+st.TxFull != 0 {
		t.Errorf("counters of a link that measured: %+v", st)
	}
	err := p.In(1, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		return netlink.QdiscAdd(&netlink.GenericQdisc{QdiscAttrs: attrs, QdiscType: "pfifo"})
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if c := open(t, p, 1, ring.Config{}); c.Info().Driver != "ring" {
		t.Errorf("with a queueing discipline the driver is %q, want ring", c.Info().Driver)
	}
}

// TestXDPOff switches AF_XDP off.
func TestXDPOff(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := open(t, p, 0, ring.Config{XDP: ring.Off}), open(t, p, 1, ring.Config{})
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
	if n, err := a.Send([]transport.Frame{{Head: f}, {Head: f}}); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if i, st := a.Info(), a.Stats(); i.Driver != "ring" || st.TxXDP != 0 || st.TxFrames != 2 {
		t.Errorf("driver %q, counters %+v", i.Driver, st)
	}
}

func TestParseChoice(t *testing.T) {
	for _, x := range []ring.Choice{ring.Auto, ring.Off, ring.On} {
		if got, err := ring.ParseChoice(x.String()); got != x || err != nil {
			t.Errorf("ParseChoice(%q) = %v, %v", x.String(), got, err)
		}
	}
	if _, err := ring.ParseChoice("sometimes"); !errors.Is(err, unix.EINVAL) || !strings.Contains(fmt.Sprint(err), "auto off on") {
		t.Errorf("ParseChoice: %v", err)
	}
}

// BenchmarkWays measures what it costs to send, on either way, frames that
// nobody receives.
func BenchmarkWays(b *testing.B) {
	p := vethtest.New(b, 9000)
	for _, way := range []ring.Choice{ring.Off, ring.On} {
		l, err := try(p, 0, ring.Config{XDP: way})
		if err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{64, 1514, 4096} {
			for _, n := range []int{1, 2, 8, 32} {
				batch := make([]transport.Frame, n)
				for i := range batch {
					batch[i].Head = linktest.NewFrame(l.Info(), l.Info(), 1, make([]byte, 9000))[:size]
				}
				b.Run(fmt.Sprintf("%v/size=%d/batch=%d", way, size, n), func(b *testing.B) {
					start := time.Now()
					for range b.N {
						if took, err := l.Send(batch); took != n || err != nil {
							b.Fatalf("Send = %d, %v", took, err)
						}
					}
					b.ReportMetric(float64(time.Since(start))/float64(b.N*n), "ns/frame")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
		l.Close()
	}
}
