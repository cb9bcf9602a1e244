package directory

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// Station describes a NIC on the segment, as reported by the NIC itself. Its fields are those of
// vipl.Station.
type Station struct {
	Addr        ethertype.Addr      // NIC.Addr
	Ports       transport.PortRange // of its VIs and listeners
	HostName    string
	Driver      string // of its link
	MTU         int    // of its interface
	Incarnation uint64 // random, new with every Open
}

// DiscoverTime is how long Discover waits without a deadline.
const DiscoverTime = time.Second

// MaxStations is the maximum number of stations that Discover returns.
const MaxStations = 4096

// Discover broadcasts several inquiries, because frames may be lost, until ctx ends or for
// DiscoverTime without a deadline. It returns the NICs that have answered, in the order of their
// addresses, at most MaxStations.
func (d *Directory) Discover(ctx context.Context) ([]Station, error) {
	return d.inquire(ctx, inquiry{to: ethertype.Addr{MAC: ethertype.Broadcast}, listen: DiscoverTime})
}

// An inquiry is a KindQuery frame with a tag. Its payload is empty, or the name of the wanted host.
// NICs answer with a KindAnswer frame with the same tag and a description of themselves:
//
//	offset  size  field
//	     0     8  incarnation of the NIC
//	     8     4  MTU of the interface
//	    12     4  lowest and highest port
//	    16     1  length of the driver's name
//	    17     1  length of the host's name
//	    18        both names
const stationSize = 18

// Longest names in an answer, in bytes. With both, the answer is less than three times as long as
// the inquiry, so that forging another sender gains little.
const (
	maxDriver   = 40
	MaxHostName = 64 // bytes of a host name, Linux's own limit
)

// The following does not compile if an answer is longer than three inquiries.
var _ [3*ethertype.HeaderSize - (ethertype.HeaderSize + stationSize + maxDriver + MaxHostName)]struct{}

func (d *Directory) describe(b []byte) []byte {
	host, driver := d.hosts.name, d.self.Driver[:min(len(d.self.Driver), maxDriver)]
	be := binary.BigEndian
	b = be.AppendUint64(b, d.self.Incarnation)
	b = be.AppendUint32(b, uint32(d.self.MTU))
	b = be.AppendUint16(b, d.self.Ports.Lo)
	b = be.AppendUint16(b, d.self.Ports.Hi)
	b = append(b, byte(len(driver)), byte(len(host)))
	return append(append(b, driver...), host...)
}

// parseStation parses an answer from MAC address from.
func parseStation(from ethertype.MAC, b []byte, minMTU int) (s Station, ok bool) {
	if len(b) < stationSize || from.IsGroup() {
		return Station{}, false
	}
	be := binary.BigEndian
	s = Station{
		Incarnation: be.Uint64(b), MTU: int(be.Uint32(b[8:])),
		Ports: transport.PortRange{Lo: be.Uint16(b[12:]), Hi: be.Uint16(b[14:])},
	}
	driver, host := int(b[16]), int(b[17])
	b = b[stationSize:]
	if s.MTU < minMTU || s.MTU > ethertype.MaxMTU || s.Ports.Lo == 0 || s.Ports.Hi < s.Ports.Lo ||
		driver > maxDriver || host > MaxHostName || len(b) < driver+host {
		return Station{}, false
	}
	s.Addr = ethertype.Addr{MAC: from, Port: s.Ports.Lo}
	s.Driver, s.HostName = guard.Printable(b[:driver]), guard.Printable(b[driver:driver+host])
	return s, true
}

// inquiry is a query for NICs.
type inquiry struct {
	to         ethertype.Addr // all NICs of the segment, one NIC, or with port 0 any NIC of an interface
	host       string         // only NICs of this host, if not empty
	listen     time.Duration  // limit without a deadline in the context
	afterFirst time.Duration  // if not 0, limit after the first answer

	found map[ethertype.Addr]Station
	first int64 // when the first answer arrived
	gate  progress.Gate
}

// askEvery bounds the interval between repetitions of an inquiry.
const askEvery = int64(100 * time.Millisecond)

// inquire sends an inquiry and collects answers until its limit.
func (d *Directory) inquire(ctx context.Context, q inquiry) ([]Station, error) {
	if d.nic.Closed() {
		return nil, code.ErrClosed
	}
	tag := d.random.Tag()
	q.found = map[ethertype.Addr]Station{}
	d.inquiries[tag] = &q
	defer delete(d.inquiries, tag)
	end := d.nic.Now() + int64(d.eng.Left(ctx, q.listen))
	var err error
	for interval := askFirst; err == nil && !q.over(d.nic.Now(), end) && d.eng.Ended(ctx) == nil; interval = min(2*interval, askEvery) {
		d.nic.Send(ethertype.Header{Dst: q.to.MAC, DstPort: q.to.Port, Kind: ethertype.KindQuery, SrcPort: d.self.Addr.Port, Tag: tag}, []byte(q.host))
		d.nic.Flush()
		err = d.collect(ctx, &q.gate, min(d.nic.Now()+interval, end))
	}
	list := make([]Station, 0, len(q.found))
	for _, s := range q.found {
		list = append(list, s)
	}
	sortStations(list)
	if len(list) == 0 && err == nil && d.nic.Trouble() != nil {
		err = d.silence("ask who is there", code.ErrTimeout, "no reply")
	}
	return list, err
}

func sortStations(list []Station) {
	slices.SortFunc(list, func(a, b Station) int { return ethertype.Addr.Compare(a.Addr, b.Addr) })
}

// over reports whether an inquiry is complete.
func (q *inquiry) over(now, end int64) bool {
	return now >= end || q.afterFirst != 0 && q.first != 0 && now-q.first >= int64(q.afterFirst)
}

// receiveInquiry answers an inquiry that this NIC matches.
func (d *Directory) receiveInquiry(h *ethertype.Header, payload []byte) {
	named := len(payload) > 0
	if h.Src.IsGroup() || named && (d.hosts.shut || string(payload) != d.hosts.name) || h.DstPort != ethertype.PortAll && h.DstPort != d.self.Addr.Port {
		return
	}
	if h.DstPort == ethertype.PortAll && !h.Dst.IsGroup() && !d.nic.Speaks() || !d.nic.MayAnswer(guard.Query) {
		return
	}
	d.nic.Send(ethertype.Header{Dst: h.Src, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: d.self.Addr.Port, Tag: h.Tag},
		d.describe(make([]byte, 0, stationSize+maxDriver+MaxHostName)))
}

// receiveStation processes the answer to an inquiry.
func (d *Directory) receiveStation(h *ethertype.Header, payload []byte) {
	q := d.inquiries[h.Tag]
	s, ok := parseStation(h.Src, payload, d.self.MinMTU)
	if q == nil || !ok || h.SrcPort != s.Addr.Port || s.Incarnation == d.self.Incarnation {
		d.nic.Unknown()
		return
	}
	if _, again := q.found[s.Addr]; !again && len(q.found) >= MaxStations {
		d.nic.Unknown()
		return
	}
	q.found[s.Addr] = s
	if q.first == 0 {
		q.first = d.eng.Now()
	}
	q.gate.Open(d.eng)
}
