// Package host joins the stations of one host to a link. An Ethernet interface never delivers a
// frame to its own host, so frames between programs of the host take another path. Frames to the
// link's own ports are delivered within the process. Frames to other ports of its MAC address go
// through shared memory to the process that has claimed the ports (package shm). Broadcasts go both
// ways. Frames within the host may be longer than the interface's MTU. Connections acknowledge them
// like all others: this costs some speed, and saves a second engine in the layers above.
//
// A frame that arrives by the link with the host's own source address is forged or looped back. It
// is dropped, because connections within the host would attribute it to their peer.
//
// Any link can be joined. A virtual link is joined only to its own ports, because only the
// simulation exists at its address.
package host

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Config configures Join. Nil and zero fields mean the defaults.
type Config struct {
	// Ring is shm.Config.Ring.
	Ring int
	// AnyUser is shm.Config.AnyUser: it also admits programs of other users.
	AnyUser bool
	// Sockets is shm.Config.Sockets.
	Sockets []int
	// Wrap, if not nil, is called with the other link when the path within the host exists. Its
	// result replaces that link.
	Wrap func(transport.Link) transport.Link
}

type base = wrap.Base

// Link is an optional.Local made of another link and shared memory. Goroutines
// may share it as transport.Link says.
type Link struct {
	base    // around the outer link
	near    *shm.Link
	mac     ethertype.MAC
	virtual bool
	turn    bool // Recv polls near first
	lent    bool // the path within the host holds the rest of the last view
	cut     bool // the last frame of outer's last Recv was dropped
	latest  way  // of the latest frames received
	refused refused

	gate    *driver.Gate  // guards Wait, unless the link is virtual
	closed  chan struct{} // closed when Close has finished
	nudges  atomic.Uint64 // outer's wake-ups that were not for the caller
	bell    *os.File      // near's bell, if outer cannot watch it
	ringing sync.WaitGroup
}

var (
	_ optional.Local     = (*Link)(nil)
	_ transport.LongLink = (*Link)(nil)
	_ transport.Checker  = (*Link)(nil)
	_ optional.Parking   = (*Link)(nil)
	_ optional.Sharer    = (*Link)(nil)
	_ optional.Witness   = (*Link)(nil)
	_ optional.Nearby    = (*Link)(nil)

	_ optional.MemoryReader = (*Link)(nil)
	_ optional.Lender       = (*Link)(nil)
)

// Join returns a link that sends frames for other hosts through outer. The caller must not use
// outer any more; Close closes it too. A nil cfg means the defaults. Call it in the network
// namespace of outer. After an error outer is unchanged. The error wraps EADDRINUSE if another
// process has outer's ports.
func Join(outer transport.Link, cfg *Config) (*Link, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	info := outer.Info()
	l := &Link{base: wrap.New(outer, ""), mac: info.MAC, virtual: info.Virtual, gate: driver.NewGate(), closed: make(chan struct{})}
	var err error
	l.near, err = shm.Open(&shm.Config{Address: info.MAC, Segment: segment(info), EtherType: info.EtherType,
		Ports: info.Ports, Ring: cfg.Ring, AnyUser: cfg.AnyUser, Sockets: cfg.Sockets, SelfOnly: info.Virtual, Interrupt: l.interrupt})
	if err != nil {
		return nil, err
	}
	if cfg.Wrap != nil {
		outer = cfg.Wrap(outer)
		l.base = wrap.New(outer, "")
	}
	if info.Virtual {
		return l, nil
	}
	if w, ok := outer.(optional.Watcher); ok {
		w.Watch(l.near.Bell())
		return l, nil
	}
	if err := l.listen(); err != nil {
		l.near.Close()
		return nil, err
	}
	return l, nil
}

// segment distinguishes links with the same MAC address on different interfaces, such as a VLAN and
// its parent, or with different base ports: they claim ports separately.
func segment(info transport.Info) string {
	if info.Virtual {
		return ""
	}
	ifi, err := net.InterfaceByName(info.Interface)
	if err != nil { // a link that the caller implements
		return ""
	}
	if info.BasePort != 0 {
		return fmt.Sprintf("%d/%d", ifi.Index, info.BasePort)
	}
	return strconv.Itoa(ifi.Index)
}

