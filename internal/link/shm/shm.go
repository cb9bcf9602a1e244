// Package shm is the link between the processes of one host, or rather of one
// network namespace: frames cross in memory that two of them share.
//
// A station is a link: one MAC address for all stations of a segment, and a
// range of ports of its own. It claims the ports in blocks of 1024 by binding
// a Unix datagram socket in the abstract name space for each, whose names the
// kernel keeps per network namespace and frees when the process ends, however
// it ends. So there is no daemon and nothing to clean up. If another user has taken the name of a
// block that is root's, root's socket is a file under /run/bobnet, which others look for first.
//
// The first frame from one block of ports to another makes a pair of rings in a
// sealed memfd, and sends it from the one's socket to the other's, with one end
// of a stream. What the rings carry needs no system call: a receiver that spins
// looks at one word of each ring; one that sleeps says so in the ring, and is
// woken by futex. The stream carries nothing. Its end tells that the peer is
// gone.
//
// # What is believed
//
// Any process of the network namespace can claim ports and call, whoever its
// user is. Only root and the link's own user get rings, unless Config.AnyUser lets
// in all. A peer can write anything into the rings at any time. Every word that
// says where something lies is read once and checked; a ring that says what
// cannot be is torn down. Frames of other users are copied before anything in them is
// judged; the bytes of others may change while they are looked at, by processes of the
// link's own user or of root. A frame's source must be the segment's address and a port of the block
// that the ring was made for, of which the kernel knows whose it is; others are
// counted as RxFiltered. What one process does, fills or leaves open takes
// neither room nor wake-ups from those of other blocks; at worst it delays
// their first call.
//
// Nonsense in a ring may look like sense and part its two ends, so that one waits
// for ever for what the other has sent. Check finds that out, if both sides call
// it now and then.
//
// A frame that finds its ring full is dropped and counted, so that one peer
// that does not receive holds up nobody else.
//
// # Memory
//
// The kernel gives a page of a ring when a frame first reaches it. If the host then has no page
// left, the process ends: by the OOM killer, or with SIGBUS where vm.overcommit_memory is 2. To
// reserve all pages by fallocate would make that an error of the first frame. It was measured and
// left out: each pair of processes would take 2 MiB at once, and 1.8 ms more (48 µs without).
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

// DefaultRing is the default of Config.Ring: what stays in a processor's cache
// on the way, and holds enough frames of the largest size for both sides to
// copy at the same time.
const DefaultRing = 1 << 20

// HostMAC is the address of the stations of a segment without an interface.
var HostMAC = ethertype.MAC{0x02, 'b', 'o', 'b', 's', 'h'}

// What OnDeparture tells.
var (
	// ErrGone: the peer's process has ended, or its link was closed.
	ErrGone = errors.New("shm: its process has ended or has closed its link")
	// ErrBroken: what the peer wrote to shared memory cannot be.
	ErrBroken = errors.New("shm: what it wrote to shared memory cannot be")
)

// Config says what to open. The zero Config, or a nil one, means defaults.
type Config struct {
	// Interface is the name or the MAC of the network interface whose address
	// the station has. Empty: none; the segment is the network namespace's
	// own, and its address HostMAC.
	Interface string
	// Address is the station's MAC, instead of that of Interface, for a link
	// that serves another one at the same station; Ports must be set.
	Address ethertype.MAC
	// Segment is what stations must have in common, besides Address and
	// EtherType, to reach each other: by what the link that is served claims
	// its ports. For an interface that is its index, in decimal, as Interface
	// has it.
	Segment string
	// Directory, if not empty, is where the sockets of the segment's blocks of ports lie as files,
	// each with the block's number as its name, instead of in the abstract name space. Only a
	// user who may write there can claim ports.
	Directory string
	// Sockets, if there are any, are datagram sockets that are bound to those names already, for
	// the blocks of Ports, in their order. Open takes them over, also if it fails.
	Sockets []int
	// EtherType of the frames. 0: ethertype.Default.
	EtherType ethernet.EtherType
	// Ports whose frames to receive. No other link of the segment may claim
	// ports in the same blocks of 1024. Zero: the first free block from 1024.
	Ports transport.PortRange
	// Ring is the size of each ring in bytes, a power of two from 512 KiB to
	// 16 MiB. 0: DefaultRing. The memory is used as frames need it.
	Ring int
	// SelfOnly leaves out the other stations: only frames to Ports pass, and no
	// socket is made.
	SelfOnly bool
	// AnyUser lets in processes of every user. By default only those of root and of
	// the link's own user share memory with it; what others send is not received, and
	// what is sent to them is dropped. Both sides of a ring decide, each by its own
	// AnyUser.
	AnyUser bool
	// Interrupt is called, by another goroutine, to end a sleep
	// that BeginSleep has begun. Nil: the link sleeps in Wait.
	Interrupt func()
}

