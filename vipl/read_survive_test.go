package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// library is a region that a reader reads pieces of.
type library struct {
	buf    []byte
	remote vipl.RemoteSegment
	closed bool // the reader is through
}

const librarySize = 1<<20 + 4096

// open fills and registers the region, and serves it until the reader is through.
func (l *library) open(seed uint64) func(v *vipl.VI) error {
	return func(v *vipl.VI) error {
		l.buf = make([]byte, librarySize)
		content(seed, 0, l.buf)
		h, err := v.NIC().RegisterMem(l.buf, &vipl.MemAttributes{EnableRDMARead: true})
		if err != nil {
			return err
		}
		l.remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(l.buf), Handle: h}
		for !l.closed {
			if err := driveMs(v.NIC()); err != nil || v.State() == vipl.StateError {
				return errors.Join(err, v.Err())
			}
		}
		return nil
	}
}

// readSize draws a size up to 1 MiB of which the logarithm is even.
func readSize(rng *rand.Rand, most int) int {
	if rng.IntN(10) == 0 {
		return 0
	}
	return rng.IntN(1<<rng.IntN(most+1)) + 1
}

// TestReadSurvive reads pieces of up to 1 MiB, many outstanding, from an owner
// that serves a few at a time, over a network that loses a third of all frames
// or copies and reorders them.
func TestReadSurvive(t *testing.T) {
	for _, c := range []struct {
		name string
		opts sim.Options
	}{
		{"Loss30", sim.Options{Loss: 0.3}},
		{"DuplicationReordering64", sim.Options{Dup: 0.2, Reorder: 0.3, ReorderBy: 64}},
		{"Everything", sim.Options{Loss: 0.15, Corrupt: 0.1, Dup: 0.1, Reorder: 0.2, ReorderBy: 64, Jitter: 30 * time.Microsecond, Bandwidth: 1e9, Queue: 64, TxSlots: 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds(t, 200, func(seed uint64) error {
				opts := c.opts
				opts.Seed = seed
				opts.MTU = []int{1500, 400, 9000}[seed%3]
				attr := &vipl.Attributes{Reliability: reliableLevels[seed%2], EnableRDMARead: true, ReadDepth: 1 + int(seed%20), PeerTimeout: time.Minute}
				most := 16
				if seed%40 == 0 {
					most = 20
				}
				l := &library{}
				return pair(opts, attr, l.open(seed), nil, func(v *vipl.VI) error { return l.read(v, seed, most) })
			})
		})
	}
}

// read posts 24 reads and checks them as they complete.
func (l *library) read(v *vipl.VI, seed uint64, most int) error {
	defer func() { l.closed = true }()
	rng := rand.New(rand.NewPCG(seed, 0x4ead))
	for l.remote.Addr == 0 {
		if err := driveMs(v.NIC()); err != nil {
			return err
		}
	}
	reads := make([]*vipl.Descriptor, 24)
	at := make([]int, len(reads))
	for i := range reads {
		size := readSize(rng, most)
		if most == 20 && i == 7 {
			size = 1 << 20
		}
		at[i] = rng.IntN(librarySize - size + 1)
		buf := make([]byte, max(size, 1))
		h, err := v.NIC().RegisterMem(buf, nil)
		if err != nil {
			return err
		}
		reads[i] = &vipl.Descriptor{Op: vipl.OpRDMARead, Segs: split(buf[:size], h, i), Remote: l.remote, Fence: rng.IntN(6) == 0}
		reads[i].Remote.Addr += uint64(at[i])
		if err := v.PostSend(reads[i]); err != nil {
			return err
		}
	}
	for i, r := range reads {
		d, err := v.SendWait(bg)
		if err != nil {
			return fmt.Errorf("read %d: %w: %v", i, err, v.Err())
		}
		b := joined(d)
		if d != r || int(d.Length) != len(b) || !bytes.Equal(b, l.buf[at[i]:at[i]+len(b)]) {
			return fmt.Errorf("read %d of %d bytes is not what the region holds: %v", i, len(b), d.Status)
		}
	}
	return nil
}