// listen starts the goroutine that waits for the bell on behalf of an outer link that cannot.
func (l *Link) listen() error {
	fd, err := unix.FcntlInt(uintptr(l.near.Bell()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.bell = os.NewFile(uintptr(fd), "bell")
	l.ringing.Go(func() {
		var b [1]byte
		for {
			if _, err := l.bell.Read(b[:]); err != nil && err != io.EOF { // an empty datagram
				return
			}
			l.interrupt()
		}
	})
	return nil
}

// interrupt ends a Wait because of an event of near.
func (l *Link) interrupt() {
	l.nudges.Add(1)
	l.Link.Wake()
}

// Close implements transport.Link.
func (l *Link) Close() (err error) {
	if l.virtual { // a waiting goroutine runs only when the caller lets time pass
		err = l.Link.Close()
		l.near.Close()
		return err
	}
	if !l.gate.Shut(l.Link.Wake) {
		<-l.closed
		return nil
	}
	l.near.Close() // first: the next owner of outer's ports also needs these
	err = l.Link.Close()
	if l.bell != nil {
		l.bell.Close()
		l.ringing.Wait()
	}
	close(l.closed)
	return err
}

// Info implements transport.Link: outer's, with "+host" behind the driver.
func (l *Link) Info() transport.Info {
	info := l.Link.Info()
	info.Driver += "+host"
	return info
}

// LocalMTU implements optional.Local.
func (l *Link) LocalMTU() int { return l.near.LocalMTU() }

// LocalSlots implements optional.Local.
func (l *Link) LocalSlots() int { return l.near.LocalSlots() }

// OnDeparture implements optional.Local.
func (l *Link) OnDeparture(f func(ports transport.PortRange, why error)) { l.near.OnDeparture(f) }

// Lives implements optional.Witness.
func (l *Link) Lives(port uint16) bool { return l.near.Lives(port) }

// ReadMemory implements optional.MemoryReader.
func (l *Link) ReadMemory(port uint16, dst []byte, from, mark uint64) (uint64, error) {
	return l.near.ReadMemory(port, dst, from, mark)
}

// Copied implements optional.Lender.
func (l *Link) Copied(from, to uint16, n int, ns int64) { l.near.Copied(from, to, n, ns) }

// ShareTrouble implements optional.Sharer.
func (l *Link) ShareTrouble() error { return l.near.ShareTrouble() }

// Check implements transport.Checker if the outer link does. Recv reports failures of the path
// within the host.
func (l *Link) Check() error {
	_ = l.near.Check()
	return l.base.Check()
}

// refused counts frames of outer that were dropped because their source is this host's address.
type refused struct{ frames, bytes atomic.Uint64 }

func (r *refused) count(size int) {
	r.frames.Add(1)
	r.bytes.Add(uint64(size))
}

// Stats implements transport.Link: the sums of both paths. A broadcast counts once for the wire and
// once for each station of the host that receives it. Frames of outer with this host's source
// address count as RxFiltered.
func (l *Link) Stats() transport.Stats {
	s, near := l.Link.Stats(), l.near.Stats()
	s.TxFrames += near.TxFrames
	s.TxBytes += near.TxBytes
	s.TxCalls += near.TxCalls
	s.TxDrops += near.TxDrops
	s.RxFrames += near.RxFrames
	s.RxBytes += near.RxBytes
	s.RxCalls += near.RxCalls
	frames, bytes := l.refused.frames.Load(), l.refused.bytes.Load()
	s.RxFrames -= min(s.RxFrames, frames) // outer may not have counted them yet
	s.RxBytes -= min(s.RxBytes, bytes)
	s.RxFiltered += near.RxFiltered + frames
	s.Refused = near.Refused
	s.Wakes -= min(s.Wakes, l.nudges.Load())
	return s
}
