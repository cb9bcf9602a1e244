package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// told records what handlers were told, in order.
type told struct {
	vis   []*vipl.VI
	descs []*vipl.Descriptor
	errs  []error
	names []string
}

func (r *told) as(name string) func(*vipl.VI, *vipl.Descriptor, error) {
	return func(v *vipl.VI, d *vipl.Descriptor, err error) {
		r.vis, r.descs, r.errs, r.names = append(r.vis, v), append(r.descs, d), append(r.errs, err), append(r.names, name)
	}
}

// TestNotifyNow: what has completed before is taken, and told before the call
// returns.
func TestNotifyNow(t *testing.T) {
	d := newDuo(t, nil, nil)
	r, s := d.post(d.b, 8), d.send(d.a, 8)
	d.run()
	var got told
	if err := d.b.RecvNotify(got.as("recv")); err != nil {
		t.Fatal(err)
	}
	if err := d.a.SendNotify(got.as("send")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.descs, []*vipl.Descriptor{r, s}) || !slices.Equal(got.vis, []*vipl.VI{d.b, d.a}) || got.errs[0] != nil || got.errs[1] != nil {
		t.Fatalf("told %v of %v, %v", got.descs, got.vis, got.errs)
	}
	if r.Status != vipl.StatusOpReceive|vipl.StatusDone || r.Length != 8 {
		t.Errorf("receive: %v, %d bytes", r.Status, r.Length)
	}
	for _, done := range []func() (*vipl.Descriptor, error){d.b.RecvDone, d.a.SendDone} {
		if x, err := done(); err != vipl.ErrQueueEmpty {
			t.Errorf("Done after the handler: %v, %v", x, err)
		}
	}
}

