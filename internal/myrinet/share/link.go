package share

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Link is a program's link on a shared card. Goroutines may share it under the rules of
// transport.Link.
type Link struct {
	at        iface.Interface
	directory string // of the card's sockets
	info      transport.Info
	memory    *shm.Link

	send struct {
		sync.Mutex
		heads []byte
		batch [transport.MaxBatch]transport.Frame
	}
	counters driver.Counters
	filtered atomic.Uint64

	mu     sync.Mutex
	conn   *net.UnixConn // nil while there is no card
	closed bool
	look   int // a socket in the interface's network namespace
	work   sync.WaitGroup
}

var (
	_ transport.Link    = (*Link)(nil)
	_ transport.Checker = (*Link)(nil)
)

// OpenOrAttach calls Attach if a process serves a card at cfg.Interface, and otherwise plain.Open.
func OpenOrAttach(ctx context.Context, cfg *plain.OpenConfig) (transport.Link, error) {
	l, err := Attach(ctx, cfg)
	if errors.Is(err, ErrNoCard) {
		return plain.Open(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Attach opens a link on the card that a process serves at a network interface. It uses Interface,
// EtherType and Ports of cfg; the card determines the rest. Ports belong to blocks of 1024, and a
// block belongs to one program. The error wraps ErrNoCard if there is no such process, EADDRINUSE
// if another program has the ports, and ctx's error if ctx ends first.
func Attach(ctx context.Context, cfg *plain.OpenConfig) (*Link, error) {
	at, err := iface.Find(cfg.Interface)
	if err != nil {
		return nil, err
	}
	conn, w, err := Dial(ctx, at, Plain, 0)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	typ := cfg.EtherType
	if typ == 0 {
		typ = ethertype.Default
	}
	l := &Link{at: at, conn: conn, directory: w.Directory, look: -1}
	l.info = transport.Info{Driver: "myrinet", Interface: at.Name, MAC: at.MAC, EtherType: typ, MTU: w.MTU,
		Slots: ring / 2 / (w.MTU + 2*ethertype.HeaderSize)}
	if typ != ethernet.EtherType(w.EtherType) {
		err = fmt.Errorf("share: the card at %s carries EtherType %#04x, but this program uses %#04x (start the card with the program's EtherType)", at.Name, w.EtherType, uint16(typ))
	} else {
		err = l.claim(cfg.Ports)
	}
	if !stop() {
		err = fmt.Errorf("share: the card at %s: %w", at.Name, ctx.Err())
	}
	if err == nil {
		l.look, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		if l.memory != nil {
			l.memory.Close()
		}
		conn.Close()
		return nil, err
	}
	l.send.heads = make([]byte, transport.MaxBatch*ethertype.HeaderSize)
	l.work.Go(func() { l.attend(conn) })
	return l, nil
}

// claim claims the ports, or the first free block.
func (l *Link) claim(ports transport.PortRange) (err error) {
	if ports != (transport.PortRange{}) && ports.Lo < cardPorts.Lo {
		return fmt.Errorf("share: ports %d to %d: %w: ports below %d are reserved for the card", ports.Lo, ports.Hi, unix.EINVAL, cardPorts.Lo)
	}
	if l.directory != "" {
		var sockets []int
		if l.info.Ports, sockets, err = ask(l.conn, ports); err == nil {
			l.memory, err = openMemory(l.at, l.info.EtherType, l.info.Ports, false, l.directory, sockets...)
		}
		return err
	}
	if ports != (transport.PortRange{}) {
		l.info.Ports = ports
		l.memory, err = openMemory(l.at, l.info.EtherType, ports, false, "")
		return err
	}
	for b := driver.Block(cardPorts.Lo); b < driver.Blocks; b++ {
		l.info.Ports = driver.BlockPorts(b)
		if l.memory, err = openMemory(l.at, l.info.EtherType, l.info.Ports, false, ""); !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	return err
}

// attend waits for the end of a connection with the card's process.
func (l *Link) attend(conn *net.UnixConn) {
	io.Copy(io.Discard, conn)
	conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
	}
	l.memory.Wake() // a waiting goroutine calls Check
}

// Check implements transport.Checker: it checks that the interface exists and that a process serves
// its card. It connects again to a new process.
func (l *Link) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return transport.ErrClosed
	}
	if l.conn == nil {
		if _, err := driver.Look(l.look, l.at.Index, l.at.Name); errors.Is(err, transport.ErrGone) {
			return err
		}
		conn, w, err := Dial(context.Background(), l.at, Plain, 0)
		if err != nil {
			return fmt.Errorf("%w: the process that served the card at %s has ended: %w", transport.ErrLinkDown, l.at.Name, err)
		}
		if w.MTU < l.info.MTU || w.EtherType != uint16(l.info.EtherType) || w.Directory != l.directory {
			conn.Close()
			return fmt.Errorf("%w: the card at %s was replaced: it now has MTU %d and EtherType %#04x, previously %d and %#04x",
				transport.ErrLinkDown, l.at.Name, w.MTU, w.EtherType, l.info.MTU, uint16(l.info.EtherType))
		}
		l.conn = conn
		l.work.Go(func() { l.attend(conn) })
	}
	return l.memory.Check()
}

// Send implements transport.Link. It accepts every frame. A frame without room in the ring is
// dropped and counted; so are all frames while no process serves the card.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	s := &l.send
	s.Lock()
	defer s.Unlock()
	for n < min(len(frames), transport.MaxBatch) {
		f := &frames[n]
		size := f.Len()
		if size > l.info.MTU+ethertype.EthernetSize || len(f.Body) > transport.MaxBody {
			err = fmt.Errorf("%w: %d bytes in %d parts, MTU %d and %d bytes of Ethernet header allow %d, in %d",
				transport.ErrFrameSize, size, len(f.Body), l.info.MTU, ethertype.EthernetSize, l.info.MTU+ethertype.EthernetSize, transport.MaxBody)
			break
		}
		head := s.heads[n*ethertype.HeaderSize:][:ethertype.HeaderSize]
		envelope(head, l.info.MAC, l.info.EtherType, l.info.Ports.Lo, cardPort, size)
		body := append(s.batch[n].Body[:0], f.Head)
		if len(f.Body) == transport.MaxBody { // the header would be one part too many
			body[0] = append(append(make([]byte, 0, len(f.Head)+len(f.Body[0])), f.Head...), f.Body[0]...)
			body = append(body, f.Body[1:]...)
		} else {
			body = append(body, f.Body...)
		}
		s.batch[n] = transport.Frame{Head: head, Body: body}
		n++
	}
	if n == 0 {
		return 0, err
	}
	if _, e := l.memory.Send(s.batch[:n]); e != nil {
		return 0, e
	}
	return n, err
}

