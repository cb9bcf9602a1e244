package vrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"

	"github.com/bobnet-go/bobnet/transport"
)

// errorPause is how long a server waits after the kernel has failed to deliver a connection or
// datagram, usually for lack of descriptors or memory.
const errorPause = 50 * time.Millisecond

// Listen makes the server serve an address of a network: "tcp", "tcp4", "tcp6", "udp", "udp4",
// "udp6" or "unix" (with record marking, as in rpcbind for local clients). It runs in the
// background until Close. It returns the address, with the port that the kernel has chosen for
// ":0".
func (s *Server) Listen(network, address string) (net.Addr, error) {
	switch network {
	case "udp", "udp4", "udp6":
		addr, err := net.ResolveUDPAddr(network, address)
		if err != nil {
			return nil, err
		}
		conn, err := net.ListenUDP(network, addr)
		if err != nil {
			return nil, err
		}
		return conn.LocalAddr(), s.ServeUDP(conn)
	case "tcp", "tcp4", "tcp6", "unix":
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		return l.Addr(), s.Serve(l)
	}
	return nil, fmt.Errorf("vrpc: network %q: it must be tcp, tcp4, tcp6, udp, udp4, udp6 or unix", network)
}

// Endpoint is an address of a server.
type Endpoint struct {
	Netid string // the transport's name in RFC 5665, or "vmmc"
	Addr  net.Addr
}

// Endpoints returns the addresses of the server, in the order in which they were added.
func (s *Server) Endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Endpoint(nil), s.endpoints...)
}

// AddEndpoint adds an address to the result of Endpoints. The transports of this package do so
// themselves.
func (s *Server) AddEndpoint(e Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, e)
}

// Netid returns the transport's name in RFC 5665 for an address: "tcp", "tcp6", "udp", "udp6" or
// "local". A socket of both IP versions has an address of version 6.
func Netid(addr net.Addr) string {
	name, ip := addr.Network(), net.IP(nil)
	switch a := addr.(type) {
	case *net.TCPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	case *net.UnixAddr:
		return "local"
	}
	if ip != nil && ip.To4() == nil {
		return name + "6"
	}
	return name
}

// Serve makes the server serve the connections that l accepts, with record marking (RFC 5531
// section 11). It runs in the background until Close, which closes l.
func (s *Server) Serve(l net.Listener) error {
	closer := io.Closer(l)
	if local, ok := l.(*net.UnixListener); ok {
		closer = localListener{local}
	}
	err := s.Start(closer, func(ctx context.Context) { s.accept(ctx, l) })
	if err == nil {
		s.addEndpoints(l, l.Addr())
	}
	return err
}

// localListener is a Unix listener that closes descriptors that clients have passed.
type localListener struct{ *net.UnixListener }

// Close implements io.Closer.
func (l localListener) Close() error { return passfd.CloseListener(l.UnixListener) }

// addEndpoints adds the addresses of a socket. A socket at the IPv6 wildcard address usually
// accepts IPv4, too.
func (s *Server) addEndpoints(socket any, addr net.Addr) {
	s.AddEndpoint(Endpoint{Netid(addr), addr})
	switch a := addr.(type) {
	case *net.TCPAddr:
		if bothVersions(socket, a.IP) {
			s.AddEndpoint(Endpoint{"tcp", &net.TCPAddr{IP: net.IPv4zero, Port: a.Port}})
		}
	case *net.UDPAddr:
		if bothVersions(socket, a.IP) {
			s.AddEndpoint(Endpoint{"udp", &net.UDPAddr{IP: net.IPv4zero, Port: a.Port}})
		}
	}
}

// bothVersions reports whether a socket at an IP address also accepts IPv4.
func bothVersions(socket any, ip net.IP) (both bool) {
	conn, ok := socket.(syscall.Conn)
	if !ok || !ip.Equal(net.IPv6zero) {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		only, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		both = err == nil && only == 0
	})
	return both
}

func (s *Server) accept(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err == nil {
			s.admit(conn)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if errors.Is(err, transport.ErrGone) { // no more connections can arrive
			s.cfg.Logger.Error("vrpc: no more connections can arrive", "address", l.Addr(), "err", err)
			return
		}
		s.cfg.Logger.Warn("vrpc: cannot accept a connection", "address", l.Addr(), "err", err)
		if !pause(ctx) {
			return
		}
	}
}

// pause waits for a moment after a temporary error, and reports whether to continue.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(errorPause):
		return true
	}
}

// admit starts to serve a connection, unless there are too many, in total or of its peer.
func (s *Server) admit(conn net.Conn) {
	key, who := admission.PeerOf(conn), streamPeer(conn)
	local, isLocal := conn.(*net.UnixConn)
	if !s.gate.Enter(key) {
		s.stats.ConnsRefused.Add(1)
		if isLocal {
			passfd.Refuse(local)
		} else {
			conn.Close()
		}
		return
	}
	s.stats.ConnsOpen.Add(1)
	s.stats.Conns.Add(1)
	var open atomic.Int32 // tasks that must end before the peer may have another connection
	open.Store(1)
	leave := func() {
		if open.Add(-1) == 0 {
			s.stats.ConnsOpen.Add(-1)
			s.gate.Leave(key)
		}
	}
	if isLocal {
		open.Add(1)
		conn = passfd.NewConn(local, who.UID, leave)
	}
	err := s.Start(conn, func(ctx context.Context) {
		defer leave()
		s.serveStream(ctx, conn, key, who)
	})
	if err != nil {
		leave()
	}
}

// streamPeer returns the peer of a connection.
func streamPeer(conn net.Conn) Peer {
	p := Peer{Netid: Netid(conn.RemoteAddr())}
	switch c := conn.(type) {
	case *net.TCPConn:
		addr := c.RemoteAddr().(*net.TCPAddr).AddrPort()
		p.Addr = unmap(addr)
	case *net.UnixConn:
		p.Name = "unnamed"
		p.UID = passfd.Unknown
		if cred, err := passfd.PeerOf(c); err == nil {
			p.UID, p.Proven = cred.Uid, true
		}
	default:
		p.Name = conn.RemoteAddr().String()
	}
	return p
}
