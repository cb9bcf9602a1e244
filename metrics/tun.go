package metrics

import (
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/prometheus/client_golang/prometheus"
)

// Tun is what the Collector asks of an IP network over VIs; *tun.Tun has it.
type Tun interface{ Snapshot() tun.Snapshot }

var tunLabels = []string{"device"}

// ofNeighbours returns the sum of something over the neighbours.
func ofNeighbours(f func(n *tun.Neighbour) uint64) func(s *tun.Snapshot) float64 {
	return func(s *tun.Snapshot) (sum float64) {
		for i := range s.Neighbours {
			sum += float64(f(&s.Neighbours[i]))
		}
		return sum
	}
}

var tunFields = []field[tun.Snapshot]{
	{"bobnet_tun_neighbours", "Streams to other hosts.", true, func(s *tun.Snapshot) float64 { return float64(len(s.Neighbours)) }},
	{"bobnet_tun_searches", "Addresses that the segment is being asked for.", true, func(s *tun.Snapshot) float64 { return float64(s.Searches) }},
	{"bobnet_tun_queued_bytes", "Bytes that wait for neighbours to take them.", true, ofNeighbours(func(n *tun.Neighbour) uint64 { return uint64(n.Queued) })},
	{"bobnet_tun_packets_sent_total", "Packets sent to neighbours.", false, func(s *tun.Snapshot) float64 { return float64(s.PacketsSent) }},
	{"bobnet_tun_packets_received_total", "Packets taken from neighbours.", false, func(s *tun.Snapshot) float64 { return float64(s.PacketsReceived) }},
	{"bobnet_tun_bytes_sent_total", "Bytes of the packets sent.", false, func(s *tun.Snapshot) float64 { return float64(s.BytesSent) }},
	{"bobnet_tun_refused_claims_total", "Addresses that neighbours have claimed and not got.", false, func(s *tun.Snapshot) float64 { return float64(s.Counts.Claims) }},
	{"bobnet_tun_refused_streams_total", "Streams that were refused.", false, func(s *tun.Snapshot) float64 { return float64(s.Counts.Strangers) }},
	{"bobnet_tun_bytes_received_total", "Bytes of the packets taken.", false, func(s *tun.Snapshot) float64 { return float64(s.BytesReceived) }},
}

// tunDrops are the reasons why packets and claims come to nothing.
var tunDrops = []reason[tun.Snapshot]{
	{"malformed", "the packet is not whole, or the header in front of it cannot be its own", func(s *tun.Snapshot) uint64 { return s.Counts.Malformed }},
	{"multicast", "it is for many, which are not served", func(s *tun.Snapshot) uint64 { return s.Counts.Multicast }},
	{"unreachable", "nobody answers to its destination", func(s *tun.Snapshot) uint64 { return s.Counts.Unreachable }},
	{"too_big", "the neighbour's MTU is smaller", func(s *tun.Snapshot) uint64 { return s.Counts.TooBig }},
	{"overflow", "too much waits for its destination already, or that is gone", func(s *tun.Snapshot) uint64 { return s.Counts.Overflow }},
	{"spoofed", "its source is no address of the neighbour's that sent it", func(s *tun.Snapshot) uint64 { return s.Counts.Spoofed }},
	{"misdirected", "a neighbour sent it, and it is not for this host", func(s *tun.Snapshot) uint64 { return s.Counts.Misdirected }},
	{"refused", "the kernel did not take it", func(s *tun.Snapshot) uint64 { return s.Counts.Refused }},
}

var tunDropped = family{"bobnet_tun_dropped_packets_total", "Packets that were not carried, by reason.", false, append(tunLabels[:1:1], "reason")}

// WatchTun adds an IP network over VIs to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchTun(t Tun) (forget func()) { return c.tuns.add(t) }

func (c *Collector) collectTuns(ch chan<- prometheus.Metric) {
	for _, x := range c.tuns.list() {
		s := x.it.Snapshot()
		name := s.Device + c.tuns.distinct(x, s.Device)
		emit(ch, c.tun, tunFields, &s, name)
		for i := range tunDrops {
			ch <- counter(c.tunDropped, tunDrops[i].value(&s), name, tunDrops[i].name)
		}
	}
}
