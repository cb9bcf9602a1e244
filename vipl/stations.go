package vipl

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
	"github.com/bobnet-go/bobnet/transport"
)

// Station is a NIC on the segment as it describes itself.
type Station struct {
	Addr        ethertype.Addr      // NIC.Addr
	Ports       transport.PortRange // of its VIs and listeners
	HostName    string
	Driver      string // of its link
	MTU         int    // of its interface
	Incarnation uint64 // random, new with every Open
}

// DiscoverTime is how long Discover listens without a deadline.
const DiscoverTime = time.Second

// MaxStations is the most stations that Discover returns.
const MaxStations = 4096

// Discover finds the NICs on the segment (VipQuerySystemManagementInfo with
// VIP_SMI_AUTODISCOVERY): it asks all several times, because frames are lost,
// until ctx ends or for DiscoverTime without a deadline, and returns who has
// answered, in the order of their addresses. This NIC is not among them. At most
// MaxStations are returned; answers beyond are counted as DropUnknown.
//
// The error is ErrTimeout and the context's when ctx was cancelled; the stations
// found until then are returned with it.
func (n *NIC) Discover(ctx context.Context) ([]Station, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.inquire(ctx, inquiry{to: ethertype.Addr{MAC: ethertype.Broadcast}, listen: DiscoverTime})
}

// An inquiry is a KindQuery frame with a tag. Its payload is empty, or the host
// name of those who are meant. They answer by a KindAnswer frame with the same
// tag and a description of themselves:
//
//	offset  size  field
//	     0     8  incarnation of the NIC
//	     8     4  MTU of the interface
//	    12     4  lowest and highest port
//	    16     1  length of the driver's name
//	    17     1  length of the host's name
//	    18        both names
const stationSize = 18

// Longest names in an answer, in bytes: with both it is less than three times as long
// as the inquiry, so that one who gives another's address as his gains little.
const (
	maxDriver   = 40
	MaxHostName = 64 // bytes of a host name, Linux's own limit
)

func (n *NIC) describe(b []byte) []byte {
	host, driver := n.hosts.name, n.info.Driver[:min(len(n.info.Driver), maxDriver)]
	be := binary.BigEndian
	b = be.AppendUint64(b, n.incarnation)
	b = be.AppendUint32(b, uint32(n.info.MTU))
	b = be.AppendUint16(b, n.info.Ports.Lo)
	b = be.AppendUint16(b, n.info.Ports.Hi)
	b = append(b, byte(len(driver)), byte(len(host)))
	return append(append(b, driver...), host...)
}

// parseStation judges an answer from MAC address from.
func parseStation(from ethertype.MAC, b []byte) (s Station, ok bool) {
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
	s.Driver, s.HostName = printable(b[:driver]), printable(b[driver:driver+host])
	return s, true
}

// inquiry asks who is there.
type inquiry struct {
	to     ethertype.Addr // whom: all, or one; port 0 is all NICs of an interface
	host   string         // only those of this name, if not empty
	listen time.Duration  // without a deadline in the context
	settle time.Duration  // if not 0, listen only so long after the first answer

	found map[ethertype.Addr]Station
	first int64 // when the first answer came
	gate  progress.Gate
}

// inquiryTable holds the inquiries under way by their tag.
type inquiryTable struct {
	pending map[uint32]*inquiry
}

func (t *inquiryTable) init() { t.pending = map[uint32]*inquiry{} }

// askEvery bounds the interval between repetitions of an inquiry.
const askEvery = int64(100 * time.Millisecond)

// inquire asks and collects answers until the time is up. It is called and
// returns with n.mu held.
func (n *NIC) inquire(ctx context.Context, q inquiry) ([]Station, error) {
	if n.closed {
		return nil, ErrClosed
	}
	tag := n.random.tag()
	q.found = map[ethertype.Addr]Station{}
	n.inquiries.pending[tag] = &q
	defer delete(n.inquiries.pending, tag)
	end := n.link.Now() + int64(n.eng.Left(ctx, q.listen))
	var err error
	for interval := askFirst; err == nil && !q.over(n, end) && n.eng.Ended(ctx) == nil; interval = min(2*interval, askEvery) {
		n.sendControl(ethertype.Header{Dst: q.to.MAC, DstPort: q.to.Port, Kind: ethertype.KindQuery, SrcPort: n.addr.Port, Tag: tag}, []byte(q.host))
		n.tx.flush(n)
		err = n.collect(ctx, &q.gate, min(n.link.Now()+interval, end))
	}
	list := make([]Station, 0, len(q.found))
	for _, s := range q.found {
		list = append(list, s)
	}
	sortStations(list)
	return list, err
}

func sortStations(list []Station) {
	slices.SortFunc(list, func(a, b Station) int { return compareAddr(a.Addr, b.Addr) })
}

// over reports whether an inquiry has its answer.
func (q *inquiry) over(n *NIC, end int64) bool {
	now := n.link.Now()
	return now >= end || q.settle != 0 && q.first != 0 && now-q.first >= int64(q.settle)
}

// collect lets answers come in, each of which opens the gate, until the given time.
// The error is the end of ctx, if that is not by its deadline.
func (n *NIC) collect(ctx context.Context, g *progress.Gate, until int64) error {
	w := n.eng.Begin(ctx)
	w.Until(until)
	defer n.eng.End(&w)
	for {
		if n.closed {
			return ErrClosed
		}
		err := n.wait(&w, g)
		switch {
		case n.eng.Ended(ctx) == context.Canceled:
			return err
		case err != nil && n.dead != nil:
			return err
		case err != nil:
			return nil
		}
	}
}

// receiveInquiry answers an inquiry that means this NIC.
func (n *NIC) receiveInquiry(h *ethertype.Header, payload []byte) {
	named := len(payload) > 0
	if h.Src.IsGroup() || named && (n.hosts.shut || string(payload) != n.hosts.name) || h.DstPort != ethertype.PortAll && h.DstPort != n.addr.Port {
		return
	}
	if !n.mayAnswer(answerQuery) {
		return
	}
	n.sendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: n.addr.Port, Tag: h.Tag},
		n.describe(make([]byte, 0, stationSize+maxDriver+MaxHostName)))
}

// receiveStation takes the answer to an inquiry.
func (n *NIC) receiveStation(h *ethertype.Header, payload []byte) {
	q := n.inquiries.pending[h.Tag]
	s, ok := parseStation(h.Src, payload)
	if q == nil || !ok || h.SrcPort != s.Addr.Port || s.Incarnation == n.incarnation {
		n.stats.drop(DropUnknown)
		return
	}
	if _, again := q.found[s.Addr]; !again && len(q.found) >= MaxStations {
		n.stats.drop(DropUnknown)
		return
	}
	q.found[s.Addr] = s
	if q.first == 0 {
		q.first = n.now
	}
	q.gate.Open(&n.eng)
}
