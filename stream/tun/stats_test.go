package tun

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestSnapshotText: the text is readable: commas separate addresses, and only reasons with dropped
// packets are listed.
func TestSnapshotText(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")}
	s := Snapshot{Device: "bobnet0", Network: "default", Addrs: addrs, MTU: 65000,
		Neighbours: []Neighbour{{MAC: ethertype.MAC{2, 5: 1}, Addrs: addrs, MTU: 1500, PacketsSent: 3}}}
	for _, tt := range []struct {
		counts Counts
		want   string
	}{
		{Counts{}, "none"},
		{Counts{Multicast: 3, TooBig: 1, Refused: 2}, "multicast 3, too big 1, refused by the kernel 2"},
	} {
		s.Counts = tt.counts
		var b bytes.Buffer
		if _, err := s.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		want := `tun bobnet0: network "default", addresses 10.9.0.1, fd09::1, MTU 65000, 0 searches
  02:00:00:00:00:01, addresses 10.9.0.1, fd09::1: MTU 1500, packets sent 3, received 0, dropped 0, bytes waiting 0
  not carried: ` + tt.want + "\n"
		if b.String() != want {
			t.Errorf("%s\nwant %s", &b, want)
		}
	}
}

func TestWhyGone(t *testing.T) {
	if why := whyGone(io.EOF); why != "it has closed its stream" {
		t.Error(why)
	}
	if why := whyGone(errors.New("cable cut")); why != "cable cut" {
		t.Error(why)
	}
}
