// Package shm is the link between the processes of one host, more precisely of one network
// namespace: frames cross in memory that two processes share.
//
// A station is a link. All stations of a segment have the same MAC address, and each has its own
// range of ports. It claims the ports in blocks of 1024 by binding an abstract Unix datagram socket
// for each. The kernel keeps abstract names per network namespace, and frees them when the process
// ends in any way. So there is no daemon and nothing to clean up. If another user has taken the
// name of a block that belongs to root, root's socket is a file in /run/bobnet, which other
// processes look for first.
//
// The first frame from one block of ports to another creates a pair of rings in a sealed memfd. The
// sender's socket sends the memfd to the receiver's socket, with one end of a stream. Frames in the
// rings need no system call: a receiver that spins polls one word of each ring; a receiver that
// sleeps announces it in the ring, and is woken by a futex. The stream carries no data. Its end
// reports that the peer's process has ended.
//
// # Trust
//
// Any process of the network namespace can claim ports and call, whatever its user. Only root and
// the link's own user get rings, unless Config.AnyUser admits all. A peer can write anything into
// the rings at any time. Every word that locates something is read once and checked; a ring with
// impossible values is torn down. Frames of other users are copied before they are checked. The
// frames of the link's own user and of root are not, so these processes may change the bytes during
// the check. A frame's source must be the segment's address and a port of the block that the ring
// was created for, whose owner the kernel knows; other frames are counted as RxFiltered. What one
// process does, fills or leaves open takes neither room nor wake-ups from processes at other
// blocks; at worst it delays their first call.
//
// A damaged ring may look valid and still separate its two ends, so that one waits forever for data
// that the other has sent. Check detects that if both sides call it from time to time.
//
// A frame that finds its ring full is dropped and counted, so a peer that does not receive blocks
// no other.
//
// # Memory
//
// The kernel allocates a page of a ring when a frame first reaches it. If the host has no free page
// then, the process ends: by the OOM killer, or with SIGBUS if vm.overcommit_memory is 2. Reserving
// all pages by fallocate would turn that into an error of the first frame. It was measured and
// rejected: each pair of processes would use 2 MiB at once, and take 1.8 ms longer (48 µs without).
package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/latch"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// DefaultRing is the default of Config.Ring. It fits a CPU cache, and holds enough frames of the
// largest size for both sides to copy at the same time.
const DefaultRing = 1 << 20

// HostMAC is the address of the stations of a segment without an interface.
var HostMAC = ethertype.MAC{0x02, 'b', 'o', 'b', 's', 'h'}

// The reasons passed to OnDeparture's function.
var (
	// ErrGone means that the peer's process has ended, or that its link was closed.
	ErrGone = errors.New("shm: its process has ended or has closed its link")
	// ErrBroken means that the peer has written impossible values to shared memory.
	ErrBroken = errors.New("shm: it wrote invalid values to shared memory")
)

// Config configures a link. The zero Config, or a nil one, means the defaults.
type Config struct {
	// Interface is the name or MAC of the network interface whose address the station has. "" means
	// none: the segment is that of the network namespace, with the address HostMAC.
	Interface string
	// Address is the station's MAC, in place of that of Interface, for a link that belongs to
	// another link at the same station. Ports must be set.
	Address ethertype.MAC
	// Segment, together with Address and EtherType, identifies the stations that can reach each
	// other. It stands for the place where the other link has claimed its ports. For an interface
	// it is the index in decimal, as Interface implies.
	Segment string
	// Directory, if not empty, holds the sockets of the segment's port blocks as files named by the
	// block's number, in place of abstract names. Only a user who may write there can claim ports.
	Directory string
	// Sockets, if any, are datagram sockets that are already bound to these names, for the blocks
	// of Ports in order. Open owns them, even if it fails.
	Sockets []int
	// EtherType is the EtherType of the frames. 0 means ethertype.Default.
	EtherType ethernet.EtherType
	// Ports is the range of ports whose frames the link receives. No other link of the segment may
	// claim ports in the same blocks of 1024. Zero means the first free block from 1024.
	Ports transport.PortRange
	// Ring is the size of each ring in bytes, a power of two from 512 KiB to 16 MiB. 0 means
	// DefaultRing. The memory is allocated as frames need it.
	Ring int
	// SelfOnly excludes other stations: only frames to Ports pass, and no socket is created.
	SelfOnly bool
	// AnyUser admits processes of every user. By default only processes of root and of the link's
	// own user share memory with it: frames of others are not received, and frames to them are
	// dropped. Each side of a ring decides by its own AnyUser.
	AnyUser bool
	// Lend makes other stations lend every frame that they can lend, and not only if that is faster. It is for tests.
	Lend bool
	// Interrupt is called from another goroutine to end a sleep that BeginSleep has begun. nil
	// means that the link sleeps in Wait.
	Interrupt func()
}

