package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// hello is what each side says of itself:
//
//	offset  size  field
//	     0     8  "bobshm02"
//	     8     8  instance of the link
//	    16     2  lowest port
//	    18     2  highest port
//	    20     4  size of a ring in bytes
//
// With a caller's come two descriptors: one end of the stream, and the memfd; with
// either's the user whose it is.
// The instance is in the name of the link's bell.
type hello struct {
	instance uint64
	ports    transport.PortRange
	ring     int
}

const (
	helloMagic  = "bobshm02"
	helloSize   = 24
	helloRights = 2
)

// holds reports whether block b is among those that the hello says.
func (h hello) holds(b int) bool {
	return driver.Block(h.ports.Lo) <= b && b <= driver.Block(h.ports.Hi)
}

func (l *Link) hello() hello { return hello{l.instance, l.info.Ports, l.ring} }

func (h hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint64(b, h.instance)
	b = binary.BigEndian.AppendUint16(b, h.ports.Lo)
	b = binary.BigEndian.AppendUint16(b, h.ports.Hi)
	return binary.BigEndian.AppendUint32(b, uint32(h.ring))
}

// parse decodes and judges what a peer says of itself.
func (h *hello) parse(b []byte) error {
	if len(b) != helloSize || string(b[:8]) != helloMagic {
		return fmt.Errorf("%w: its hello is not of this version: build both programs from one source", ErrBroken)
	}
	h.instance = binary.BigEndian.Uint64(b[8:])
	h.ports = transport.PortRange{Lo: binary.BigEndian.Uint16(b[16:]), Hi: binary.BigEndian.Uint16(b[18:])}
	h.ring = int(binary.BigEndian.Uint32(b[20:]))
	if h.ports.Lo == 0 || h.ports.Hi < h.ports.Lo {
		return fmt.Errorf("%w: ports %d..%d", ErrBroken, h.ports.Lo, h.ports.Hi)
	}
	return nil
}

// arrival is a hello that has arrived, and what the kernel says of it.
type arrival struct {
	hello
	fds  []int       // that came with it; the receiver gives them to passfd.Close
	from string      // the name of a caller's socket; "" if it has none
	who  *unix.Ucred // nil if the kernel has not said
	cut  bool        // this process has too many open files for more of the descriptors
}

// uid returns the user whose the descriptors were.
func (a *arrival) uid() uint32 {
	if a.who == nil {
		return passfd.Unknown
	}
	return a.who.Uid
}

// receiveHello reads a hello. The descriptors are those that came, whatever the error.
func receiveHello(conn *net.UnixConn) (a arrival, err error) {
	text := make([]byte, helloSize+1)
	m, err := passfd.ReceiveAny(conn, text)
	if err != nil {
		return a, err
	}
	a.fds, a.who, a.cut = m.FDs, m.Who, m.Cut
	if m.From != nil {
		a.from = m.From.Name
	}
	return a, a.parse(text[:m.N])
}

// post sends text and descriptors to p's block. While the queue there is full it
// tries again, until end or the link closes.
func (l *Link) post(p *peer, text, rights []byte, end time.Time) error {
	to := &unix.SockaddrUnix{Name: p.to}
	for pause := time.Millisecond; ; pause = min(2*pause, postPause) {
		sent := control(l.socket(p.own), func(fd int) error {
			return unix.Sendmsg(fd, text, rights, to, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
		if !errors.Is(sent, unix.EAGAIN) || time.Now().After(end) {
			return sent
		}
		select {
		case <-l.closing:
			return transport.ErrClosed
		case <-time.After(pause):
		}
	}
}

// postPause is the longest pause between two tries of post.
const postPause = 50 * time.Millisecond

// present returns the name of the socket of the process that holds block b. With files it looks for
// root's first.
func (l *Link) present(b int, files bool) (name string, ok bool) {
	at := l.segment.name(b)
	if files && unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.File}) == nil {
		return at.File, true
	}
	return at.Abstract, unix.Connect(l.probe, &unix.SockaddrUnix{Name: at.Abstract}) == nil
}

// hasFiles reports whether root may have sockets that are files.
func (s *segment) hasFiles() bool { return s.files != "" && unix.Access(s.files, unix.F_OK) == nil }