// Link is a transport.Link in shared memory. Goroutines may share it as
// transport.Link says.
type Link struct {
	info      transport.Info
	segment   segment
	origin    uint64 // what the frames of its stations have from OffsetSrc on
	instance  uint64 // tells this link from an earlier one with its ports
	ring      int
	interrupt func()
	selfOnly  bool
	anyUser   bool

	claim   *afpacket.Claim  // of the interface's ports, or nil
	served  bool             // another link at the same station has claimed the ports
	given   []int            // Config.Sockets that are not yet among sockets
	sockets []*net.UnixConn  // one for each block of ports
	files   []runsocket.Name // of those that this process has bound to files of root's
	probe   int              // an unbound socket, to see which names there are
	bell    bell
	gate    *driver.Gate // of Wait
	wait    waiter
	answers sync.WaitGroup // the goroutines that answer
	work    sync.WaitGroup // those that call
	waits   atomic.Uint64
	wakes   atomic.Uint64

	peers  atomic.Pointer[[]*peer] // all there are; replaced when one comes or goes
	idle   atomic.Bool             // Ready has found nothing since the last Recv
	events atomic.Bool             // a peer is to be removed
	known  atomic.Bool             // somebody has the bell

	mu      latch.Latch // guards what follows, and the rings' ends but for Ready; never held for long
	closed  bool
	turn    int                    // the peer that Recv begins with
	places  [blocks]*[blocks]place // by a block of our ports and one of others'; nil for what is not ours
	self    *peer
	last    []*peer // when the link was closed: views may lie in their memory
	stats   transport.Stats
	trouble error // of the last attempt to share memory
	gone    func(transport.PortRange, error)

	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when Close has finished
}

var (
	_ optional.Local   = (*Link)(nil)
	_ optional.Witness = (*Link)(nil)
)

// Open opens a link in the network namespace of the calling thread. A nil cfg
// means defaults. The errors wrap transport.ErrInterface, or EADDRINUSE when
// the ports are taken.
func Open(cfg *Config) (*Link, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	l := &Link{probe: -1, bell: silent, ring: cfg.Ring, interrupt: cfg.Interrupt, selfOnly: cfg.SelfOnly, anyUser: cfg.AnyUser, gate: driver.NewGate(),
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

// open acquires what release gives back.
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
			return fmt.Errorf("shm: station %v: %w: Config.Ports must say which are its own", cfg.Address, unix.EINVAL)
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

// release gives the rest back. Nobody is using it.
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

// Close implements transport.Link. It waits for calls under way, of which only
// Wait can take time and is woken. Views that are read after Close show zeros;
// they do not fault as long as the link is in use anywhere. The other stations
// learn of it at once.
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

// Info implements transport.Link. Slots is 0: the queues count bytes, not
// frames.
func (l *Link) Info() transport.Info { return l.info }

// LocalMTU implements optional.Local.
func (l *Link) LocalMTU() int { return l.info.MTU }

// LocalSlots implements optional.Local: what is left of a ring when the
// receiver holds as much as one Recv lends and has yet to say what is free.
func (l *Link) LocalSlots() int {
	return (l.ring-l.ring/freeEvery-l.ring/share)/int(record(ethertype.MaxFrame)) - 1
}

// OnDeparture implements optional.Local.
func (l *Link) OnDeparture(f func(ports transport.PortRange, why error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = f
}

// Now implements transport.Link. All links of a process have the same clock.
func (l *Link) Now() int64 { return driver.Now() }

// Stats implements transport.Link. TxDrops counts the frames that found a full
// ring, or nobody at their port, and those from a port that is not the link's.
func (l *Link) Stats() transport.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Waits, s.Wakes = l.waits.Load(), l.wakes.Load()
	return s
}