// Link is a transport.Link in shared memory. Goroutines may share it under the rules of
// transport.Link.
type Link struct {
	info      transport.Info
	segment   segment
	origin    uint64 // the bytes of its stations' frames from OffsetSrc on
	instance  uint64 // distinguishes this link from an earlier one with its ports
	ring      int
	interrupt func()
	selfOnly  bool
	anyUser   bool
	lend      bool

	claim   *afpacket.Claim  // of the interface's ports, or nil
	served  bool             // another link at the same station has claimed the ports
	given   []int            // Config.Sockets that are not yet in sockets
	sockets []*net.UnixConn  // one for each block of ports
	files   []runsocket.Name // names of sockets that this process has bound as files of root's
	probe   int              // an unbound socket, to check which names exist
	bell    bell
	gate    *driver.Gate // of Wait
	wait    waiter
	answers sync.WaitGroup // goroutines that answer calls
	work    sync.WaitGroup // goroutines that call
	waits   atomic.Uint64
	wakes   atomic.Uint64

	peers  atomic.Pointer[[]*peer] // copied on write
	idle   atomic.Bool             // Ready has found nothing since the last Recv
	events atomic.Bool             // a peer must be removed
	known  atomic.Bool             // a peer knows the bell

	mu      latch.Latch // guards the fields below, and the rings' ends except in Ready; held only briefly
	closed  bool
	turn    int                    // the first peer in the next Recv
	fetches bool                   // the user fetches the rest of lent frames
	loan    loan                   // of the last Recv
	places  [blocks]*[blocks]place // by a block of our ports and a block of other ports; nil for blocks that are not ours
	self    *peer
	last    []*peer // peers at the time of Close: views may lie in their memory
	stats   transport.Stats
	trouble error // error of the last attempt to share memory
	gone    func(transport.PortRange, error)

	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when Close has finished
}

var (
	_ optional.Local   = (*Link)(nil)
	_ optional.Witness = (*Link)(nil)

	_ transport.LongLink = (*Link)(nil)
)

// Open opens a link in the network namespace of the calling thread. A nil cfg means the defaults.
// The error wraps transport.ErrInterface, or EADDRINUSE if the ports are taken.
func Open(cfg *Config) (*Link, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	l := &Link{probe: -1, bell: silent, ring: cfg.Ring, interrupt: cfg.Interrupt, selfOnly: cfg.SelfOnly, anyUser: cfg.AnyUser, lend: cfg.Lend, gate: driver.NewGate(),
		given: cfg.Sockets, instance: rand.Uint64() | 1, closing: make(chan struct{}), done: make(chan struct{})}
	if l.ring == 0 {
		l.ring = DefaultRing
	}
	if l.ring < minRing || l.ring > maxRing || l.ring&(l.ring-1) != 0 {
		l.release()
		return nil, fmt.Errorf("shm: rings of %d bytes: %w: want a power of two from %d to %d", l.ring, unix.EINVAL, minRing, maxRing)
	}
	l.peers.Store(new([]*peer))
	if err := l.open(cfg); err != nil {
		l.hangUp()
		l.release()
		return nil, err
	}
	if l.interrupt == nil {
		l.interrupt = l.wake
	}
	for own, places := range l.places {
		if places != nil {
			l.answers.Go(func() { l.answer(own) })
		}
	}
	return l, nil
}

