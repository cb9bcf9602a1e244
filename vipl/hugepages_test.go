package vipl_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestAllocMemHugePages looks up in the kernel's own books whether it has been
// asked for huge pages, for regions of a huge page and more only.
func TestAllocMemHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no transparent huge pages:", err)
	}
	la, _ := memPair(1500)
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: la, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	for size, want := range map[int]bool{1 << 20: false, 2 << 20: true, 5<<20 + 1: true} {
		buf, h, err := nic.AllocMem(size, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf[0], buf[size-1] = 1, 1
		if got := slices.Contains(mappingFlags(t, vipl.VirtualAddress(buf)), "hg"); got != want {
			t.Errorf("huge pages asked for %d bytes: %v, want %v", size, got, want)
		}
		if err := nic.DeregisterMem(h); err != nil {
			t.Fatal(err)
		}
	}
}

// mappingFlags returns the VmFlags that /proc/self/smaps has for addr.
func mappingFlags(t *testing.T, addr uint64) []string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= addr && addr < hi
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("no mapping at %#x", addr)
	return nil
}