// served is a duo in the middle of a read of a's from memory that the library
// has mapped at b.
func served(t *testing.T, level reliability.Level) (d *duo, r *vipl.Descriptor, h vipl.MemHandle) {
	d = readable(t, level, 0)
	buf, h, err := d.nb.AllocMem(1<<20, &vipl.MemAttributes{EnableRDMARead: true})
	if err != nil {
		t.Fatal(err)
	}
	r = d.read(d.a, len(buf), vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
	for range 6 {
		d.nb.Poll()
		d.na.Poll()
	}
	if s := d.b.Snapshot(); s.RDMABytes > 0 || s.Sender.InFlight == 0 || r.Status != 0 {
		t.Fatalf("the read is not in its middle: %d served, %d in flight, %v", s.RDMABytes, s.Sender.InFlight, r.Status)
	}
	return d, r, h
}

// TestReadFromMemoryTakenBack takes back the memory, or the right to read it,
// in the middle of a read: the connection ends with VIA's error and nothing is
// read from pages that are no longer there.
func TestReadFromMemoryTakenBack(t *testing.T) {
	for name, take := range map[string]func(d *duo, h vipl.MemHandle) error{
		"DeregisterMem":    func(d *duo, h vipl.MemHandle) error { return d.nb.DeregisterMem(h) },
		"SetMemAttributes": func(d *duo, h vipl.MemHandle) error { return d.nb.SetMemAttributes(h, nil) },
		"SetAttributes": func(d *duo, h vipl.MemHandle) error {
			a := d.b.Query().Attributes
			a.EnableRDMARead = false
			return d.b.SetAttributes(&a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, r, h := served(t, reliability.ReliableDelivery)
			if err := take(d, h); err != nil {
				t.Fatal(err)
			}
			d.run()
			x, err := d.a.SendDone()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
			d.ended(vipl.ErrRDMA)
		})
	}
}

// TestReadFullLinkTakenBack does so while frames of the answer wait for a link
// that is full: they must not be sent from pages that are gone.
func TestReadFullLinkTakenBack(t *testing.T) {
	d, r, h := served(t, reliability.ReliableReception)
	room := d.links[0].tail
	d.links[0].tail = d.links[0].head + memSlots // b's frames find no room
	d.nb.Poll()
	*d.links[0].clock += 1_000_000_000 // time-outs send again into the full link
	d.nb.Poll()
	if err := d.nb.DeregisterMem(h); err != nil {
		t.Fatal(err)
	}
	d.links[0].tail = room
	d.run()
	x, err := d.a.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
	d.ended(vipl.ErrRDMA)
}

// TestReadSentAgainTakenBack takes the memory back when all of the answer has
// been sent, and lost: it is looked at again before anything is sent again.
func TestReadSentAgainTakenBack(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 0)
	buf, h, err := d.nb.AllocMem(5000, &vipl.MemAttributes{EnableRDMARead: true})
	if err != nil {
		t.Fatal(err)
	}
	d.run()
	r := d.read(d.a, 5000, vipl.RemoteSegment{Addr: vipl.VirtualAddress(buf), Handle: h})
	d.nb.Poll()
	l := d.links[0]
	if l.tail-l.head-l.lent != 4 {
		t.Fatalf("%d frames of the answer are under way, want 4", l.tail-l.head-l.lent)
	}
	l.tail = l.head + l.lent
	if err := d.nb.DeregisterMem(h); err != nil {
		t.Fatal(err)
	}
	*l.clock += 1_000_000_000
	d.run()
	x, err := d.a.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusRDMAProtError)
	d.ended(vipl.ErrRDMA)
}

// TestReadEnds ends the connection in the middle of a read, at each side and in
// each way: the read completes flushed, its memory is the caller's and is not
// written any more, and both can connect and read again.
func TestReadEnds(t *testing.T) {
	for name, end := range map[string]func(d *duo) error{
		"OwnerDisconnects":  func(d *duo) error { return d.b.Disconnect() },
		"ReaderDisconnects": func(d *duo) error { return d.a.Disconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			d, r, h := served(t, reliability.ReliableDelivery)
			if err := end(d); err != nil {
				t.Fatal(err)
			}
			x, err := d.taken()
			d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
			before := bytes.Clone(joined(r))
			d.run()
			if !bytes.Equal(before, joined(r)) {
				t.Error("memory was written after the read had been flushed")
			}
			if err := d.nb.DeregisterMem(h); err != nil {
				t.Fatal(err)
			}
			d.a.Disconnect()
			d.b.Disconnect()
			d.run()
			d.connect()
			buf, at := d.source(d.nb, 3, 5000)
			r = d.read(d.a, 5000, at)
			d.run()
			x, err = d.a.SendDone()
			d.got(x, err, r, buf)
		})
	}
	t.Run("OwnerCloses", func(t *testing.T) {
		d, r, _ := served(t, reliability.ReliableDelivery)
		d.nb.Close()
		x, err := d.taken()
		d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
	})
	t.Run("ReaderCloses", func(t *testing.T) {
		d, _, _ := served(t, reliability.ReliableDelivery)
		d.na.Close()
		d.nb.Poll()
		if !errors.Is(d.b.Err(), vipl.ErrDisconnected) {
			t.Error(d.b.Err())
		}
	})
}

// taken takes a's oldest send when the frames under way to it have come.
func (d *duo) taken() (*vipl.Descriptor, error) {
	x, err := d.a.SendDone()
	for i := 0; i < 20 && err == vipl.ErrNotDone; i++ {
		x, err = d.a.SendDone()
	}
	return x, err
}

// TestReadPostedEarly posts reads while the connection is being made, and in
// the states in which nothing can be sent.
func TestReadPostedEarly(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 2)
	d.a.Disconnect()
	d.b.Disconnect()
	d.run()
	buf, at := d.source(d.na, 1, 3000)
	r := d.read(d.b, 3000, at)
	x, err := d.b.SendDone()
	d.took(x, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := d.b.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	var reads []*vipl.Descriptor
	for range 5 {
		reads = append(reads, d.read(d.b, 3000, at))
	}
	req, err := taken(l, d.nb)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.AcceptStart(d.a); err != nil {
		t.Fatal(err)
	}
	d.run()
	for _, r := range reads {
		x, err := d.b.SendDone()
		d.got(x, err, r, buf)
	}
}