// TestNotifyOnce: each handler gets one completion, in the order in which they
// were registered; completions without a handler wait for Done.
func TestNotifyOnce(t *testing.T) {
	d := newDuo(t, nil, nil)
	var posted []*vipl.Descriptor
	for range 3 {
		posted = append(posted, d.post(d.b, 8))
	}
	var got told
	for _, name := range []string{"first", "second"} {
		if err := d.b.RecvNotify(got.as(name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		d.send(d.a, 1)
	}
	d.run()
	if !slices.Equal(got.names, []string{"first", "second"}) || !slices.Equal(got.descs, posted[:2]) {
		t.Errorf("told %v", got.names)
	}
	x, err := d.b.RecvDone()
	d.took(x, err, posted[2], vipl.StatusOpReceive)
}

// TestNotifyAgain: a handler that registers itself again is told of every
// completion, without recursion, and may post and send from within.
func TestNotifyAgain(t *testing.T) {
	const count = 5000
	d := newDuo(t, &vipl.Attributes{QueueDepth: 2 * count}, &vipl.Attributes{QueueDepth: 2 * count})
	buf, h := d.buffer(d.nb, 8, nil)
	out := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	var seen, depth int
	var handle func(v *vipl.VI, r *vipl.Descriptor, err error)
	handle = func(v *vipl.VI, r *vipl.Descriptor, err error) {
		if depth++; depth > 1 || err != nil {
			t.Fatalf("%d handlers run inside each other, %v", depth, err)
		}
		seen++
		if err := v.PostRecv(r); err != nil {
			t.Error(err)
		}
		if seen == 1 {
			if err := v.PostSend(out); err != nil {
				t.Error(err)
			}
		}
		if err := v.RecvNotify(handle); err != nil {
			t.Error(err)
		}
		depth--
	}
	d.post(d.a, 8)
	for range count {
		d.post(d.b, 8)
	}
	in, _ := newBuffers(d.na, count, 1)
	for i := range in.descs {
		if err := d.a.PostSend(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	d.run()
	for range count { // several have come before the first handler is there
		d.nb.Poll()
		d.na.Poll()
	}
	if err := d.b.RecvNotify(handle); err != nil {
		t.Fatal(err)
	}
	for range count {
		d.run()
		if seen == count {
			break
		}
	}
	if seen != count {
		t.Errorf("told of %d completions, want %d", seen, count)
	}
	if x, err := d.a.RecvDone(); err != nil {
		t.Errorf("what the handler has sent: %v, %v", x, err)
	}
}

// TestNotifyFlush: descriptors that a disconnect flushes are told with
// ErrDescriptor.
func TestNotifyFlush(t *testing.T) {
	d := newDuo(t, nil, nil)
	r := d.post(d.b, 8)
	var got told
	d.b.RecvNotify(got.as("recv"))
	if err := d.b.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if len(got.errs) != 1 || got.errs[0] != vipl.ErrDescriptor || got.descs[0] != r || r.Status != vipl.StatusDone|vipl.StatusOpReceive|vipl.StatusFlushed {
		t.Fatalf("told %v, %v", got.descs, got.errs)
	}
}

// TestNotifyErrors goes through what is refused, and what close cancels.
func TestNotifyErrors(t *testing.T) {
	d, cq := boundPair(t, 2)
	var got told
	for name, notify := range map[string]func(func(*vipl.VI, *vipl.Descriptor, error)) error{"send": d.b.SendNotify, "receive": d.b.RecvNotify} {
		if err := notify(got.as(name)); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%s queue bound to a CQ: %v, want ErrArgument", name, err)
		}
	}
	if err := d.a.RecvNotify(nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("nil: %v", err)
	}
	if err := cq.Notify(nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("CQ, nil: %v", err)
	}
	shallow, err := d.na.CreateVI(&vipl.Attributes{QueueDepth: 2}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, nil, vipl.ErrResource} {
		if err := shallow.SendNotify(got.as("shallow")); !errors.Is(err, want) {
			t.Errorf("handler %d on a queue of 2: %v, want %v", i, err, want)
		}
		if err := cq.Notify(func(*vipl.VI, bool) { t.Error("a cancelled handler was called") }); !errors.Is(err, want) {
			t.Errorf("handler %d on a CQ of 2: %v, want %v", i, err, want)
		}
	}
	d.post(d.b, 8)
	d.post(d.a, 8)
	d.a.RecvNotify(got.as("closed"))
	shallow.Close()
	d.a.Close()
	d.b.Close() // flushes: no entry of a closed VI is told
	if err := cq.Close(); err != nil {
		t.Fatal(err)
	}
	d.run()
	if len(got.names) != 0 {
		t.Errorf("%v: told after close", got.names)
	}
	if err := d.b.RecvNotify(got.as("x")); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("closed VI: %v", err)
	}
	if err := cq.Notify(func(*vipl.VI, bool) {}); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("closed CQ: %v", err)
	}
}

// TestCQNotify: entries that are there are taken at once, later ones told as
// they come, in order; without a handler they stay.
func TestCQNotify(t *testing.T) {
	d, cq := boundPair(t, 8)
	for range 4 {
		d.post(d.b, 8)
		d.post(d.a, 8)
	}
	type entry struct {
		v    *vipl.VI
		recv bool
	}
	var got []entry
	handle := func(v *vipl.VI, recv bool) {
		got = append(got, entry{v, recv})
		take := v.SendDone
		if recv {
			take = v.RecvDone
		}
		if _, err := take(); err != nil {
			t.Error(err)
		}
	}
	d.send(d.a, 1)
	d.run()
	for range 3 {
		if err := cq.Notify(handle); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 1 {
		t.Errorf("told of %d entries before the second, want 1", len(got))
	}
	if q := cq.Query(); q.Handlers != 2 || q.Used != 0 || q.WorkQueues != 2 {
		t.Errorf("query: %+v", q)
	}
	d.send(d.b, 1)
	d.run()
	d.send(d.a, 1)
	d.send(d.a, 1)
	d.run()
	if want := []entry{{d.b, true}, {d.b, false}, {d.b, true}}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	if v, recv, err := cq.Done(); v != d.b || !recv || err != nil {
		t.Errorf("the fourth entry: %v, %v, %v", v, recv, err)
	}
}

// TestCQNotifyClosedVI: a handler that is to be told of a VI is called although
// another one has closed the VI before, and can register itself again.
func TestCQNotifyClosedVI(t *testing.T) {
	d, cq := boundPair(t, 8)
	d.post(d.b, 8)
	d.post(d.b, 8)
	told := 0
	var handle func(v *vipl.VI, recv bool)
	handle = func(v *vipl.VI, recv bool) {
		told++
		if _, err := v.RecvDone(); err == nil {
			t.Error("a closed VI gave a descriptor")
		}
		if err := cq.Notify(handle); err != nil {
			t.Error(err)
		}
	}
	if err := cq.Notify(handle); err != nil {
		t.Fatal(err)
	}
	d.nb.SetErrorHandler(func(e vipl.AsyncError) {
		if err := e.VI.Close(); err != nil {
			t.Error(err)
		}
	})
	d.a.Disconnect()
	d.run()
	if q := cq.Query(); told != 1 || q.Handlers != 1 || q.Used != 0 || q.WorkQueues != 0 {
		t.Errorf("told %d times, %+v", told, q)
	}
}

// TestHandlerPanics: the panic comes out of the call that ran the handler, and
// the NIC goes on with the next.
func TestHandlerPanics(t *testing.T) {
	d := newDuo(t, nil, nil)
	d.post(d.b, 8)
	d.post(d.b, 8)
	var got told
	d.b.RecvNotify(func(*vipl.VI, *vipl.Descriptor, error) { panic("as told") })
	d.b.RecvNotify(got.as("second"))
	d.send(d.a, 1)
	d.send(d.a, 1)
	func() {
		defer func() {
			if x := recover(); x != "as told" {
				t.Errorf("recovered %v", x)
			}
		}()
		d.b.RecvWait(bg)
		t.Error("the panic did not come up")
	}()
	d.run()
	if len(got.names) != 1 {
		t.Errorf("the second handler was called %d times", len(got.names))
	}
}

// TestNotifyAllocations wants nothing allocated for a handler that registers
// itself again.
func TestNotifyAllocations(t *testing.T) {
	a, b := memVIs(t, 1500, reliability.ReliableDelivery)
	in, _ := newBuffers(b.NIC(), 4, 64)
	out, _ := newBuffers(a.NIC(), 1, 64)
	for i := range in.descs {
		b.PostRecv(&in.descs[i])
	}
	seen := 0
	var handle func(v *vipl.VI, d *vipl.Descriptor, err error)
	handle = func(v *vipl.VI, d *vipl.Descriptor, err error) {
		seen++
		v.PostRecv(d)
		v.RecvNotify(handle)
	}
	b.RecvNotify(handle)
	round := func() {
		if err := a.PostSend(&out.descs[0]); err != nil {
			t.Fatal(err)
		}
		for before := seen; seen == before; {
			b.NIC().Poll()
		}
		for {
			if _, err := a.SendDone(); err == nil {
				break
			}
			b.NIC().Poll()
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
	if seen != 301 {
		t.Errorf("told of %d messages, want 301", seen)
	}
}

// TestNotifyEcho runs a server that only has handlers, which also wait inside,
// under loss and in virtual time.
func TestNotifyEcho(t *testing.T) {
	const count, size = 30, 5000
	seeds(t, manySeeds/5, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.1, Bandwidth: 1e9})
		attr := &vipl.Attributes{Reliability: reliableLevels[seed%2]}
		echoed := 0
		in := &inbox{count: count, size: size, seed: seed}
		server := func(v *vipl.VI) error {
			out, _ := newBuffers(v.NIC(), 1, size)
			var handle func(v *vipl.VI, d *vipl.Descriptor, err error)
			var failed error
			handle = func(v *vipl.VI, d *vipl.Descriptor, err error) {
				if err == nil {
					copy(out.data(0), d.Segs[0].Data)
					err = v.PostSend(&out.descs[0])
				}
				if err == nil {
					_, err = v.SendWait(bg) // in the midst of whatever the NIC did
				}
				if err == nil {
					echoed++
					err = v.RecvNotify(handle)
				}
				failed = errors.Join(failed, err)
			}
			if err := v.RecvNotify(handle); err != nil {
				return err
			}
			for echoed < count && failed == nil {
				driveFor(v.NIC(), time.Millisecond)
			}
			driveFor(v.NIC(), time.Second)
			return failed
		}
		postAll := func(v *vipl.VI) error {
			b, err := newBuffers(v.NIC(), count, size)
			for i := range b.descs {
				err = errors.Join(err, v.PostRecv(&b.descs[i]))
			}
			return err
		}
		return w.pair(attr, func(v *vipl.VI) error { return errors.Join(postAll(v), server(v)) }, in.post, func(v *vipl.VI) error {
			driveFor(v.NIC(), 10*time.Millisecond) // the server posts
			if err := sendAll(v, count, size, seed); err != nil {
				return err
			}
			err := in.receive(v)
			driveFor(v.NIC(), time.Second) // until the last acknowledgement has come through
			return err
		})
	})
}

// TestNotifyByService: nobody polls; the NIC's own goroutine runs the handlers,
// which may close the NIC.
func TestNotifyByService(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{}, nil)
	a, b := join(t, nics, nil)
	in, _ := newBuffers(b.NIC(), 3, 64)
	for i := range in.descs {
		if err := b.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	heard := make(chan error, 3)
	var handle func(v *vipl.VI, d *vipl.Descriptor, err error)
	handle = func(v *vipl.VI, d *vipl.Descriptor, err error) {
		if d.Context == 2 {
			err = errors.Join(err, v.NIC().Close())
		} else {
			err = errors.Join(err, v.RecvNotify(handle))
		}
		heard <- err
	}
	if err := b.RecvNotify(handle); err != nil {
		t.Fatal(err)
	}
	lost := make(chan vipl.AsyncError, 1)
	nics[0].SetErrorHandler(func(e vipl.AsyncError) { lost <- e })
	out, _ := newBuffers(a.NIC(), 3, 64)
	for i := range out.descs {
		if err := a.PostSend(&out.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "the handlers", func() error { return errors.Join(<-heard, <-heard, <-heard) })
	within(t, "the end", func() error {
		if e := <-lost; e.Code != vipl.CodeConnLost || e.VI != a || !errors.Is(e, vipl.ErrDisconnected) {
			return fmt.Errorf("%v, want the loss of the connection", e)
		}
		return nil
	})
}

// plainLink hides what else a link can do, looks at its interface among it,
// which make a NIC's goroutine rise from time to time.
type plainLink struct{ transport.Link }

// TestNotifyAsleep: a message that leaves nothing to do but the handler, no
// acknowledgement and no timer, is told before the NIC's goroutine sleeps again,
// which is for good on links that do not wake it for a frame that it has had.
func TestNotifyAsleep(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			var nics [2]*vipl.NIC
			for side := range nics {
				err := p.In(side, func() (err error) {
					nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Driver: driver, WireOnly: true,
						Wrap: func(l transport.Link) transport.Link { return plainLink{l} }})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nics[side].Close() })
			}
			toldAsleep(t, nics)
		})
	}
}

