package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCloseDuringTraffic ends connections from other goroutines during traffic in both directions.
// Every call returns, every descriptor is returned, and the received data are intact.
func TestCloseDuringTraffic(t *testing.T) {
	ends := []struct {
		name string
		end  func(v *vipl.VI) error
	}{
		{"Disconnect", func(v *vipl.VI) error { return v.Disconnect() }},
		{"DisconnectTwice", func(v *vipl.VI) error { return all(v.Disconnect, v.Disconnect) }},
		{"Close", func(v *vipl.VI) error { return v.Close() }},
		{"CloseTwice", func(v *vipl.VI) error { return all(v.Close, v.Close) }},
		{"CloseAndDisconnect", func(v *vipl.VI) error {
			return all(v.Close, func() error {
				if err := v.Disconnect(); err != nil && !errors.Is(err, vipl.ErrClosed) {
					return err
				}
				return nil
			})
		}},
		{"CloseNIC", func(v *vipl.VI) error { return all(v.Close, v.NIC().Close, v.NIC().Close) }},
	}
	eachLink(t, func(t *testing.T, _ string, open opener) {
		t.Parallel()
		for _, level := range levels {
			for _, e := range ends {
				t.Run(e.name+"/"+level.String(), func(t *testing.T) {
					nics := open.nics(t, vipl.Config{}, nil)
					rounds := 5
					if e.name == "CloseNIC" {
						rounds = 1
					}
					for range rounds {
						closeInTraffic(t, nics, level, e.end)
					}
				})
			}
		}
	})
}

// closeInTraffic connects two VIs, lets each flood the other, and ends one of them.
func closeInTraffic(t *testing.T, nics [2]*vipl.NIC, level reliability.Level, end func(v *vipl.VI) error) {
	t.Helper()
	a, b := join(t, nics, &vipl.Attributes{Reliability: level})
	defer b.Close()
	var moved atomic.Int64
	within(t, "a call", func() error {
		return all(
			func() error { return babble(a, &moved) }, func() error { return babble(b, &moved) },
			func() error { return listen(a, &moved) }, func() error { return listen(b, &moved) },
			func() error {
				for moved.Load() < 40 && a.State() == vipl.StateConnected {
					nics[0].Poll()
				}
				err := end(a)
				if level == reliability.Unreliable { // the Disconnect of an unreliable VI may be lost in the flood
					b.Disconnect()
				}
				return err
			})
	})
}

// over reports whether err is an error of a call whose connection has ended.
func over(err error) bool {
	return errors.Is(err, vipl.ErrDescriptor) || errors.Is(err, vipl.ErrClosed)
}

// babble sends until its VI is no longer connected, and takes every send.
func babble(v *vipl.VI, moved *atomic.Int64) error {
	out, err := newBuffers(v.NIC(), 8, 3000)
	if err != nil {
		return ignoreClosed(err)
	}
	content(1, 1, out.data(0))
	for i := 0; v.State() == vipl.StateConnected; i++ {
		if i >= 8 { // take the oldest send and post it again
			if _, err := v.SendWait(bg); over(err) {
				break
			} else if err != nil {
				return fmt.Errorf("SendWait: %w", err)
			}
		}
		d := &out.descs[i%8]
		d.Segs = []vipl.Segment{{Data: out.data(0), Handle: out.h}}
		if err := v.PostSend(d); err != nil {
			return ignoreClosed(err)
		}
		moved.Add(1)
	}
	return takeAll(v.SendWait)
}

func ignoreClosed(err error) error {
	if errors.Is(err, vipl.ErrClosed) {
		return nil
	}
	return err
}

// takeAll takes the remaining descriptors of a queue. The calls must not block.
func takeAll(wait func(ctx context.Context) (*vipl.Descriptor, error)) error {
	for {
		if d, err := wait(bg); d == nil {
			if !over(err) {
				return err
			}
			return nil
		}
	}
}

