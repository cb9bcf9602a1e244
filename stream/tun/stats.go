package tun

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
)

// counts are the Counts as they are counted.
type counts struct {
	malformed, multicast, unreachable, tooBig, overflow, spoofed, misdirected, claims, strangers, refused atomic.Uint64

	carried
}

// carried counts the packets that were sent [0] and received [1], and their bytes.
type carried struct{ packets, bytes [2]atomic.Uint64 }

func (c *carried) add(way, octets int) {
	c.packets[way].Add(1)
	c.bytes[way].Add(uint64(octets))
}

// Counts count what has not been carried, by reason.
type Counts struct {
	Malformed   uint64 // packets that are not whole, or whose header cannot be theirs
	Multicast   uint64 // packets to many, which are not carried
	Unreachable uint64 // packets to addresses that nobody answers to
	TooBig      uint64 // packets longer than the neighbour takes
	Overflow    uint64 // packets beyond what may wait
	Spoofed     uint64 // packets from a neighbour that does not have their source address
	Misdirected uint64 // packets from a neighbour that are not for this host
	Claims      uint64 // addresses that a neighbour has claimed and not got
	Strangers   uint64 // streams that were refused
	Refused     uint64 // packets that the kernel has not taken
}

// Snapshot is the state of a Tun.
type Snapshot struct {
	Device, Network string
	Addrs           []netip.Addr
	MTU             int
	Neighbours      []Neighbour
	Searches        int // addresses that the segment is being asked for
	// Packets that have been carried so far, and their bytes.
	PacketsSent, PacketsReceived, BytesSent, BytesReceived uint64
	Counts                                                 Counts
}

// Neighbour is a stream to another host.
type Neighbour struct {
	MAC                          ethertype.MAC
	Addrs                        []netip.Addr // for which packets go there; none if another stream has taken over
	MTU                          int
	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64 // of packets
	Dropped                      uint64 // packets that found the queue full
	Queued                       int64  // bytes of memory that what waits takes
}

// Snapshot returns what t is doing.
func (t *Tun) Snapshot() Snapshot {
	c := &t.counts
	s := Snapshot{Device: t.dev.name, Network: t.cfg.Network, Addrs: slices.Clone(t.addrs), MTU: t.cfg.MTU,
		PacketsSent: c.packets[0].Load(), PacketsReceived: c.packets[1].Load(), BytesSent: c.bytes[0].Load(), BytesReceived: c.bytes[1].Load(), Counts: Counts{
			c.malformed.Load(), c.multicast.Load(), c.unreachable.Load(), c.tooBig.Load(), c.overflow.Load(),
			c.spoofed.Load(), c.misdirected.Load(), c.claims.Load(), c.strangers.Load(), c.refused.Load(),
		}}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Searches = t.table.searches
	addrs := t.table.peers()
	for p := range t.peers {
		s.Neighbours = append(s.Neighbours, Neighbour{
			MAC: p.mac, Addrs: addrs[p], MTU: p.mtu, PacketsSent: p.packets[0].Load(), PacketsReceived: p.packets[1].Load(),
			BytesSent: p.bytes[0].Load(), BytesReceived: p.bytes[1].Load(), Dropped: p.dropped.Load(), Queued: p.queued.Load(),
		})
	}
	slices.SortFunc(s.Neighbours, func(a, b Neighbour) int { return strings.Compare(a.MAC.String(), b.MAC.String()) })
	return s
}

// WriteTo writes the snapshot as text. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tun %s: network %q, addresses %v, MTU %d, %d searches\n", s.Device, s.Network, s.Addrs, s.MTU, s.Searches)
	for i := range s.Neighbours {
		n := &s.Neighbours[i]
		fmt.Fprintf(&b, "  %v %v: MTU %d, packets sent %d, received %d, dropped %d, bytes waiting %d\n", n.MAC, n.Addrs, n.MTU, n.PacketsSent, n.PacketsReceived, n.Dropped, n.Queued)
	}
	fmt.Fprintf(&b, "  not carried: %+v\n", s.Counts)
	return b.WriteTo(w)
}
