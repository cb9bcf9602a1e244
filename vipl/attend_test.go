package vipl_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestAttend: the function is called once for all entries until they are reaped, again
// for entries that a reap has left, for those that were there before, and not after the
// queue's end.
func TestAttend(t *testing.T) {
	withQueue(t, func(w *sim.World, nic *vipl.NIC, cq *vipl.CQ) {
		vi, err := nic.CreateVI(nil, cq, nil)
		if err != nil {
			t.Error(err)
			return
		}
		q, calls := seam.OnQueue(cq, 2), 0
		expect := func(want int, what string) {
			t.Helper()
			if calls != want {
				t.Errorf("%s: called %d times, want %d", what, calls, want)
			}
		}
		post := func() {
			t.Helper()
			if err := vi.PostSend(&vipl.Descriptor{}); err != nil { // it completes at once, flushed: the VI is idle
				t.Error(err)
			}
		}
		post()
		if err := q.Attend(func() { calls++ }); err != nil {
			t.Error(err)
		}
		expect(1, "an entry was there")
		post()
		post()
		expect(1, "nobody has reaped")
		if n := len(q.Reap()); n != 2 {
			t.Errorf("reaped %d", n)
		}
		expect(2, "a reap has left one")
		q.Reap()
		expect(2, "all are reaped")
		post()
		expect(3, "a new one")
		vi.Close()
		cq.Close()
		if err := q.Attend(func() {}); !errors.Is(err, vipl.ErrClosed) {
			t.Errorf("attend of a closed queue: %v", err)
		}
	})
}

// TestAttendWrites: an RDMA write without immediate data ends a WaitSince at a queue that
// is attended, although it makes no entry.
func TestAttendWrites(t *testing.T) {
	var target vipl.RemoteSegment
	var mem []byte
	w := newWorld(sim.Options{})
	var server *vipl.Listener
	w.node("server", nil, func(n *vipl.NIC) error {
		q, err := seam.NewQueue(n, 8, 0)
		if err != nil {
			return err
		}
		if err := q.Attend(func() {}); err != nil {
			return err
		}
		var h vipl.MemHandle
		if mem, h, err = n.AllocMem(64, &vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
			return err
		}
		target = vipl.RemoteSegment{Addr: vipl.VirtualAddress(mem), Handle: h}
		vi, err := n.CreateVI(nil, q.CQ, q.CQ)
		if err != nil {
			return err
		}
		if server, err = n.Listen(0); err != nil {
			return err
		}
		r, err := server.Wait(bg)
		if err != nil {
			return err
		}
		if err := r.Accept(bg, vi); err != nil {
			return err
		}
		q.Reap()
		for mem[63] == 0 {
			if err := q.WaitSince(bg, 0, q.Seen()); err != nil {
				return err
			}
			q.Reap()
		}
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		for server == nil {
			w.Sleep(time.Millisecond)
		}
		vi, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		if err := vi.Connect(bg, server.Addr(), nil); err != nil {
			return err
		}
		w.Sleep(time.Second)
		buf, h, err := n.AllocMem(64, nil)
		if err != nil {
			return err
		}
		copy(buf, bytes.Repeat([]byte{7}, 64))
		d := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: buf, Handle: h}}, Remote: target}
		if err := vi.PostSend(d); err != nil {
			return err
		}
		_, err = vi.SendWait(bg)
		return err
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestPostLate: a send that is posted for later leaves with the engine's next turn, and
// not before; behind it what is posted next.
func TestPostLate(t *testing.T) {
	d := newDuo(t, nil, nil)
	first, second, third := d.post(d.b, 5000), d.post(d.b, 5000), d.post(d.b, 16)
	data, h := d.buffer(d.na, 5000, nil)
	send := &vipl.Descriptor{Segs: []vipl.Segment{{Data: data, Handle: h}}}
	wire := d.links[1]
	before := wire.tail
	if err := seam.PostLate(d.a, send); err != nil {
		t.Fatal(err)
	}
	if wire.tail != before {
		t.Fatal("it was sent at once")
	}
	d.na.Poll()
	if wire.tail == before {
		t.Fatal("a turn of the engine has not sent it")
	}
	d.run()
	got, err := d.b.RecvDone()
	d.took(got, err, first, vipl.StatusOpReceive)
	if got, err := d.a.SendDone(); got != send || err != nil {
		t.Fatal(got, err)
	}
	if err := seam.PostLate(d.a, send); err != nil {
		t.Fatal(err)
	}
	d.send(d.a, 16)
	d.run()
	got, err = d.b.RecvDone()
	d.took(got, err, second, vipl.StatusOpReceive)
	got, err = d.b.RecvDone()
	d.took(got, err, third, vipl.StatusOpReceive)
}

// TestWords: whatever the alignment and length of an RDMA write, all of its bytes arrive
// and no others change.
func TestWords(t *testing.T) {
	attr := vipl.DefaultAttributes()
	d := newDuo(t, attr, attr)
	const room = 4096
	buf, h := d.buffer(d.nb, room, &vipl.MemAttributes{EnableRDMAWrite: true})
	data, lh := d.buffer(d.na, room, nil)
	want := make([]byte, room)
	for i := range data {
		data[i] = byte(1 + i%251)
	}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 33, 64, 100, 1400, 1449, 1456, 3001} {
		for at := range 17 {
			clear(buf)
			clear(want)
			copy(want[at:], data[at%3:][:n])
			w := &vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: []vipl.Segment{{Data: data[at%3:][:n], Handle: lh}},
				Remote: vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf[at:]), Handle: h}}
			if err := d.a.PostSend(w); err != nil {
				t.Fatal(err)
			}
			err := vipl.ErrNotDone
			for i := 0; errors.Is(err, vipl.ErrNotDone) && i < 100; i++ {
				d.run()
				_, err = d.a.SendDone()
			}
			if err != nil || !bytes.Equal(buf, want) {
				t.Fatalf("%d bytes at %d: %v, or others arrived", n, at, err)
			}
		}
	}
}
