package vipl_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// TestPostRules posts what a descriptor must not say. The call returns the
// error, Status says which kind, nothing is queued, and the descriptor stays
// the caller's.
func TestPostRules(t *testing.T) {
	d := newDuo(t, nil, nil)
	buf, h := d.buffer(d.na, 4096, nil)
	stale, err := d.na.RegisterMem(make([]byte, 64), nil)
	if err != nil {
		t.Fatal(err)
	}
	staleData := make([]byte, 64)
	if err := d.na.DeregisterMem(stale); err != nil {
		t.Fatal(err)
	}
	tag, _ := d.na.CreatePtag()
	tagged, taggedH := d.buffer(d.na, 64, &vipl.MemAttributes{Ptag: tag})
	foreign, foreignH := d.buffer(d.nb, 64, nil)
	many := make([]vipl.Segment, vipl.MaxSegments+1)
	for i := range many {
		many[i] = vipl.Segment{Data: buf[:1], Handle: h}
	}
	for _, c := range []struct {
		name   string
		d      vipl.Descriptor
		want   error
		status vipl.Status
		sends  bool // wrong for sends only
	}{
		{"BeyondTheEnd", vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[:4096:4096], Handle: h}, {Data: tagged, Handle: h}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"OneByteBeyond", vipl.Descriptor{Segs: []vipl.Segment{{Data: make([]byte, 8), Handle: h}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"ZeroHandle", vipl.Descriptor{Segs: []vipl.Segment{{Data: buf}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"UnknownHandle", vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: 1<<20 | 999}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"StaleHandle", vipl.Descriptor{Segs: []vipl.Segment{{Data: staleData, Handle: stale}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"OtherNICsHandle", vipl.Descriptor{Segs: []vipl.Segment{{Data: foreign, Handle: foreignH}}}, vipl.ErrArgument, vipl.StatusProtectionError, false},
		{"OtherPtag", vipl.Descriptor{Segs: []vipl.Segment{{Data: tagged, Handle: taggedH}}}, vipl.ErrInvalidPtag, vipl.StatusProtectionError, false},
		{"TooManySegments", vipl.Descriptor{Segs: many}, vipl.ErrArgument, vipl.StatusFormatError, false},
		{"UnknownOperation", vipl.Descriptor{Op: 77, Segs: []vipl.Segment{{Data: buf, Handle: h}}}, vipl.ErrArgument, vipl.StatusFormatError, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			posts := map[string]func(*vipl.Descriptor) error{"send": d.a.PostSend, "receive": d.a.PostRecv}
			if c.sends {
				delete(posts, "receive")
			}
			for name, post := range posts {
				x := c.d
				if err := post(&x); !errors.Is(err, c.want) || x.Status != c.status {
					t.Errorf("%s: %v, status %v; want %v, %v", name, err, x.Status, c.want, c.status)
				}
				if q := d.a.Query(); !q.SendEmpty || !q.RecvEmpty {
					t.Errorf("%s: something was queued", name)
				}
				x.Op, x.Segs = vipl.OpSend, []vipl.Segment{{Data: buf[:8], Handle: h}}
				if err := d.b.PostSend(&x); !errors.Is(err, vipl.ErrArgument) { // b's NIC does not know a's handle
					t.Errorf("%s: the descriptor did not stay the caller's: %v", name, err)
				}
			}
		})
	}
	d.run()
	d.alive()
	if err := d.na.DeregisterMem(h); err != nil {
		t.Errorf("refused descriptors hold on to the region: %v", err)
	}
}

func TestMaxTransferSize(t *testing.T) {
	attr := &vipl.Attributes{MaxTransferSize: 100}
	d := newDuo(t, attr, attr)
	buf, h := d.buffer(d.na, 200, nil)
	x := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[:60], Handle: h}, {Data: buf[60:101], Handle: h}}}
	if err := d.a.PostSend(x); !errors.Is(err, vipl.ErrArgument) || x.Status != vipl.StatusLengthError {
		t.Errorf("101 bytes: %v, %v", err, x.Status)
	}
	r := d.post(d.b, 100)
	x.Segs[1].Data = buf[60:100]
	if err := d.a.PostSend(x); err != nil {
		t.Fatal(err)
	}
	d.run()
	got, err := d.b.RecvDone()
	d.took(got, err, r, vipl.StatusOpReceive)
}

