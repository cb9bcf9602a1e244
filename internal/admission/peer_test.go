package admission

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestPeerOf: on one host a peer is a user, by each kind of connection.
func TestPeerOf(t *testing.T) {
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"tcp", ":0"}, {"unix", filepath.Join(t.TempDir(), "sock")}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil && at[1] == "[::1]:0" {
			continue // no IPv6 here
		}
		if err != nil {
			t.Fatal(err)
		}
		to := l.Addr().String()
		if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			to = fmt.Sprintf("127.0.0.1:%d", a.Port)
		}
		c, err := net.Dial(at[0], to)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := PeerOf(s), fmt.Sprintf("user %d", os.Getuid()); got != want {
			t.Errorf("%v: the peer is %q, want %q", at, got, want)
		}
		c.Close()
		s.Close()
		l.Close()
	}
}

// TestPeerAtListenersPort: a client on another host is no user of this one, even if it uses the port at which a
// process here listens.
func TestPeerAtListenersPort(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: l.Addr().(*net.TCPAddr).Port}
	if uid, err := userOf(from, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}); err == nil {
		t.Errorf("%v is of user %d", from, uid)
	}
}

// TestPeerOfOtherAddress: a user stays the same peer if a process uses another address of the host.
func TestPeerOfOtherAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, for a network namespace of its own")
	}
	done := make(chan struct{})
	go func() { // on a thread in a network namespace of its own, which ends with this goroutine
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		for _, address := range []string{"10.1.1.1/32", "10.2.2.2/32"} {
			addr, failed := netlink.ParseAddr(address)
			err = errors.Join(err, failed, netlink.AddrAdd(lo, addr))
		}
		if err != nil {
			t.Error(err)
			return
		}
		l, err := net.Listen("tcp", "10.1.1.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 2, 2, 2)}}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		s, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		if got, want := PeerOf(s), fmt.Sprintf("user %d", os.Getuid()); got != want {
			t.Errorf("the peer is %q, want %q", got, want)
		}
	}()
	<-done
}