// toldAsleep sends some messages: before the first, something may wake the
// goroutine yet.
func toldAsleep(t *testing.T, nics [2]*vipl.NIC) {
	const count = 3
	a, b := join(t, nics, loose())
	in, _ := newBuffers(b.NIC(), count, 64)
	out, _ := newBuffers(a.NIC(), count, 64)
	for i := range count {
		if err := b.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		if err := b.RecvNotify(func(v *vipl.VI, d *vipl.Descriptor, err error) { told <- err }); err != nil {
			t.Fatal(err)
		}
		if err := a.PostSend(&out.descs[i]); err != nil {
			t.Fatal(err)
		}
		within(t, "the handler", func() error { return <-told })
	}
}

// TestHandlerEndsWait: a handler runs in the midst of a wait for something else,
// and ends it.
func TestHandlerEndsWait(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	err := w.pair(nil, func(v *vipl.VI) error {
		driveFor(v.NIC(), time.Second)
		return sendAll(v, 1, 8, 1)
	}, func(v *vipl.VI) error {
		return (&inbox{count: 1, size: 8, seed: 1}).post(v)
	}, func(v *vipl.VI) error {
		l, err := v.NIC().Listen(0)
		if err != nil {
			return err
		}
		if err := v.RecvNotify(func(*vipl.VI, *vipl.Descriptor, error) { l.Close() }); err != nil {
			return err
		}
		if _, err := l.Wait(bg); !errors.Is(err, vipl.ErrClosed) {
			return fmt.Errorf("wait: %v, want ErrClosed", err)
		}
		driveFor(v.NIC(), time.Second)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNotifyManyGoroutines has several goroutines wait, post and notify on one
// NIC at the same time; never two handlers run at once.
func TestNotifyManyGoroutines(t *testing.T) {
	const each, vis = 200, 4
	nics := vethNICs(t, 1500, vipl.Config{}, nil)
	inside := make(chan bool, 1)
	inside <- true
	done := make(chan error, 2*vis)
	for range vis {
		a, b := join(t, nics, nil)
		in, _ := newBuffers(b.NIC(), each, 64)
		for i := range in.descs {
			b.PostRecv(&in.descs[i])
		}
		seen := 0
		var handle func(v *vipl.VI, d *vipl.Descriptor, err error)
		handle = func(v *vipl.VI, d *vipl.Descriptor, err error) {
			select {
			case <-inside:
			default:
				done <- errors.New("two handlers at once")
				return
			}
			seen++
			last := seen == each
			if err == nil && !last {
				err = v.RecvNotify(handle)
			}
			inside <- true
			if err != nil || last {
				done <- err
			}
		}
		if err := b.RecvNotify(handle); err != nil {
			t.Fatal(err)
		}
		go func() {
			out, _ := newBuffers(a.NIC(), each, 64)
			for i := range out.descs {
				if err := a.PostSend(&out.descs[i]); err != nil {
					done <- err
					return
				}
			}
			done <- drain(a)
		}()
	}
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	for range 2 { // these drive the receiving NIC too
		l, err := nics[1].Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		go l.Wait(ctx)
	}
	within(t, "the handlers", func() error {
		for range 2 * vis {
			if err := <-done; err != nil {
				return err
			}
		}
		return nil
	})
}