func TestQueueFull(t *testing.T) {
	attr := &vipl.Attributes{QueueDepth: 3}
	d := newDuo(t, attr, attr)
	for i := range 4 {
		x := &vipl.Descriptor{}
		switch err := d.b.PostRecv(x); {
		case i < 3 && err != nil:
			t.Fatal(err)
		case i == 3 && (!errors.Is(err, vipl.ErrResource) || err != vipl.ErrRecvQueueFull):
			t.Fatalf("receive beyond the depth: %v", err)
		}
	}
	var sends []*vipl.Descriptor
	for range 3 {
		sends = append(sends, d.send(d.a, 0))
	}
	d.run() // completed, but not taken: they still count
	extra := &vipl.Descriptor{}
	if err := d.a.PostSend(extra); err != vipl.ErrSendQueueFull || !errors.Is(err, vipl.ErrResource) {
		t.Fatalf("send beyond the depth: %v", err)
	}
	got, err := d.a.SendDone()
	d.took(got, err, sends[0], vipl.StatusOpSend)
	if err := d.a.PostRecv(extra); err != nil {
		t.Fatalf("the refused descriptor did not stay the caller's: %v", err)
	}
}

// TestDoublePost posts a descriptor that is posted, or completed and not taken.
func TestDoublePost(t *testing.T) {
	d := newDuo(t, nil, nil)
	r := d.post(d.b, 8)
	for name, post := range map[string]func(*vipl.Descriptor) error{
		"again": d.b.PostRecv, "as send": d.b.PostSend, "elsewhere": d.a.PostRecv,
	} {
		if err := post(r); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("%s: %v, want ErrArgument", name, err)
		}
	}
	d.send(d.a, 8)
	d.run()
	if d.b.Snapshot().RecvUntaken != 1 {
		t.Fatal("not received")
	}
	if err := d.b.PostRecv(r); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("completed but not taken: %v, want ErrArgument", err)
	}
	got, err := d.b.RecvDone()
	d.took(got, err, r, vipl.StatusOpReceive)
	if err := d.b.PostRecv(r); err != nil {
		t.Errorf("taken: %v", err)
	}
	if err := d.b.Close(); err != nil {
		t.Fatal(err)
	}
	r.Segs = nil
	if err := d.a.PostRecv(r); err != nil {
		t.Errorf("its VI is closed: %v", err)
	}
}

// TestDoneOrder takes descriptors off queues whose head is pending, done or
// missing.
func TestDoneOrder(t *testing.T) {
	d := newDuo(t, nil, nil)
	if x, err := d.a.SendDone(); x != nil || err != vipl.ErrQueueEmpty || !errors.Is(err, vipl.ErrDescriptor) {
		t.Errorf("SendDone of an empty queue: %v, %v", x, err)
	}
	if x, err := d.a.RecvWait(bg); x != nil || err != vipl.ErrQueueEmpty {
		t.Errorf("RecvWait of an empty queue: %v, %v", x, err)
	}
	first, second := d.post(d.b, 8), d.post(d.b, 8)
	if x, err := d.b.RecvDone(); x != nil || err != vipl.ErrNotDone {
		t.Errorf("RecvDone of a pending head: %v, %v", x, err)
	}
	d.send(d.a, 3)
	d.send(d.a, 5)
	d.run()
	x, err := d.b.RecvDone()
	d.took(x, err, first, vipl.StatusOpReceive)
	x, err = d.b.RecvWait(bg)
	d.took(x, err, second, vipl.StatusOpReceive)
	if first.Length != 3 || second.Length != 5 {
		t.Errorf("lengths %d and %d, want 3 and 5", first.Length, second.Length)
	}
}

// TestPostNil: to post nil is the program's mistake and panics, as a method of nil does, but
// the NIC goes on without that goroutine.
func TestPostNil(t *testing.T) {
	d := newDuo(t, nil, nil)
	for name, post := range map[string]func(*vipl.Descriptor) error{"send": d.a.PostSend, "receive": d.a.PostRecv} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			post(nil)
		}()
	}
	d.run()
	d.alive()
}

// TestRegisterBytes registers one huge region again and again until a NIC has as
// many bytes as it may have. Nothing of the region is ever touched.
func TestRegisterBytes(t *testing.T) {
	const size = 1 << 46
	if vipl.MaxRegisterBytes>>46 == 0 {
		t.Skip("such a region does not fit this processor's addresses")
	}
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Skip("this process may not map 64 TiB of addresses:", err)
	}
	t.Cleanup(func() { unix.Munmap(buf) })
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("a"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	var last vipl.MemHandle
	for range n.Query().MaxRegisterBytes / size {
		if last, err = n.RegisterMem(buf, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.RegisterMem(buf, nil); !errors.Is(err, vipl.ErrResource) {
		t.Fatalf("%d bytes, and %d more: %v, want ErrResource", n.Snapshot().RegionBytes, size, err)
	}
	if err := n.DeregisterMem(last); err != nil {
		t.Fatal(err)
	}
	if _, err := n.RegisterMem(buf, nil); err != nil {
		t.Errorf("after one was deregistered: %v", err)
	}
}

// TestHardwareVersion wants the kernel's name for what an interface is.
func TestHardwareVersion(t *testing.T) {
	for _, n := range vethNICs(t, 1500, vipl.Config{}, nil) {
		if got := n.Query().HardwareVersion; got != "veth" {
			t.Errorf("%q, want veth, which has no firmware", got)
		}
	}
}