// takeReceives takes the remaining receives. A receive that was posted after the end stays posted
// on an idle VI.
func takeReceives(v *vipl.VI) error {
	for {
		if d, err := v.RecvDone(); d == nil {
			if !over(err) && (err != vipl.ErrNotDone || v.State() != vipl.StateIdle) {
				return fmt.Errorf("%v: %w", v.State(), err)
			}
			return nil
		}
	}
}

// listen receives until its VI is no longer connected.
func listen(v *vipl.VI, moved *atomic.Int64) error {
	in, err := newBuffers(v.NIC(), 64, 3000)
	if err != nil {
		return ignoreClosed(err)
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			return ignoreClosed(err)
		}
	}
	for v.State() == vipl.StateConnected {
		d, err := v.RecvWait(bg)
		switch {
		case over(err):
			return takeReceives(v)
		case err != nil:
			return err
		case d.Length != 3000:
			return fmt.Errorf("a message of %d bytes", d.Length)
		}
		if err := check(1, 1, d.Segs[0].Data); err != nil {
			return err
		}
		moved.Add(1)
		if err := v.PostRecv(d); err != nil {
			return ignoreClosed(err)
		}
	}
	return takeReceives(v)
}

// slowLink is a link whose Close takes long.
type slowLink struct {
	transport.Link
	release chan struct{}
}

func (l *slowLink) Info() transport.Info {
	info := l.Link.Info()
	info.Virtual = false // several goroutines use the NIC
	return info
}

func (l *slowLink) Close() error {
	<-l.release
	return l.Link.Close()
}

// TestSecondClose: a second Close returns when the first has finished, and not while the link and
// the memory are still in use. A third Close returns immediately.
func TestSecondClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire, _ := memPair(1500)
		link := &slowLink{wire, make(chan struct{})}
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, WireOnly: true, Seed: 1, NoService: true})
		if err != nil {
			t.Fatal(err)
		}
		returned := make(chan int, 2)
		for i := range 2 {
			go func() {
				if err := n.Close(); err != nil {
					t.Errorf("Close %d: %v", i, err)
				}
				returned <- i
			}()
			synctest.Wait()
			if len(returned) > 0 {
				t.Errorf("call %d of Close has returned before the link was closed", i)
			}
		}
		close(link.release)
		synctest.Wait()
		if len(returned) != 2 {
			t.Errorf("%d of 2 calls of Close have returned", len(returned))
		}
		if err := n.Close(); err != nil {
			t.Errorf("a third Close: %v", err)
		}
	})
}

// TestLostDisconnect: a side detects an error of its peer, its report is lost, and its program
// disconnects immediately. Nevertheless, the peer learns the cause, and its send has the
// corresponding status.
func TestLostDisconnect(t *testing.T) {
	causes := []struct {
		name   string
		err    error
		status vipl.Status
		begin  func(d *duo) *vipl.Descriptor // makes b's error
	}{
		{"TooLong", vipl.ErrTooLong, vipl.StatusRemoteDescError, func(d *duo) *vipl.Descriptor {
			d.post(d.a, 16)
			return d.send(d.b, 100)
		}},
		{"NoReceive", vipl.ErrRecvQueue, vipl.StatusRemoteDescError, func(d *duo) *vipl.Descriptor { return d.send(d.b, 100) }},
		{"RDMA", vipl.ErrRDMA, vipl.StatusOpRDMAWrite | vipl.StatusRDMAProtError, func(d *duo) *vipl.Descriptor {
			return d.write(d.b, 100, 4096, 77, false)
		}},
	}
	leave := map[string]func(v *vipl.VI) error{"Disconnect": (*vipl.VI).Disconnect, "Close": (*vipl.VI).Close}
	for _, c := range causes {
		for name, end := range leave {
			t.Run(fmt.Sprint(c.name, "/", name), func(t *testing.T) {
				attr := &vipl.Attributes{Reliability: reliability.ReliableReception, EnableRDMAWrite: true}
				d := newDuo(t, attr, attr)
				s := c.begin(d)
				wire := d.links[1] // to b
				sent := wire.tail
				d.na.Poll()
				if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), c.err) || wire.tail == sent {
					t.Fatalf("%v, %v, %d frames: want it to find %v and say so", d.a.State(), d.a.Err(), wire.tail-sent, c.err)
				}
				wire.tail = sent // lost
				if err := end(d.a); err != nil {
					t.Fatal(err)
				}
				wire.tail = sent // the frames that it sends when it disconnects are lost too
				for i := 0; d.b.State() == vipl.StateConnected && i < 100; i++ {
					d.run()
				}
				if !errors.Is(d.b.Err(), c.err) {
					t.Errorf("the peer learns %v, want %v", d.b.Err(), c.err)
				}
				got, err := d.b.SendDone()
				d.took(got, err, s, c.status)
			})
		}
	}
}

