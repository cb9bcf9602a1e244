package vipl_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// vethNICs opens two NICs on the ends of a veth. wrap, if not nil, is put
// around each link.
func vethNICs(t testing.TB, mtu int, cfg vipl.Config, wrap func(side int, l transport.Link) transport.Link) (nics [2]*vipl.NIC) {
	p := vethtest.New(t, mtu)
	for side := range nics {
		err := p.In(side, func() error {
			link, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, EtherType: ethertype.Default, Long: cfg.Long})
			if err != nil {
				return err
			}
			c := cfg
			if c.Link = link; wrap != nil {
				c.Link = wrap(side, link)
			}
			nics[side], err = vipl.Open(t.Context(), &c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// join connects new VIs of two NICs.
func join(t testing.TB, nics [2]*vipl.NIC, attr *vipl.Attributes) (a, b *vipl.VI) {
	l, err := nics[0].Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = nics[0].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	if b, err = nics[1].CreateVI(attr, nil, nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := l.Wait(bg)
		if err == nil {
			err = r.Accept(bg, a)
		}
		done <- err
	}()
	if err := b.Connect(bg, l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return a, b
}

// within fails the test if f has not returned after a time that is far beyond
// what it needs, or since any flow has delivered a message: something hangs.
func within(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for before := delivered.Load(); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		case <-time.After(time.Minute):
		}
		now := delivered.Load()
		if now == before {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
		before = now
	}
}

// delivered counts the messages of all flows.
var delivered atomic.Uint64

// all runs functions at the same time and returns their first error.
func all(fs ...func() error) error {
	errs := make(chan error, len(fs))
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(); err != nil {
				errs <- err
			}
		}()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// flow is count messages of size bytes from one VI to another, never more
// under way than receives are posted.
type flow struct {
	from, to    *vipl.VI
	count, size int
	seed        uint64
	credits     chan struct{}
	in          *buffers
}

const flowDepth = 16

func newFlow(t testing.TB, from, to *vipl.VI, count, size int, seed uint64) *flow {
	f := &flow{from: from, to: to, count: count, size: size, seed: seed, credits: make(chan struct{}, count+flowDepth)}
	var err error
	if f.in, err = newBuffers(to.NIC(), flowDepth, size); err != nil {
		t.Fatal(err)
	}
	for i := range f.in.descs {
		if err := to.PostRecv(&f.in.descs[i]); err != nil {
			t.Fatal(err)
		}
		f.credits <- struct{}{}
	}
	return f
}

func (f *flow) send() error {
	out, err := newBuffers(f.from.NIC(), flowDepth/2, f.size)
	if err != nil {
		return err
	}
	for i := range f.count {
		d := &out.descs[i%len(out.descs)]
		if i >= len(out.descs) {
			if _, err := f.from.SendWait(bg); err != nil {
				return fmt.Errorf("send %d: %w (%v)", i, err, f.from.Err())
			}
		}
		<-f.credits
		content(f.seed, i, d.Segs[0].Data)
		if err := f.from.PostSend(d); err != nil {
			return err
		}
	}
	return drain(f.from)
}

func (f *flow) receive() error {
	for i := range f.count {
		d, err := f.to.RecvWait(bg)
		if err != nil {
			return fmt.Errorf("receive %d: %w (%v)", i, err, f.to.Err())
		}
		if int(d.Length) != f.size {
			return fmt.Errorf("message %d has %d bytes, want %d", i, d.Length, f.size)
		}
		if err := check(f.seed, i, d.Segs[0].Data); err != nil {
			return err
		}
		if err := f.to.PostRecv(d); err != nil {
			return err
		}
		delivered.Add(1)
		f.credits <- struct{}{}
	}
	return nil
}

// TestFaultyLinks sends 100 MB each way at the same time over each link while it
// loses, doubles, reorders and corrupts 2 % of the frames each.
func TestFaultyLinks(t *testing.T) {
	const size = 1 << 20
	count := 96
	if !need.Full() {
		count = 4
	}
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		nics := open.nics(t, vipl.Config{}, faulty(fault.Options{Drop: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02}))
		a, b := join(t, nics, &vipl.Attributes{Reliability: reliability.ReliableReception})
		there, back := newFlow(t, a, b, count, size, 1), newFlow(t, b, a, count, size, 2)
		within(t, "the transfer", func() error { return all(there.send, there.receive, back.send, back.receive) })
		for side, v := range []*vipl.VI{a, b} {
			if v.Snapshot().Retransmits == 0 {
				t.Errorf("side %d has sent nothing again: there were no faults", side)
			}
		}
	})
}

// faulty returns what puts faults around links.
func faulty(o fault.Options) func(side int, l transport.Link) transport.Link {
	return func(side int, l transport.Link) transport.Link {
		o := o
		o.Seed = uint64(side) + 1
		return fault.New(l, o)
	}
}

// TestInterfaceDown switches an interface off in the midst of traffic: the
// connection ends in time, and each side says what it knows of the reason.
// Switched on again, the interface serves the next one.
func TestInterfaceDown(t *testing.T) {
	onChange(t, 1500, func(t *testing.T, p *vethtest.Pair, nics [2]*vipl.NIC, driver string) {
		s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 500 * time.Millisecond})
		if err := p.SetUp(0, false); err != nil {
			t.Fatal(err)
		}
		within(t, "the end", func() error { return errors.Join(notEnded(<-s.sent), notEnded(<-s.received)) })
		// The peer's kernel may take its time to notice that there is no carrier.
		for v, words := range map[*vipl.VI][]string{s.a: {"bob0 is down: ip link set bob0 up"}, s.b: {"is its interface up?", "bob0 has no carrier"}} {
			err := v.Err()
			if !errors.Is(err, vipl.ErrUnreachable) || !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }) {
				t.Errorf("ended with %v: want that the peer is unreachable, and one of %q", err, words)
			}
		}
		switchOn(t, p, 0, driver)
		startStream(t, nics, patient)
	})
}