// Recv implements transport.Link.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	k, err := l.memory.Recv(views[:min(len(views), transport.MaxBatch)])
	nbytes := 0
	for _, view := range views[:k] {
		if frame := l.admitFrame(view); frame != nil {
			views[n] = frame
			nbytes += len(frame)
			n++
		}
	}
	if k > 0 {
		l.filtered.Add(uint64(k - n))
		l.counters.RxFrames.Add(uint64(n))
		l.counters.RxBytes.Add(uint64(nbytes))
	}
	if n > 0 {
		l.counters.RxCalls.Add(1)
	}
	return n, err
}

// admitFrame returns the frame after the header, or nil if it is not from the card or not for this
// program.
func (l *Link) admitFrame(view []byte) []byte {
	if binary.BigEndian.Uint16(view[framing.OffsetSrcPort:]) != cardPort || len(view) < ethertype.HeaderSize+framing.OuterSize {
		return nil
	}
	frame := view[ethertype.HeaderSize:]
	port, ok := framing.Concerns(frame, l.info.EtherType, l.info.MAC)
	if !ok || port != ethertype.PortAll && !l.info.Ports.Contains(port) {
		return nil
	}
	return frame
}

// Ready implements transport.Link.
func (l *Link) Ready() bool { return l.memory.Ready() }

// Wait implements transport.Link.
func (l *Link) Wait(until int64) error { return l.memory.Wait(until) }

// Wake implements transport.Link.
func (l *Link) Wake() { l.memory.Wake() }

// Now implements transport.Link.
func (l *Link) Now() int64 { return l.memory.Now() }

// Info implements transport.Link.
func (l *Link) Info() transport.Info { return l.info }

// Stats implements transport.Link.
func (l *Link) Stats() transport.Stats {
	s, m := l.counters.Snapshot(), l.memory.Stats()
	s.TxFrames, s.TxBytes, s.TxCalls, s.TxDrops = m.TxFrames, m.TxBytes-m.TxFrames*ethertype.HeaderSize, m.TxCalls, m.TxDrops
	s.Waits, s.Wakes, s.Refused = m.Waits, m.Wakes, m.Refused
	s.RxFiltered = m.RxFiltered + l.filtered.Load()
	return s
}

// Close implements transport.Link.
func (l *Link) Close() error {
	l.mu.Lock()
	if !l.closed {
		unix.Close(l.look)
	}
	l.closed = true
	if l.conn != nil {
		l.conn.Close()
	}
	l.mu.Unlock()
	err := l.memory.Close()
	l.work.Wait()
	return err
}
