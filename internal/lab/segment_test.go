package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"golang.org/x/sys/unix"
)

// TestSegment: every rank has what the documentation promises, and the very
// first frame after New, a full-size broadcast, reaches everybody.
func TestSegment(t *testing.T) {
	for _, cfg := range []Config{
		{N: 1}, {N: 2}, {N: 2, Topology: Bridge}, {N: 3},
		{N: 2, MTU: 1500}, {N: 3, MTU: 1500}, {N: 3, MTU: 9000}, {N: 2, MTU: 68},
	} {
		t.Run(fmt.Sprintf("%d ranks MTU %d %v", cfg.N, cfg.MTU, cfg.Topology), func(t *testing.T) {
			l := newLab(t, cfg)
			checkBroadcast(t, l)
			for rank := range l.Size() {
				if err := l.Exec(rank, func() error { return checkInterface(l, rank) }); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
			if cfg.MTU != 68 { // IPv4 needs more for a connection to be pleasant
				checkTCP(t, l)
			}
		})
	}
}

// checkInterface looks at bob0 of the calling thread's namespace.
func checkInterface(l *Lab, rank int) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(all) != 2 {
		return fmt.Errorf("interfaces %v, want lo and %s", all, Interface)
	}
	for _, ifi := range all {
		if ifi.Flags&net.FlagUp == 0 || ifi.Flags&net.FlagRunning == 0 {
			return fmt.Errorf("%s is not up: %v", ifi.Name, ifi.Flags)
		}
	}
	bob, err := net.InterfaceByName(Interface)
	if err != nil {
		return err
	}
	if bob.MTU != l.MTU() || bob.HardwareAddr.String() != l.MAC(rank).String() {
		return fmt.Errorf("MTU %d, MAC %v: want %d, %v", bob.MTU, bob.HardwareAddr, l.MTU(), l.MAC(rank))
	}
	addrs, err := bob.Addrs()
	if err != nil {
		return err
	}
	want := l.Addr(rank).String() + "/16"
	if len(addrs) != 1 || addrs[0].String() != want {
		return fmt.Errorf("addresses %v, want only %s", addrs, want)
	}
	return nil
}

// rawSocket opens a packet socket on bob0 of rank.
func rawSocket(t *testing.T, l *Lab, rank int) (fd int, to *unix.SockaddrLinklayer) {
	t.Helper()
	const proto = uint16(ethertype.Default>>8 | ethertype.Default&0xff<<8) // network order
	err := l.Exec(rank, func() error {
		bob, err := net.InterfaceByName(Interface)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		to = &unix.SockaddrLinklayer{Protocol: proto, Ifindex: bob.Index}
		limit := unix.NsecToTimeval(int64(5 * time.Second))
		return errors.Join(unix.Bind(fd, to), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, to
}

func checkBroadcast(t *testing.T, l *Lab) {
	t.Helper()
	fds := make([]int, l.Size())
	var to *unix.SockaddrLinklayer
	for rank := range fds {
		fd, addr := rawSocket(t, l, rank)
		if fds[rank] = fd; rank == 0 {
			to = addr
		}
	}
	frame := make([]byte, ethertype.EthernetSize+l.MTU())
	for i := range frame {
		frame[i] = byte(i)
	}
	mac := l.MAC(0)
	copy(frame, ethertype.Broadcast[:])
	copy(frame[6:], mac[:])
	frame[12], frame[13] = byte(ethertype.Default>>8), byte(ethertype.Default&0xff)
	if err := unix.Sendto(fds[0], frame, 0, to); err != nil {
		t.Fatalf("sending %d bytes: %v", len(frame), err)
	}
	got := make([]byte, len(frame)+1)
	for rank := 1; rank < l.Size(); rank++ {
		n, _, err := unix.Recvfrom(fds[rank], got, 0)
		if err != nil || !slices.Equal(got[:n], frame) {
			t.Fatalf("rank %d received %d bytes, %v; want the %d bytes that rank 0 sent", rank, n, err, len(frame))
		}
	}
}

// checkTCP connects to the last rank's loopback from a thread inside it.
func checkTCP(t *testing.T, l *Lab) {
	t.Helper()
	last := l.Size() - 1
	var listener net.Listener
	err := l.Exec(last, func() (err error) {
		listener, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := l.Dial(t.Context(), last, uint16(listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestNothingLeft: Close lets go of every namespace and touches nothing else.
func TestNothingLeft(t *testing.T) {
	for _, cfg := range []Config{{N: 2}, {N: 3}} {
		before := links(t)
		l := newLab(t, cfg)
		if now := links(t); !slices.Equal(before, now) {
			t.Errorf("a lab changed the interfaces outside from %v to %v", before, now)
		}
		namespaces := l.namespaces(t)
		if len(leaktest.Namespaces(namespaces)) == 0 {
			t.Fatal("the check for references finds none in a living lab")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		leaktest.None(t, "namespaces", func() []string { return leaktest.Namespaces(namespaces) })
		if err := l.Exec(0, func() error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("Exec after Close: %v, want ErrClosed", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

// TestExecThreads: threads that were in a rank end; the others never were.
func TestExecThreads(t *testing.T) {
	l := newLab(t, Config{N: 2})
	outside, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("failure")
	for i := range 100 {
		if err := l.Exec(i%2, func() error { return failure }); err != failure {
			t.Fatalf("Exec returned %v, want the function's error", err)
		}
	}
	if err := l.Exec(0, func() error { runtime.Goexit(); return nil }); !errors.Is(err, errGoexit) {
		t.Errorf("Exec of a function that ends its goroutine: %v", err)
	}
	for _, rank := range []int{-1, 2} {
		if err := l.Exec(rank, func() error { return nil }); err == nil {
			t.Errorf("Exec took rank %d of 2", rank)
		}
	}
	leaktest.None(t, "threads in ranks", func() []string { return strays(outside) })
}

// strays returns this process's threads that are in a network namespace other
// than outside.
func strays(outside string) []string {
	var list []string
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		link, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net")
		if err == nil && link != outside {
			list = append(list, task.Name()+" is in "+link)
		}
	}
	return list
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{}, {N: -1}, {N: MaxRanks + 1}, {N: 3, Topology: Pair}, {N: 1, Topology: Pair},
		{N: 2, PerHost: -1}, {N: 2, PerHost: MaxRanks + 1}, {N: 2, PerHost: 2, Topology: Pair}, {N: 2, MTU: 67}, {N: 2, MTU: 65536}, {N: 2, MTU: -1},
	} {
		if l, err := New(t.Context(), cfg); err == nil {
			l.Close()
			t.Errorf("New took %+v", cfg)
		}
	}
	for _, top := range []Topology{Auto, Pair, Bridge} {
		if got, err := ParseTopology(top.String()); got != top || err != nil {
			t.Errorf("ParseTopology(%q) = %v, %v", top, got, err)
		}
	}
	if _, err := ParseTopology("star"); err == nil {
		t.Error("ParseTopology took star")
	}
}
