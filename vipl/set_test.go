package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSetAttributes changes each attribute of an idle and of a connected VI,
// with and without posted descriptors.
func TestSetAttributes(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(d *duo, a *vipl.Attributes)
		connected error // nil: allowed
		posted    error // idle, with a receive posted
	}{
		{"Nothing", func(d *duo, a *vipl.Attributes) {}, nil, nil},
		{"Reliability", func(d *duo, a *vipl.Attributes) { a.Reliability, a.EnableRDMARead = reliability.Unreliable, false }, vipl.ErrInvalidState, nil},
		{"MaxTransferSize", func(d *duo, a *vipl.Attributes) { a.MaxTransferSize = 5000 }, vipl.ErrInvalidState, nil},
		{"QoS", func(d *duo, a *vipl.Attributes) { a.QoS = 3 }, vipl.ErrInvalidState, nil},
		{"ReadDepth", func(d *duo, a *vipl.Attributes) { a.ReadDepth = 3 }, vipl.ErrInvalidState, nil},
		{"WholeCRC", func(d *duo, a *vipl.Attributes) { a.WholeCRC = true }, vipl.ErrInvalidState, nil},
		{"EnableRDMAWrite", func(d *duo, a *vipl.Attributes) { a.EnableRDMAWrite = false }, nil, nil},
		{"EnableRDMARead", func(d *duo, a *vipl.Attributes) { a.EnableRDMARead = false }, nil, nil},
		{"PeerTimeout", func(d *duo, a *vipl.Attributes) { a.PeerTimeout = time.Second }, nil, nil},
		{"Ptag", func(d *duo, a *vipl.Attributes) { a.Ptag, _ = d.na.CreatePtag() }, nil, vipl.ErrInvalidState},
		{"QueueDepth", func(d *duo, a *vipl.Attributes) { a.QueueDepth = 1 }, nil, vipl.ErrResource},
		{"UnknownPtag", func(d *duo, a *vipl.Attributes) { a.Ptag = 77 }, vipl.ErrInvalidPtag, vipl.ErrInvalidPtag},
		{"UnknownLevel", func(d *duo, a *vipl.Attributes) { a.Reliability = 3 }, vipl.ErrInvalidReliability, vipl.ErrInvalidReliability},
		{"TooLarge", func(d *duo, a *vipl.Attributes) { a.MaxTransferSize = vipl.MaxTransferSize + 1 }, vipl.ErrInvalidMTU, vipl.ErrInvalidMTU},
		{"ReadDepthTooLarge", func(d *duo, a *vipl.Attributes) { a.ReadDepth = vipl.MaxReadDepth + 1 }, vipl.ErrArgument, vipl.ErrArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, state := range []vipl.State{vipl.StateIdle, vipl.StateConnected} {
				d := newDuo(t, nil, nil)
				want := c.connected
				if state == vipl.StateIdle {
					d.a.Disconnect()
					d.run()
					d.post(d.a, 8)
					d.post(d.a, 8)
					want = c.posted
				}
				before := d.a.Query()
				a := before.Attributes
				c.change(d, &a)
				if err := d.a.SetAttributes(&a); !errors.Is(err, want) {
					t.Errorf("%v: %v, want %v", state, err, want)
				}
				if want != nil {
					a = before.Attributes
				}
				if after := d.a.Query(); after.Attributes != a || after.State != state || after.RecvEmpty != before.RecvEmpty {
					t.Errorf("%v: %+v, want %+v", state, after, a)
				}
			}
		})
	}
}

// TestSetAttributesCount wants what has been set to be what counts: the tag for
// posts and for who uses it, the rights for the peer, the depth for the queues.
func TestSetAttributesCount(t *testing.T) {
	d := newDuo(t, nil, nil)
	tag, _ := d.na.CreatePtag()
	if err := d.a.SetAttributes(&vipl.Attributes{Ptag: tag, QueueDepth: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.na.DestroyPtag(tag); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("destroy the tag of a VI: %v", err)
	}
	buf, h := d.buffer(d.na, 64, nil)
	x := &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}
	if err := d.a.PostRecv(x); !errors.Is(err, vipl.ErrInvalidPtag) {
		t.Errorf("post with the old tag: %v", err)
	}
	if err := d.na.SetMemAttributes(h, &vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.a.PostRecv(x); err != nil {
		t.Errorf("post with the new tag: %v", err)
	}
	if err := d.a.PostRecv(&vipl.Descriptor{}); err != vipl.ErrRecvQueueFull {
		t.Errorf("post beyond the new depth: %v", err)
	}
	if err := d.na.SetMemAttributes(h, nil); !errors.Is(err, vipl.ErrInvalidState) {
		t.Errorf("change a region in use: %v", err)
	}
	d.write(d.b, 8, vipl.VirtualAddress(buf), h, false)
	d.run()
	d.ended(vipl.ErrRDMA) // the VI allows it no longer
	d.a.RecvDone()
	if err := d.na.SetMemAttributes(h, nil); err != nil {
		t.Error(err)
	}
	if err := d.a.SetAttributes(nil); !errors.Is(err, nil) || d.na.DestroyPtag(tag) != nil {
		t.Errorf("back to the defaults: %v, or the tag is still in use", err)
	}
}

// TestSetMemAttributes wants QueryMem to tell what has been set, and refuses
// what RegisterMem would.
func TestSetMemAttributes(t *testing.T) {
	d := newDuo(t, nil, nil)
	_, h := d.buffer(d.na, 64, nil)
	want := vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}
	want.Ptag, _ = d.na.CreatePtag()
	if err := d.na.SetMemAttributes(h, &want); err != nil {
		t.Fatal(err)
	}
	if info, err := d.na.QueryMem(h); err != nil || info.MemAttributes != want || info.Len != 64 {
		t.Errorf("%+v, %v, want %+v", info, err, want)
	}
	if err := d.na.SetMemAttributes(h, &vipl.MemAttributes{Ptag: 99}); !errors.Is(err, vipl.ErrInvalidPtag) {
		t.Errorf("unknown tag: %v", err)
	}
	if err := d.na.SetMemAttributes(h+1, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("unknown handle: %v", err)
	}
	if err := d.na.DestroyPtag(want.Ptag); !errors.Is(err, vipl.ErrResource) {
		t.Errorf("destroy the tag of a region: %v", err)
	}
	d.na.Close()
	if _, err := d.na.QueryMem(h); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("query on a closed NIC: %v", err)
	}
	if err := d.na.SetMemAttributes(h, nil); !errors.Is(err, vipl.ErrClosed) {
		t.Errorf("set on a closed NIC: %v", err)
	}
}
