package memory

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// TestTable registers a region and uses it as descriptors and peers do.
func TestTable(t *testing.T) {
	var m Table
	tag, err := m.CreateTag(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.CreateTag(1); !errors.Is(err, code.ErrResource) {
		t.Errorf("one tag more than the limit: %v", err)
	}
	buf := make([]byte, 64)
	h, err := m.Register(buf, Attributes{Ptag: tag, EnableRDMAWrite: true}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if regions, bytes := m.Size(); regions != 1 || bytes != 64 {
		t.Errorf("%d regions of %d bytes, want 1 of 64", regions, bytes)
	}
	segs := []Segment{{Data: buf[8:16], Handle: h}, {}}
	if n, err := m.Check("post", segs, tag); n != 8 || err != nil {
		t.Errorf("Check: %d, %v", n, err)
	}
	for name, err := range map[string]error{
		"posted": m.MayDeregister(h), "posted, attributes": m.SetAttributes(h, Attributes{}),
	} {
		if !errors.Is(err, code.ErrInvalidState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, ok := m.Release(segs); n != 8 || !ok {
		t.Errorf("Release: %d, %v", n, ok)
	}
	if _, ok := m.Release(segs); ok {
		t.Error("released twice")
	}
	at := Address(buf)
	if got := m.Target(at+1, 63, h, tag); len(got) != 63 || &got[0] != &buf[1] {
		t.Error("Target is another place")
	}
	if m.Target(at+1, 64, h, tag) != nil || m.Target(at-1, 1, h, tag) != nil || m.Target(at, 1, h, 0) != nil || m.Target(^uint64(0), 2, h, tag) != nil {
		t.Error("Target goes beyond the region, or ignores the tag")
	}
	if m.Source(at, 1, h, tag) != nil {
		t.Error("Source ignores the rights")
	}
	if err := m.DestroyTag(tag); !errors.Is(err, code.ErrResource) {
		t.Errorf("a tag in use was destroyed: %v", err)
	}
	m.Deregister(h)
	if err := m.MayDeregister(h); !errors.Is(err, code.ErrArgument) {
		t.Errorf("a stale handle: %v", err)
	}
	if err := m.DestroyTag(tag); err != nil {
		t.Error(err)
	}
}

// TestClose: what is left of pages outside the heap reads as zeros until it is given back.
func TestClose(t *testing.T) {
	var m Table
	buf, locked, err := Map(100)
	if err != nil {
		t.Fatal(err)
	}
	h, err := m.Register(buf, Attributes{}, true, locked)
	if err != nil {
		t.Fatal(err)
	}
	buf[99] = 1
	m.Close()
	if regions, bytes := m.Size(); buf[99] != 0 || regions != 0 || bytes != 0 {
		t.Errorf("%d regions of %d bytes are left, and %d in the last byte", regions, bytes, buf[99])
	}
	if err := m.GiveBack(h); err != nil {
		t.Error(err)
	}
	if err := m.GiveBack(h); !errors.Is(err, code.ErrClosed) {
		t.Errorf("given back twice: %v", err)
	}
}

// TestOnce: handles that are not to be used again are not, however often memory is
// registered, and take nothing from the others.
func TestOnce(t *testing.T) {
	var m Table
	buf := make([]byte, 8)
	seen := map[Handle]bool{}
	for i := range 10000 {
		h, err := m.Register(buf, Attributes{Once: true}, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if seen[h] {
			t.Fatalf("registration %d: the handle %v was used before", i, h)
		}
		seen[h] = true
		m.Deregister(h)
		if h, err = m.Register(buf, Attributes{}, false, false); err != nil || seen[h] {
			t.Fatalf("registration %d without: %v, %v", i, h, err)
		}
		m.Deregister(h)
	}
	if slots := len(m.regions); slots > 4 {
		t.Errorf("%d slots were used", slots)
	}
}
