package ring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// TestLongChoice: who asks for long frames where there are none is told why; who
// does not, does without.
func TestLongChoice(t *testing.T) {
	for _, test := range []struct {
		mtu   int
		cfg   ring.Config
		words string
	}{
		{1500, ring.Config{Long: ring.On}, ""},
		{65535, ring.Config{Long: ring.On}, "the MTU of"},
		{68, ring.Config{Long: ring.On}, "mtu 1500"},
	} {
		t.Run(fmt.Sprint(test.mtu, test.words), func(t *testing.T) {
			p := vethtest.New(t, test.mtu)
			l, err := try(p, 0, test.cfg)
			if test.words == "" {
				if err != nil || !l.StartLong() {
					t.Fatal("no long frames on veth", err)
				}
				l.Close()
			} else if !errors.Is(err, ring.ErrNoLong) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("error %v, want one with %q", err, test.words)
			}
			for _, choice := range []ring.Choice{ring.Auto, ring.Off} {
				test.cfg.Long = choice
				l := open(t, p, 0, test.cfg)
				if want := choice == ring.Auto && test.words == ""; l.StartLong() != want {
					t.Errorf("%v: %v", choice, !want)
				}
				l.Close()
			}
		})
	}
}

// TestLongOverrun leaves long frames until the kernel keeps no more: what it has
// arrives, the others are counted, and then traffic goes on.
func TestLongOverrun(t *testing.T) {
	forLong(t, testLongOverrun)
}

// forLong runs a test with long frames, and with frames of a large MTU.
func forLong(t *testing.T, test func(t *testing.T, p *vethtest.Pair, a, b *ring.Link)) {
	for _, mtu := range []int{1500, 65535} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			p := vethtest.New(t, mtu)
			a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{})
			if long := mtu == 1500; a.StartLong() != long || b.StartLong() != long || b.ReceiveLong(true) != long {
				t.Fatalf("long frames on veth: %v", !long)
			}
			test(t, p, a, b)
		})
	}
}

func testLongOverrun(t *testing.T, _ *vethtest.Pair, a, b *ring.Link) {
	const sent = 600 // of 64 KiB
	payload := make([]byte, framing.LongMTU-ethertype.BaseSize)
	head := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
	for range sent {
		if n, err := a.Send([]transport.Frame{{Head: head, Body: [][]byte{payload}}}); n != 1 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
	}
	views, room := make([][]byte, transport.MaxBatch), [][]byte{payload}
	got := 0
	for b.Ready() {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if got += n; b.Rest() == 0 || !b.Fetch(ethertype.HeaderSize, room) {
				t.Fatalf("frame %d is not there", got)
			}
		}
	}
	if n, err := b.Recv(views); n > 0 || err != nil { // after which everything is counted
		t.Fatal(n, err)
	}
	if st := b.Stats(); got < 64 || got == sent || uint64(got)+st.RxDrops != sent {
		t.Errorf("%d of %d arrived; counters %+v", got, sent, st)
	}
	small := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("on"))
	if n, err := a.Send([]transport.Frame{{Head: small}, {Head: head, Body: [][]byte{payload}}}); n != 2 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	for i := range 2 {
		n, err := b.Recv(views[:1])
		for ; n == 0 && err == nil; n, err = b.Recv(views[:1]) {
			if err := b.Wait(b.Now() + int64(10*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || (b.Rest() > 0) != (i == 1) {
			t.Fatalf("frame %d afterwards: %d, %v, %d missing", i, n, err, b.Rest())
		}
	}
	if !b.Fetch(ethertype.HeaderSize, room) {
		t.Error("the last frame is not there")
	}
}

// TestLongDown takes the interface down between a long frame's arrival and its
// fetching: the socket's error concerns neither that frame nor those behind it.
func TestLongDown(t *testing.T) {
	forLong(t, testLongDown)
}

func testLongDown(t *testing.T, p *vethtest.Pair, a, b *ring.Link) {
	payload := make([]byte, 40_000)
	var frames []transport.Frame
	for i := range 3 {
		head := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
		head[framing.OffsetFlags] = byte(i)
		frames = append(frames, transport.Frame{Head: head, Body: [][]byte{payload}})
	}
	if n, err := a.Send(frames); n != len(frames) || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if err := p.SetUp(1, false); err != nil {
		t.Fatal(err)
	}
	views, room := make([][]byte, 1), [][]byte{make([]byte, len(payload))}
	for i := range frames {
		if n, err := b.Recv(views); n != 1 || err != nil || b.Rest() == 0 {
			t.Fatalf("frame %d: %d, %v", i, n, err)
		}
		if !b.Fetch(ethertype.HeaderSize, room) {
			t.Errorf("frame %d is not there", i)
		}
	}
}