// TestTimeWaitIsKept: a NIC remembers a connection that it has ended until the peer knows the end.
// Connections that peers have ended do not displace this record.
func TestTimeWaitIsKept(t *testing.T) {
	d := newDuo(t, nil, nil)
	left, unaware := d.a, d.b
	wire := d.links[1] // to b
	sent := wire.tail
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	wire.tail = sent // lost
	for range 70 {   // more connections than the NIC remembers
		d.a, d.b = d.idle(d.na), d.idle(d.nb)
		d.connect()
		d.b.Close()
		d.na.Poll()
		if d.a.State() != vipl.StateError {
			t.Fatalf("%v, want it to have heard that its peer has left", d.a.State())
		}
		d.a.Close()
	}
	if unaware.State() != vipl.StateConnected {
		t.Fatalf("%v, %v: the test tests nothing", unaware.State(), unaware.Err())
	}
	d.send(unaware, 10)
	d.run()
	var ended *vipl.ConnError
	if !errors.As(unaware.Err(), &ended) || ended.Err != vipl.ErrDisconnected || ended.Detail != "the peer says so" {
		t.Errorf("%v, want it to hear of the end", unaware.Err())
	}
}

// idle returns a new VI of n.
func (d *duo) idle(n *vipl.NIC) *vipl.VI {
	d.t.Helper()
	v, err := n.CreateVI(nil, nil, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// TestClosedSaysNothing: a program has closed the link of a NIC, but the link still carries frames,
// as it does during its Close. The NIC does not tell its peers that they are silent, because they
// are not.
func TestClosedSaysNothing(t *testing.T) {
	d := newDuo(t, nil, nil)
	d.links[0].dead = true
	d.na.Poll()
	if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), vipl.ErrLink) {
		t.Fatalf("%v, %v: want it to end with the link", d.a.State(), d.a.Err())
	}
	d.links[0].dead = false
	d.send(d.b, 100)
	said := d.links[0].frames
	d.na.Poll()
	d.nb.Poll()
	if d.b.State() != vipl.StateConnected || d.links[0].frames != said {
		t.Errorf("the peer is %v (%v), after %d frames", d.b.State(), d.b.Err(), d.links[0].frames-said)
	}
}

// TestClosedGivesBackOnce: descriptors that a closed VI has returned can be posted on another VI,
// and the closed VI does not return them again.
func TestClosedGivesBackOnce(t *testing.T) {
	d := newDuo(t, nil, nil)
	taken := map[string]func() (*vipl.Descriptor, error){
		"SendDone": d.a.SendDone, "RecvDone": d.a.RecvDone,
		"SendWait": func() (*vipl.Descriptor, error) { return d.a.SendWait(bg) },
		"RecvWait": func() (*vipl.Descriptor, error) { return d.a.RecvWait(bg) },
	}
	given := []*vipl.Descriptor{d.post(d.a, 8), d.post(d.a, 8), d.send(d.a, 8), d.send(d.a, 8)}
	if err := d.a.Close(); err != nil {
		t.Fatal(err)
	}
	other := d.idle(d.na)
	for _, x := range given {
		if err := other.PostRecv(x); err != nil {
			t.Fatal(err)
		}
	}
	for name, take := range taken {
		if x, err := take(); x != nil || !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("%s: took %p (%v) from the closed VI, which is posted on another", name, x, err)
		}
	}
	for _, x := range given {
		if err := other.PostRecv(x); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("posted twice: %v", err)
		}
	}
}

