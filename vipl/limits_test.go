package vipl_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

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
