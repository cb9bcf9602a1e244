// Package lingertest creates sockets whose close takes very long.
package lingertest

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Socket returns a TCP socket whose last close lingers for an hour, because its peer does not read
// the sent data. The caller closes it while other processes hold it, too. At the end of the test it
// no longer lingers.
func Socket(t testing.TB) (fd int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	err = unix.Connect(fd, &at)
	peer, failed := l.Accept()
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		peer.(*net.TCPConn).SetLinger(0)
		peer.Close()
	})
	for err == nil {
		_, err = unix.SendmsgN(fd, make([]byte, 1<<16), nil, nil, unix.MSG_DONTWAIT)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// Hidden returns a Unix socket whose queue holds such a TCP socket. The last close of the Unix
// socket closes the TCP socket.
func Hidden(t testing.TB) (fd int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	within := Socket(t)
	if err := unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(within), nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(within)
	unix.Close(pair[1])
	return pair[0]
}
