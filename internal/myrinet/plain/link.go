package plain

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/mdlayher/ethernet"
)

// Config configures the link of a card. MAC is required in virtual time.
type Config struct {
	MAC       ethertype.MAC       // of the station; live, zero means the interface's
	EtherType ethernet.EtherType  // of the frames within packets; 0 means ethertype.Default
	Ports     transport.PortRange // zero means DefaultPorts
	MTU       int                 // 0 means DefaultMTU in virtual time; live, what fits one frame of the cable, a long one if it can carry long frames
	Slots     int                 // size of the receive ring in frames, rounded up to a power of two; 0 means DefaultSlots, or live at most about 2 MiB
	Routes    []myrinet.HostRoute // nil means one route without turns to everybody, as for a direct cable, until a mapper provides routes
	Card      myrinet.CardConfig

	// Mapper makes the host take part in mapping, which then writes the routes; its ID and Card are
	// replaced by the link's. nil means none in virtual time, and live the options of LiveMapper if
	// Routes is nil.
	Mapper *myrinet.MapperOptions
}

// Defaults of Config.
const (
	DefaultMTU   = 1500
	DefaultSlots = 512

	maxSlots = 1 << 16
)

// DefaultPorts are the ports of a link without Config.Ports.
var DefaultPorts = transport.PortRange{Lo: 1024, Hi: 2047}

// Link is a transport.Link over a card. Goroutines may share it under the rules of transport.Link.
type Link struct {
	card *hardware.Card
	prog program
	page *hardware.Page
	info transport.Info
	via  carrier

	mu     latch.Latch // guards card and page
	tx, rx frameRing
	handed atomic.Uint32 // frames of rx that Recv has returned; the card owns those before rx.taken again
	closed atomic.Bool

	counters     driver.Counters
	filtered     atomic.Uint64
	badDoorbells atomic.Uint64
}

// carrier abstracts the difference between virtual time and live operation.
type carrier interface {
	drive() error // moves frames as far as possible; called with the lock held
	wait(until int64) error
	wake()
	ready() bool // drive may have work
	now() int64
	close()
	holds() bool                  // frames must not leave yet
	lends() bool                  // drive reads frames from the caller's memory
	snapshot() *hardware.LivePort // of the cable, nil if there is none
}

// newLink loads the program on a card. The card must be plugged in.
func newLink(card *hardware.Card, via carrier, cfg *Config, name string) (*Link, error) {
	l := &Link{card: card, via: via}
	l.info = transport.Info{
		Driver: "myrinet", Interface: name, MAC: cfg.MAC, EtherType: cfg.EtherType, Ports: cfg.Ports, MTU: cfg.MTU,
		Slots: cfg.Slots,
	}
	page, err := card.OpenPage("the link")
	if err != nil {
		return nil, err
	}
	if n := len(page.Bytes()); n < pageUsed {
		return nil, fmt.Errorf("plain: the card has doorbell pages of %d bytes, the link needs %d (CardConfig.PageSize)", n, pageUsed)
	}
	size := cfg.MTU + ethertype.EthernetSize
	l.page = page
	l.tx.init(leastSendSlots, size)
	l.rx.init(cfg.Slots, size)
	l.info.Slots = len(l.rx.slots)
	l.prog = program{l: l, page: page, size: size}
	l.prog.gather = l.prog.onGather
	err = l.prog.maps.Start(via.now(), cfg.Mapper, cfg.MAC, &l.prog)
	if err == nil {
		err = card.Load(&l.prog)
	}
	if err == nil {
		err = l.prog.setRoutes(cfg.Routes)
	}
	if err != nil {
		page.Close()
		return nil, err
	}
	return l, nil
}

// resolve fills in defaults and checks the configuration.
func (cfg *Config) resolve() error {
	if cfg.EtherType == 0 {
		cfg.EtherType = ethertype.Default
	}
	if cfg.Ports == (transport.PortRange{}) {
		cfg.Ports = DefaultPorts
	}
	if cfg.MTU == 0 {
		cfg.MTU = DefaultMTU
	}
	if cfg.Slots == 0 {
		cfg.Slots = DefaultSlots
	}
	if cfg.Routes == nil {
		cfg.Routes = station.Straight
	}
	switch {
	case cfg.MAC == ethertype.MAC{} || cfg.MAC.IsGroup():
		return fmt.Errorf("plain: invalid station address %v (set Config.MAC to a unicast address)", cfg.MAC)
	case cfg.MTU < ethertype.MinMTU || cfg.MTU > ethertype.MaxMTU:
		return fmt.Errorf("plain: Config.MTU is %d: want %d to %d", cfg.MTU, ethertype.MinMTU, ethertype.MaxMTU)
	case cfg.Slots < 1 || cfg.Slots > maxSlots:
		return fmt.Errorf("plain: Config.Slots is %d: want 1 to %d", cfg.Slots, maxSlots)
	}
	return driver.CheckPorts(cfg.Ports)
}

// longest returns a link's longest packet.
func (cfg *Config) longest() station.Longest {
	return station.Longest{Size: PacketSize(cfg.MTU), Remedy: ", or lower Config.MTU"}
}