// TestClosedUnderWaiter is TestClosedGivesBackOnce with a caller that is blocked when the VI is
// closed.
func TestClosedUnderWaiter(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("a", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		other, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		x := &vipl.Descriptor{}
		if err := v.PostRecv(x); err != nil {
			return err
		}
		w.Go("closer", func() {
			if err := errors.Join(w.Sleep(time.Second), v.Close(), other.PostRecv(x)); err != nil {
				w.errs = append(w.errs, err)
			}
		})
		if d, err := v.RecvWait(bg); d != nil || !errors.Is(err, vipl.ErrClosed) {
			return fmt.Errorf("took %p (%v), which is posted on another VI", d, err)
		}
		if err := other.PostRecv(x); !errors.Is(err, vipl.ErrArgument) {
			return fmt.Errorf("posted twice: %v", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestClosedNICKeeps: the close of a NIC does not return posted descriptors. The program can take
// them, or gets them back when it closes their VI.
func TestClosedNICKeeps(t *testing.T) {
	d := newDuo(t, nil, nil)
	first, second := d.post(d.a, 8), d.post(d.a, 8)
	if err := d.na.Close(); err != nil {
		t.Fatal(err)
	}
	first.Segs, second.Segs = nil, nil // their segments lie in memory of the other NIC
	if err := d.b.PostRecv(first); !errors.Is(err, vipl.ErrArgument) {
		t.Error("posted although it can still be taken:", err)
	}
	got, err := d.a.RecvDone()
	d.took(got, err, first, vipl.StatusOpReceive|vipl.StatusFlushed)
	if err := d.b.PostRecv(first); err != nil {
		t.Error("was taken and cannot be posted:", err)
	}
	if err := d.a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.b.PostRecv(second); err != nil {
		t.Error("its VI was closed and it cannot be posted:", err)
	}
	if got, err := d.a.RecvDone(); got != nil || !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("took %p (%v), which is posted on another VI", got, err)
	}
}

// TestClosedVIsAreReleased: the memory of accepted and closed VIs is freed as soon as the program
// no longer refers to them, although their listener is still open.
func TestClosedVIsAreReleased(t *testing.T) {
	const count = 20
	d := newDuo(t, nil, nil)
	l, err := d.na.Listen(service + 1)
	if err != nil {
		t.Fatal(err)
	}
	closed := make([]weak.Pointer[vipl.VI], count)
	for i := range closed {
		closed[i] = acceptOne(d, l)
	}
	held := 0
	for range 5 { // garbage collections; a finished one has freed all unreachable memory
		runtime.GC()
		held = 0
		for _, p := range closed {
			if p.Value() != nil {
				held++
			}
		}
		if held == 0 {
			break
		}
	}
	if held > 1 { // the engine may still refer to the last VI
		t.Errorf("%d of %d closed VIs are still in memory", held, count)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(d)
}

// acceptOne connects two VIs by l, sends a message, and closes both.
//
//go:noinline
func acceptOne(d *duo, l *vipl.Listener) weak.Pointer[vipl.VI] {
	t := d.t
	t.Helper()
	a, b := d.idle(d.na), d.idle(d.nb)
	if err := b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AcceptStart(a); err != nil {
		t.Fatal(err)
	}
	d.run()
	in := d.post(a, 8)
	d.send(b, 8)
	d.run()
	got, err := a.RecvDone()
	d.took(got, err, in, vipl.StatusOpReceive)
	a.Close()
	b.Close()
	d.run()
	return weak.Make(a)
}

// wantClosed checks that err is an ErrClosed that names the closed object.
func wantClosed(t *testing.T, call, what string, err error) {
	t.Helper()
	if !errors.Is(err, vipl.ErrClosed) || !errors.Is(err, vipl.ErrInvalidState) || !strings.Contains(err.Error(), "the "+what+" is closed") {
		t.Errorf("%s: %v; want an ErrClosed that names the %s", call, err, what)
	}
}

// TestSaysWhatIsClosed: errors of calls on a closed VI, completion queue or listener of an open NIC
// name the closed object. Errors of calls on a closed NIC name the NIC.
func TestSaysWhatIsClosed(t *testing.T) {
	d := newDuo(t, nil, nil)
	cq, err := d.na.CreateCQ(4)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.na.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	q := seam.OnQueue(cq, 1)
	calls := []struct {
		name, what string
		call       func() error
	}{
		{"PostSend", "VI", func() error { return d.a.PostSend(&vipl.Descriptor{}) }},
		{"PostRecv", "VI", func() error { return d.a.PostRecv(&vipl.Descriptor{}) }},
		{"SendDone", "VI", func() error { _, err := d.a.SendDone(); return err }},
		{"RecvWait", "VI", func() error { _, err := d.a.RecvWait(bg); return err }},
		{"SendNotify", "VI", func() error { return d.a.SendNotify(func(*vipl.VI, *vipl.Descriptor, error) {}) }},
		{"Connect", "VI", func() error { return d.a.Connect(bg, d.nb.Addr(), nil) }},
		{"ConnectDone", "VI", func() error { return d.a.ConnectDone() }},
		{"ConnectPeer", "VI", func() error { return d.a.ConnectPeer(bg, d.nb.Addr(), nil) }},
		{"Disconnect", "VI", func() error { return d.a.Disconnect() }},
		{"SetAttributes", "VI", func() error { return d.a.SetAttributes(nil) }},
		{"CQ.Done", "completion queue", func() error { _, _, err := cq.Done(); return err }},
		{"CQ.Wait", "completion queue", func() error { _, _, err := cq.Wait(bg); return err }},
		{"Queue.Poll", "completion queue", func() error { _, err := q.Poll(); return err }},
		{"Queue.ReapWait", "completion queue", func() error { _, err := q.ReapWait(bg); return err }},
		{"CQ.Resize", "completion queue", func() error { return cq.Resize(9) }},
		{"CQ.Notify", "completion queue", func() error { return cq.Notify(func(*vipl.VI, bool) {}) }},
		{"Listener.Poll", "listener", func() error { _, err := l.Poll(); return err }},
		{"Listener.Wait", "listener", func() error { _, err := l.Wait(bg); return err }},
		{"Listener.Bind", "listener", func() error { return l.Bind(nil) }},
	}
	if err := errors.Join(d.a.Close(), cq.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		wantClosed(t, c.name, c.what, c.call())
	}
	d.a, d.na = d.b, d.nb
	if cq, err = d.na.CreateCQ(4); err != nil {
		t.Fatal(err)
	}
	if l, err = d.na.Listen(0); err != nil {
		t.Fatal(err)
	}
	q = seam.OnQueue(cq, 1)
	d.nb.Close()
	for _, c := range calls {
		wantClosed(t, c.name, "NIC", c.call())
	}
}

// TestSaysDisconnected: after the program's own Disconnect, the errors of waits on the VI and of
// ConnectDone mention the Disconnect. After the next attempt to connect they do not.
func TestSaysDisconnected(t *testing.T) {
	d := newDuo(t, nil, nil)
	said := func(call string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "Disconnect was called") {
			t.Errorf("%s: %v; want a %v that says so", call, err, want)
		}
	}
	over, cancel := context.WithCancel(bg)
	cancel()
	for _, first := range []func() error{d.a.Disconnect, d.b.Disconnect} { // the VI's own Disconnect, or the peer's before it
		if err := first(); err != nil {
			t.Fatal(err)
		}
		d.run()
		if err := d.a.Disconnect(); err != nil {
			t.Fatal(err)
		}
		_, err := d.a.RecvWait(bg)
		said("RecvWait of an empty queue", err, vipl.ErrQueueEmpty)
		_, err = d.a.SendWait(bg)
		said("SendWait", err, vipl.ErrQueueEmpty)
		said("ConnectDone", d.a.ConnectDone(), vipl.ErrInvalidState)
		r := d.post(d.a, 8)
		_, err = d.a.RecvWait(over)
		said("RecvWait", err, vipl.ErrTimeout)
		if err := d.b.Disconnect(); err != nil {
			t.Fatal(err)
		}
		d.run()
		d.connect()
		if _, err = d.a.RecvWait(over); !errors.Is(err, vipl.ErrTimeout) || strings.Contains(err.Error(), "Disconnect") {
			t.Errorf("connected again, RecvWait: %v", err)
		}
		d.send(d.b, 8)
		d.run()
		got, err := d.a.RecvDone()
		d.took(got, err, r, vipl.StatusOpReceive)
	}
}

// TestEnded: the channel is closed, with the cause, when the NIC or its link is closed, even if no
// goroutine calls the NIC.
func TestEnded(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(n *vipl.NIC) error
		want []error
	}{
		{"NIC closed", (*vipl.NIC).Close, []error{vipl.ErrClosed}},
		{"link closed", func(n *vipl.NIC) error { return seam.Link(n).Close() }, []error{vipl.ErrLink, transport.ErrClosed}},
	} {
		n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		select {
		case <-n.Ended():
			t.Errorf("%s: it has ended before", tc.name)
		default:
		}
		if err := n.Cause(); err != nil {
			t.Errorf("%s: before: %v", tc.name, err)
		}
		if err := tc.end(n); err != nil {
			t.Fatal(err)
		}
		select {
		case <-n.Ended():
		case <-time.After(time.Minute):
			t.Fatalf("%s: it does not end", tc.name)
		}
		for _, want := range tc.want {
			if err := n.Cause(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", tc.name, err, want)
			}
		}
	}
}

// TestClosedMemory: a goroutine uses memory of any size from AllocMem while its NIC is closed.
// After that it reads zeros and may write, and the process does not crash. DeregisterMem frees the
// addresses.
func TestClosedMemory(t *testing.T) {
	n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	if err != nil {
		t.Fatal(err)
	}
	var mems [][]byte
	var handles []vipl.MemHandle
	for _, size := range []int{1, 5000, 4<<20 + 1} {
		mem, h, err := n.AllocMem(size, nil)
		if err != nil {
			t.Fatal(err)
		}
		mem[0], mem[size-1] = 7, 7
		mems, handles = append(mems, mem), append(handles, h)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mem := range mems {
		if err := look(mem); err != nil {
			t.Errorf("%d bytes: %v", len(mem), err)
		}
	}
	for i, h := range handles {
		if err := n.DeregisterMem(h); err != nil {
			t.Error(err)
		}
		if look(mems[i]) == nil {
			t.Errorf("%d bytes are still mapped", len(mems[i]))
		}
		if err := n.DeregisterMem(h); err != vipl.ErrClosed {
			t.Errorf("given back twice: %v, want ErrClosed", err)
		}
	}
}

// look reads and writes memory that may have been freed.
func look(mem []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	for _, i := range []int{0, len(mem) - 1} {
		if mem[i] != 0 {
			err = fmt.Errorf("byte %d is %d", i, mem[i])
		}
	}
	mem[0] = 9
	return err
}
