package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestAlteredSend: sends that are corked, or are sent again, are shortened
// meanwhile by their program. That ends the connection, and the descriptor, an
// asynchronous error and both sides say why.
func TestAlteredSend(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int // the last one is altered
		begin func(d *duo, size int) *vipl.Descriptor
	}{
		{"Copied", []int{10, 10, 10, 10}, nil},
		{"Packed", []int{600, 600, 600, 600}, nil},
		{"Fragments", []int{10_000}, nil},
		{"SentAgain", []int{1000}, nil},
		{"SentAgainShort", []int{100}, nil},
		{"Write", []int{1000}, func(d *duo, size int) *vipl.Descriptor {
			_, h := d.buffer(d.nb, size, &vipl.MemAttributes{EnableRDMAWrite: true})
			info, err := d.nb.QueryMem(h)
			if err != nil {
				d.t.Fatal(err)
			}
			return d.write(d.a, size, info.Addr, h, false)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attr := &vipl.Attributes{EnableRDMAWrite: true}
			d := newDuo(t, attr, attr)
			for range c.sizes {
				d.post(d.b, 10_000)
			}
			told := watch(t, d.na)
			sent := d.links[1].tail
			var last *vipl.Descriptor
			for _, size := range c.sizes {
				if c.begin != nil {
					last = c.begin(d, size)
				} else {
					last = d.send(d.a, size)
				}
			}
			if len(c.sizes) == 1 {
				d.links[1].tail = sent // lost
			}
			last.Segs = last.Segs[:0]
			for i := 0; d.a.State() == vipl.StateConnected && i < 100; i++ {
				d.run()
			}
			d.run()
			d.ended(vipl.ErrArgument)
			for range c.sizes[1:] {
				d.a.SendDone()
			}
			got, err := d.a.SendDone()
			if got != last || !errors.Is(err, vipl.ErrDescriptor) || got.Status&vipl.StatusProtectionError == 0 {
				t.Errorf("took %v, %v", got.Status, err)
			}
			op := last.Status & vipl.StatusOpMask
			told.want(vipl.AsyncError{VI: d.a, Descriptor: last, Op: op, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument},
				lost(d.a, vipl.ErrArgument))
		})
	}
}

// TestAlteredReceive: receives are shortened by their program while they are
// posted. Nothing is written elsewhere, and the descriptor says why.
func TestAlteredReceive(t *testing.T) {
	for _, last := range []int{0, 3} {
		t.Run(fmt.Sprint(last), func(t *testing.T) { alteredReceive(t, last) })
	}
}

func alteredReceive(t *testing.T, last int) {
	eachLevel(t, levels, func(t *testing.T, d *duo, level reliability.Level) {
		told := watch(t, d.nb)
		var receives []*vipl.Descriptor
		for i := range 4 { // of whose messages the last two share a frame
			receives = append(receives, d.post(d.b, 1000))
			d.send(d.a, 10+i)
		}
		r := receives[last]
		r.Segs = r.Segs[:0]
		d.run()
		for _, x := range receives[:last] {
			got, err := d.b.RecvDone()
			d.took(got, err, x, vipl.StatusOpReceive)
		}
		got, err := d.b.RecvDone()
		d.took(got, err, r, vipl.StatusOpReceive|vipl.StatusLengthError|vipl.StatusProtectionError)
		altered := vipl.AsyncError{VI: d.b, Descriptor: r, Op: vipl.StatusOpReceive, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument}
		if level.Reliable() {
			d.ended(vipl.ErrTooLong)
			told.want(altered, lost(d.b, vipl.ErrTooLong))
		} else {
			d.alive()
			told.want(altered)
		}
	})
}

// TestAlteredRead is the same for a read.
func TestAlteredRead(t *testing.T) {
	d := readable(t, reliability.ReliableDelivery, 4)
	told := watch(t, d.na)
	_, from := d.source(d.nb, 1, 1000)
	r := d.read(d.a, 1000, from)
	r.Segs = r.Segs[:0]
	d.run()
	d.ended(vipl.ErrArgument)
	got, err := d.a.SendDone()
	d.took(got, err, r, vipl.StatusOpRDMARead|vipl.StatusFlushed|vipl.StatusProtectionError)
	told.want(vipl.AsyncError{VI: d.a, Descriptor: r, Op: vipl.StatusOpRDMARead, Resource: vipl.ResourceDescriptor, Code: vipl.CodeCompProt, Err: vipl.ErrArgument},
		lost(d.a, vipl.ErrArgument))
}
