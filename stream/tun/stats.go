package tun

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/counters"
)

// counts are the atomic counters behind Counts.
type counts struct {
	Malformed, Multicast, Unreachable, TooBig, Overflow, Spoofed, Misdirected, Claims, Strangers, Refused atomic.Uint64

	carried
}

// carried counts packets sent and received, and their bytes.
type carried struct{ PacketsSent, PacketsReceived, BytesSent, BytesReceived atomic.Uint64 }

func (c *carried) sent(size int) {
	c.PacketsSent.Add(1)
	c.BytesSent.Add(uint64(size))
}

func (c *carried) received(size int) {
	c.PacketsReceived.Add(1)
	c.BytesReceived.Add(uint64(size))
}

// Counts counts packets that were dropped, and claims and streams that were refused, by reason.
type Counts struct {
	Malformed   uint64 `text:"malformed" metric:"bobnet_tun_dropped_packets_total" reason:"malformed" help:"the packet is incomplete, or its header from the kernel does not match"`
	Multicast   uint64 `text:"multicast" metric:"bobnet_tun_dropped_packets_total" reason:"multicast" help:"multicast and broadcast are not supported"`
	Unreachable uint64 `text:"unreachable" metric:"bobnet_tun_dropped_packets_total" reason:"unreachable" help:"no host answers to its destination"`
	TooBig      uint64 `text:"too big" metric:"bobnet_tun_dropped_packets_total" reason:"too_big" help:"the neighbour's MTU is smaller"`
	Overflow    uint64 `text:"queue full" metric:"bobnet_tun_dropped_packets_total" reason:"overflow" help:"the queue for its destination is full, or the destination has gone"`
	Spoofed     uint64 `text:"spoofed" metric:"bobnet_tun_dropped_packets_total" reason:"spoofed" help:"its source is not an address of the neighbour that sent it"`
	Misdirected uint64 `text:"misdirected" metric:"bobnet_tun_dropped_packets_total" reason:"misdirected" help:"a neighbour sent it, but it is not for this host"`
	Claims      uint64 `text:"claims refused" metric:"bobnet_tun_refused_claims_total" help:"Addresses claimed by neighbours and not confirmed."`
	Strangers   uint64 `text:"streams refused" metric:"bobnet_tun_refused_streams_total" help:"Streams refused."`
	Refused     uint64 `text:"refused by the kernel" metric:"bobnet_tun_dropped_packets_total" reason:"refused" help:"the kernel refused it"`
}

// Snapshot is the state of a Tun.
type Snapshot struct {
	Device, Network string
	Addrs           []netip.Addr
	MTU             int
	Neighbours      []Neighbour `metric:"bobnet_tun_neighbours" help:"Streams to other hosts."`
	Searches        int         `metric:"bobnet_tun_searches" help:"Address lookups in progress."`
	// Packets carried so far, and their bytes.
	PacketsSent     uint64 `metric:"bobnet_tun_packets_sent_total" help:"Packets sent to neighbours."`
	PacketsReceived uint64 `metric:"bobnet_tun_packets_received_total" help:"Packets received from neighbours."`
	BytesSent       uint64 `metric:"bobnet_tun_bytes_sent_total" help:"Bytes of packets sent to neighbours."`
	BytesReceived   uint64 `metric:"bobnet_tun_bytes_received_total" help:"Bytes of packets received from neighbours."`
	Counts          Counts
}

// Neighbour is a stream to another host.
type Neighbour struct {
	MAC                          ethertype.MAC
	Addrs                        []netip.Addr // addresses whose packets go there; none if another stream has replaced it
	MTU                          int
	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64 // bytes of packets
	Dropped                      uint64 // packets dropped because the queue was full
	Queued                       int64  `metric:"bobnet_tun_queued_bytes" help:"Bytes in the queues for neighbours."`
}

// Snapshot returns the current state.
func (t *Tun) Snapshot() Snapshot {
	s := Snapshot{Device: t.dev.name, Network: t.cfg.Network, Addrs: slices.Clone(t.addrs), MTU: t.cfg.MTU}
	counters.Load(&s, &t.counts.carried)
	counters.Load(&s.Counts, &t.counts)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Searches = t.table.searches
	addrs := t.table.peers()
	for p := range t.peers {
		n := Neighbour{MAC: p.mac, Addrs: addrs[p], MTU: p.mtu, Dropped: p.dropped.Load(), Queued: p.queued.Load()}
		counters.Load(&n, &p.carried)
		s.Neighbours = append(s.Neighbours, n)
	}
	slices.SortFunc(s.Neighbours, func(a, b Neighbour) int { return strings.Compare(a.MAC.String(), b.MAC.String()) })
	return s
}

// WriteTo writes the snapshot as text. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tun %s: network %q, addresses %v, MTU %d, %d searches\n", s.Device, s.Network, addresses(s.Addrs), s.MTU, s.Searches)
	for i := range s.Neighbours {
		n := &s.Neighbours[i]
		fmt.Fprintf(&b, "  %v, addresses %v: MTU %d, packets sent %d, received %d, dropped %d, bytes waiting %d\n", n.MAC, addresses(n.Addrs), n.MTU, n.PacketsSent, n.PacketsReceived, n.Dropped, n.Queued)
	}
	fmt.Fprintf(&b, "  not carried: %s\n", cmp.Or(strings.Join(counters.NonZero(&s.Counts), ", "), "none"))
	return b.WriteTo(w)
}
