package driver

import (
	"errors"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

func TestBlocks(t *testing.T) {
	next := 1
	for b := range Blocks {
		r := BlockPorts(b)
		if int(r.Lo) != next || Block(r.Lo) != b || Block(r.Hi) != b {
			t.Fatalf("block %d is %v", b, r)
		}
		next = int(r.Hi) + 1
	}
	if next != 1<<16 {
		t.Errorf("the last block ends at %d", next-1)
	}
}

// TestClaimBlocks: which blocks are asked for, and what comes of it.
func TestClaimBlocks(t *testing.T) {
	all := make([]int, Blocks-1) // but the first
	for i := range all {
		all[i] = i + 1
	}
	type ports = transport.PortRange
	for _, test := range []struct {
		name      string
		ports     ports
		taken     []int // blocks
		broken    int   // block that cannot be had at all
		asked     []int
		want      ports
		wantBlock int
		err       error
	}{
		{"several", ports{Lo: 1000, Hi: 2048}, nil, 0, []int{0, 1, 2}, ports{Lo: 1000, Hi: 2048}, 0, nil},
		{"last port", ports{Lo: 65535, Hi: 65535}, nil, 0, []int{63}, ports{Lo: 65535, Hi: 65535}, 0, nil},
		{"one taken", ports{Lo: 1024, Hi: 5000}, []int{3}, 0, []int{1, 2, 3}, ports{Lo: 1024, Hi: 5000}, 3, unix.EADDRINUSE},
		{"first free", ports{}, []int{1, 2}, 0, []int{1, 2, 3}, ports{Lo: 3072, Hi: 4095}, 0, nil},
		{"none free", ports{}, all, 0, all, ports{}, Blocks, unix.EADDRINUSE},
		{"broken", ports{}, []int{1}, 2, []int{1, 2}, ports{Lo: 2048, Hi: 3071}, 2, unix.EMFILE},
	} {
		var asked []int
		got, b, err := ClaimBlocks(test.ports, func(b int) error {
			asked = append(asked, b)
			switch {
			case slices.Contains(test.taken, b):
				return unix.EADDRINUSE
			case b == test.broken && b > 0:
				return unix.EMFILE
			}
			return nil
		})
		if got != test.want || !errors.Is(err, test.err) || err != nil && b != test.wantBlock || !slices.Equal(asked, test.asked) {
			t.Errorf("%s: %v, block %d, %v; asked for %v; want %v, block %d, %v, %v",
				test.name, got, b, err, asked, test.want, test.wantBlock, test.err, test.asked)
		}
	}
	for r, ok := range map[ports]bool{{}: true, {Lo: 1, Hi: 65535}: true, {Lo: 0, Hi: 5}: false, {Lo: 6, Hi: 5}: false} {
		if err := CheckPorts(r); (err == nil) != ok || !ok && !errors.Is(err, unix.EINVAL) {
			t.Errorf("CheckPorts(%v) = %v", r, err)
		}
	}
}