// open acquires the resources that release frees.
func (l *Link) open(cfg *Config) error {
	l.info = transport.Info{Driver: "shm", Interface: "shm", MAC: HostMAC, EtherType: cfg.EtherType, Ports: cfg.Ports, MTU: ethertype.MaxMTU, SameHost: true}
	if l.info.EtherType == 0 {
		l.info.EtherType = ethertype.Default
	}
	at := cfg.Segment
	switch {
	case cfg.Address != ethertype.MAC{}:
		l.info.MAC, l.served = cfg.Address, true
		if cfg.Ports == (transport.PortRange{}) {
			return fmt.Errorf("shm: station %v: %w: Config.Ports must be set", cfg.Address, unix.EINVAL)
		}
	case cfg.Interface != "":
		ifi, err := iface.Find(cfg.Interface)
		if err != nil {
			return err
		}
		if l.claim, err = afpacket.ClaimPorts(ifi.Index, ifi.Name, l.info.EtherType, cfg.Ports); err != nil {
			return err
		}
		l.info.Interface, l.info.MAC, l.info.Ports = ifi.Name, ifi.MAC, l.claim.Ports
		at = strconv.Itoa(ifi.Index)
	}
	l.segment = segment{mac: l.info.MAC, typ: l.info.EtherType, at: at, directory: cfg.Directory}
	if !l.selfOnly {
		l.segment.locate()
	}
	l.origin = origin(l.info.MAC, l.info.EtherType)
	if l.selfOnly {
		return nil
	}
	var err error
	if l.probe, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		l.probe = -1
		return fmt.Errorf("shm: socket: %w", err)
	}
	if err := l.bell.open(l.segment.bell(l.instance)); err != nil {
		return fmt.Errorf("shm: bell: %w", err)
	}
	return l.claimPorts()
}

// release frees the remaining resources. They must no longer be in use.
func (l *Link) release() {
	if l.probe >= 0 {
		unix.Close(l.probe)
	}
	l.bell.close()
	for _, fd := range l.given {
		unix.Close(fd)
	}
	if l.claim != nil {
		l.claim.Release()
	}
}

// Close implements transport.Link. It waits for concurrent calls, of which only Wait can last, and
// is woken. Views that are read after Close contain zeros; they cause no fault as long as the link
// is reachable. The other stations learn of the end at once.
func (l *Link) Close() error {
	if !l.gate.Shut(l.wake) {
		<-l.done
		return nil
	}
	close(l.closing)
	l.mu.Lock()
	l.closed = true
	for _, places := range l.places {
		for b := 0; places != nil && b < blocks; b++ {
			if c := places[b].call; c != nil {
				c.hangUp()
			}
		}
	}
	l.last = *l.peers.Swap(new([]*peer))
	for _, p := range l.last {
		l.discard(p)
	}
	l.mu.Unlock()
	l.hangUp()
	l.work.Wait()
	l.events.Store(false)
	l.release()
	close(l.done)
	return nil
}

// Info implements transport.Link. Slots is 0, because the queues count bytes, not frames.
func (l *Link) Info() transport.Info { return l.info }

// LocalMTU implements optional.Local.
func (l *Link) LocalMTU() int { return l.info.MTU }

// LocalSlots implements optional.Local. It returns the frames that fit the rest of a ring when the
// receiver holds as much as one Recv lends and has not yet reported the free space.
func (l *Link) LocalSlots() int {
	return (l.ring-l.ring/freeEvery-l.ring/share)/int(record(ethertype.MaxFrame)) - 1
}

// OnDeparture implements optional.Local.
func (l *Link) OnDeparture(f func(ports transport.PortRange, why error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = f
}

// Now implements transport.Link. All links of a process use the same clock.
func (l *Link) Now() int64 { return driver.Now() }

// Stats implements transport.Link. TxDrops counts the frames that found a full ring or no station
// at their port, and those from a port that does not belong to the link.
func (l *Link) Stats() transport.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Waits, s.Wakes = l.waits.Load(), l.wakes.Load()
	return s
}