// PacketSize returns the size in bytes of a packet, with the longest route, that carries a frame of
// a link with the given MTU.
func PacketSize(mtu int) int { return hardware.PacketSize(MaxHops, mtu+ethertype.EthernetSize) }

// Send implements transport.Link.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return 0, transport.ErrClosed
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	if len(frames) == 0 {
		return 0, nil
	}
	l.counters.TxCalls.Add(1)
	for n < len(frames) && err == nil {
		var k int
		k, err = l.stage(frames[n:])
		if n += k; k == 0 && err == nil {
			l.counters.TxFull.Add(1)
			break
		}
		broken := l.via.drive()
		l.tx.own()
		if broken != nil {
			return n, broken
		}
	}
	return n, err
}

// stage puts frames into the send ring and rings the card's doorbell.
func (l *Link) stage(frames []transport.Frame) (n int, err error) {
	put := l.tx.put.Load()
	staged := put
	for n < len(frames) && staged-l.tx.taken.Load() < uint32(len(l.tx.slots)) {
		f := &frames[n]
		size := f.Len()
		if size > l.prog.size || len(f.Body) > transport.MaxBody {
			err = fmt.Errorf("%w: %d bytes in %d parts, MTU %d and %d bytes of Ethernet header allow %d, in %d",
				transport.ErrFrameSize, size, len(f.Body), l.info.MTU, ethertype.EthernetSize, l.prog.size, transport.MaxBody)
			break
		}
		n++
		if size < ethertype.EthernetSize {
			l.counters.TxDrops.Add(1)
			continue
		}
		s := l.tx.at(staged)
		if s.n = size; l.via.lends() {
			s.from = f
		} else {
			f.AppendTo(s.mem[:0])
		}
		staged++
	}
	if staged != put {
		l.tx.put.Store(staged)
		l.tell(wordSent, staged)
		l.page.Ring()
	}
	return n, err
}

// tell writes a word of the doorbell page.
func (l *Link) tell(at int, v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	l.page.Write(at, b[:]) // within the page, so it cannot fail
}

// Recv implements transport.Link.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return 0, transport.ErrClosed
	}
	from := l.handed.Load()
	if from != l.rx.taken.Load() {
		l.rx.taken.Store(from)
		l.tell(wordTaken, from)
	}
	if err := l.via.drive(); err != nil {
		return 0, err
	}
	n = min(len(views), transport.MaxBatch, int(l.rx.put.Load()-from))
	nbytes := 0
	for i := range n {
		s := l.rx.at(from + uint32(i))
		views[i] = s.mem[:s.n]
		nbytes += s.n
	}
	if n > 0 {
		l.handed.Store(from + uint32(n))
		l.counters.RxCalls.Add(1)
		l.counters.RxFrames.Add(uint64(n))
		l.counters.RxBytes.Add(uint64(nbytes))
	}
	return n, nil
}

// has reports whether the receive ring holds a frame that Recv has not returned.
func (l *Link) has() bool { return l.rx.put.Load() != l.handed.Load() }

// Ready implements transport.Link.
func (l *Link) Ready() bool { return !l.closed.Load() && (l.has() || l.via.ready()) }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error { return l.via.wait(until) }

// Wake implements transport.Link.
func (l *Link) Wake() {
	l.counters.Wakes.Add(1)
	l.via.wake()
}

// Now implements transport.Link.
func (l *Link) Now() int64 { return l.via.now() }

// Info implements transport.Link.
func (l *Link) Info() transport.Info { return l.info }

// Stats implements transport.Link.
func (l *Link) Stats() transport.Stats {
	s := l.counters.Snapshot()
	s.RxFiltered = l.filtered.Load()
	return s
}

// Close implements transport.Link. In virtual time, frames that the card has already received from
// the host leave, and arriving frames are dropped.
func (l *Link) Close() error {
	if !l.closed.Swap(true) {
		l.via.close()
	}
	return nil
}

// SetRoutes replaces the card's routes, until a mapper replaces them. On an error, which wraps
// station.ErrRoutes, the routes do not change. It is safe for concurrent use.
func (l *Link) SetRoutes(routes []myrinet.HostRoute) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prog.setRoutes(routes)
}

// Snapshot is the state of a link and its card at one moment.
type Snapshot struct {
	station.Snapshot
	Link         transport.Stats
	BadDoorbells uint64 `metric:"bobnet_card_bad_doorbells_total" help:"Invalid values in the host's doorbell page."`
	ToSend       int    `metric:"bobnet_card_send_ring_frames" help:"Frames in the send ring."`
	Received     int    `metric:"bobnet_card_receive_ring_frames" help:"Frames in the receive ring."`
}

// Snapshot returns the current state of link and card. It is safe for concurrent use.
func (l *Link) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Snapshot{
		Snapshot: station.Snapshot{Card: l.card.Snapshot(), Cable: l.via.snapshot(), Mapper: l.prog.maps.Snapshot(),
			Stations: len(l.prog.tab.Routed(nil)), LongRoutes: l.prog.maps.Long},
		Link: l.Stats(), BadDoorbells: l.badDoorbells.Load(),
		ToSend: int(l.tx.put.Load() - l.tx.taken.Load()), Received: int(l.rx.put.Load() - l.rx.taken.Load()),
	}
}
