package fault_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// open opens a ring link on one side of p.
func open(t *testing.T, p *vethtest.Pair, side int, slots int) transport.Link {
	t.Helper()
	var l *ring.Link
	err := p.In(side, func() (err error) {
		l, err = ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Slots: slots})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestLink runs the suite over a wrapper that does nothing, in each direction.
func TestLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	for name, dir := range map[string]fault.Direction{"Tx": fault.Tx, "Both": fault.Both} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				wrap := func(side int) transport.Link {
					return fault.New(open(t, p, side, 64), fault.Options{Dir: dir})
				}
				return linktest.Pair{A: wrap(0), B: wrap(1), C: wrap(1)}
			})
		})
	}
}

// TestRealLink loses, doubles and shuffles frames on veth and accounts for
// each.
func TestRealLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	const sent, seed = 2000, 5
	a := fault.New(open(t, p, 0, 0), fault.Options{
		Seed: seed, Drop: 0.1, Dup: 0.1, Reorder: 0.1, Delay: 20 * time.Microsecond, Jitter: 100 * time.Microsecond,
	})
	b := open(t, p, 1, 0)
	seen := map[int]int{}
	views := make([][]byte, transport.MaxBatch)
	recv := func() {
		n, err := b.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views[:n] {
			seen[int(v[62])<<8|int(v[63])]++
		}
	}
	for i := 0; i < sent; {
		f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte{byte(i >> 8), byte(i)})
		n, err := a.Send([]transport.Frame{{Head: f}})
		if err != nil {
			t.Fatal(err)
		}
		i += n
		recv()
	}
	// Wait alone brings out what is still delayed.
	if err := a.Wait(a.Now() + int64(5*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	out := a.Stats().TxFrames
	for end := b.Now() + int64(10*time.Second); b.Stats().RxFrames < out && b.Now() < end; {
		recv()
	}
	recv()
	total := 0
	for _, n := range seen {
		total += n
	}
	lost := sent - len(seen)
	if total != int(out) || lost < sent/20 || lost > sent/5 || total-len(seen) < sent/20 {
		t.Errorf("seed %d: sent %d, out %d, received %d, of them different %d", seed, sent, out, total, len(seen))
	}
	if a.Stats().Faults == 0 {
		t.Error("no fault was counted")
	}
}

// TestWaitSendsDelayed has a goroutine in Wait when the first frame is delayed: it
// must come out although nothing else is called.
func TestWaitSendsDelayed(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := fault.New(open(t, p, 0, 0), fault.Options{Delay: time.Millisecond}), open(t, p, 1, 0)
	before := a.Stats().Waits
	done := make(chan error, 1)
	go func() { done <- a.Wait(transport.Forever) }()
	for a.Stats().Waits == before {
		runtime.Gosched()
	}
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
	if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	if err := b.Wait(b.Now() + int64(10*time.Second)); err != nil || !b.Ready() {
		t.Errorf("the frame never came (%v)", err)
	}
	select {
	case err := <-done:
		t.Errorf("Wait returned %v although nothing happened to its link", err)
	default:
	}
	a.Wake()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := a.Stats(); st.Wakes != 1 {
		t.Errorf("Wakes = %d, want 1", st.Wakes)
	}
}

// TestInfo looks at what the wrapper says of itself.
func TestInfo(t *testing.T) {
	p := vethtest.New(t, 1500)
	l := open(t, p, 0, 0)
	if i := fault.New(l, fault.Options{Drop: 1}).Info(); i.Unprotected || !strings.HasPrefix(i.Driver, "fault+ring") {
		t.Errorf("%+v", i)
	}
	if i := fault.New(l, fault.Options{Corrupt: 0.1}).Info(); !i.Unprotected {
		t.Errorf("%+v", i)
	}
}

// TestCloseSendsDelayed closes a link while a frame is delayed: it arrives, as one
// would that is on the wire.
func TestCloseSendsDelayed(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := fault.New(open(t, p, 0, 0), fault.Options{Delay: time.Hour, Reorder: 0.5}), open(t, p, 1, 0)
	f := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, nil)
	for range 8 {
		if n, err := a.Send([]transport.Frame{{Head: f}}); n != 1 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
	}
	if b.Ready() {
		t.Error("a frame came at once")
	}
	a.Close()
	views := make([][]byte, transport.MaxBatch)
	if n, err := b.Recv(views); n != 8 || err != nil {
		t.Errorf("%d of 8 frames came out (%v)", n, err)
	}
}
