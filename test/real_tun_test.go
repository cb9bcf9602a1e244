package test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/seal"
	"golang.org/x/sys/unix"
)

// tunnel is a bobnet tun that runs at a host of a lab, with the address 10.9.0.(host+1).
func tunnel(t *testing.T, l *lab.Lab, host int, flags ...string) *player {
	t.Helper()
	bobnet := filepath.Join(commands(t), "bobnet")
	p := playOne(t, l, host, &exec.Cmd{Path: bobnet, Args: append([]string{"bobnet", "tun", "--addr", tunAddr(host) + "/24"}, flags...)})
	if line := p.line(t); !strings.HasPrefix(line, "interface bobnet0, addresses "+tunAddr(host)+"/24, MTU 65000, ") {
		t.Fatalf("bobnet tun says %q", line)
	}
	return p
}

func tunAddr(host int) string { return fmt.Sprintf("10.9.0.%d", host+1) }

// interfaces returns the names of a host's interfaces but for the loopback.
func interfaces(t *testing.T, l *lab.Lab, host int) (names []string) {
	t.Helper()
	if err := l.Exec(host, func() error {
		all, err := net.Interfaces()
		for _, i := range all {
			if i.Flags&net.FlagLoopback == 0 {
				names = append(names, i.Name)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// needTUN skips a test where the kernel makes no TUN devices.
func needTUN(t *testing.T) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		need.Skip(t, "TUN devices: /dev/net/tun: %v", err)
	}
	unix.Close(fd)
}

// TestTunVerb: two bobnet tun carry pings, and end when they are told to, in order or not, and
// leave no interface behind. One that is started anew has the address again.
func TestTunVerb(t *testing.T) {
	needTUN(t)
	ping := tool(t, "ping", "iputils-ping")
	l := newLab(t, lab.Config{N: 2, MTU: 1500})
	other := tunnel(t, l, 1)
	for _, end := range []struct {
		signal unix.Signal
		code   int
	}{{unix.SIGKILL, 137}, {unix.SIGTERM, 0}, {unix.SIGINT, 0}} {
		p := tunnel(t, l, 0)
		if got := interfaces(t, l, 0); !slices.Equal(got, []string{lab.Interface, "bobnet0"}) {
			t.Errorf("the interfaces are %v", got)
		}
		for from := range 2 {
			if out, code := in(t, l, from, nil, ping, "-c", "2", "-i", "0.05", "-s", "20000", "-w", "30", tunAddr(1-from)); code != 0 {
				t.Errorf("ping from host %d: exit code %d\n%s", from, code, out)
			}
		}
		p.Signal(end.signal)
		if <-p.Done(); p.Code() != end.code {
			t.Errorf("%v: exit code %d, want %d: %s", end.signal, p.Code(), end.code, &p.stderr)
		}
		gone(t, l, 0)
	}
	other.Signal(unix.SIGINT)
	<-other.Done()
	gone(t, l, 1)
}

// TestTunKey: two bobnet tun with a key carry pings, and no frame of theirs is in the clear, as
// it is without; a third one that has no key reaches nobody.
func TestTunKey(t *testing.T) {
	needTUN(t)
	ping := tool(t, "ping", "iputils-ping")
	const said = "among us, or not" // as many bytes as ping repeats
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(seal.NewKey().Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--key", file}} {
		l := newLab(t, lab.Config{N: 3, MTU: 1500})
		heard := [2]func() heardFrames{hear(t, l, 1, said), hear(t, l, 2, said)}
		tunnel(t, l, 1, flags...)
		tunnel(t, l, 0, flags...)
		if out, code := in(t, l, 0, nil, ping, "-c", "2", "-i", "0.05", "-s", "200", "-w", "30", "-p", hex.EncodeToString([]byte(said)), tunAddr(1)); code != 0 {
			t.Errorf("ping with the flags %v: exit code %d\n%s", flags, code, out)
		}
		keyed := flags != nil
		for i, ask := range heard {
			if h := ask(); (h.sealed > 0) != keyed || (h.clear > 0) == keyed || keyed && h.said > 0 || !keyed && i == 0 && h.said == 0 {
				t.Errorf("host %d has heard of host 0 with the flags %v: %+v", i+1, flags, h)
			}
		}
		if !keyed {
			continue
		}
		tunnel(t, l, 2)
		if out, code := in(t, l, 2, nil, ping, "-c", "1", "-w", "30", tunAddr(0)); code == 0 || !strings.Contains(out, "Unreachable") {
			t.Errorf("ping without the key: exit code %d\n%s", code, out)
		}
	}
}

// heardFrames counts frames of Bobnet's: those that are sealed, those that are not, and those of
// all in which something is said.
type heardFrames struct{ sealed, clear, said int }

// hear has a host hear all frames that host 0 sends to others from now on. The result counts what
// has come.
func hear(t *testing.T, l *lab.Lab, host int, said string) (count func() heardFrames) {
	t.Helper()
	fd := -1
	err := l.Exec(host, func() (err error) {
		i, err := net.InterfaceByName(lab.Interface)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: i.Index, Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, uint16(ethertype.Default)))})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() (h heardFrames) {
		frame := make([]byte, ethertype.MaxFrame)
		for {
			n, err := unix.Read(fd, frame)
			if err != nil {
				return h
			}
			o, ok := framing.ParseOuter(frame[:n])
			if !ok || o.Src != l.MAC(0) || o.Dst == l.MAC(0) { // by what it sends itself a driver is measured
				continue
			}
			if _, sealed := framing.IsSealed(frame[:n]); sealed {
				h.sealed++
			} else {
				h.clear++
			}
			if bytes.Contains(frame[:n], []byte(said)) {
				h.said++
			}
		}
	}
}

// gone wants that a host has its bob0 alone, soon: the kernel removes an interface in the
// background when its process was killed.
func gone(t *testing.T, l *lab.Lab, host int) {
	t.Helper()
	leaktest.None(t, "interfaces", func() []string {
		return slices.DeleteFunc(interfaces(t, l, host), func(name string) bool { return name == lab.Interface })
	})
}

// TestTunRefused: bobnet tun says what it lacks, and what to do, and leaves no interface.
func TestTunRefused(t *testing.T) {
	needTUN(t)
	asRoot(t)
	setpriv := tool(t, "setpriv", "util-linux")
	bobnet := filepath.Join(commands(t), "bobnet")
	l := newLab(t, lab.Config{N: 2, MTU: 1500})
	tunnel(t, l, 1)
	verb := func(args ...string) []string { return append([]string{bobnet, "tun"}, args...) }
	good := []string{"--addr", "10.9.0.1/24"}
	for _, c := range []struct {
		argv []string
		says string
	}{
		{verb(), "such as 10.9.0.1/24"},
		{verb("--addr", "10.9.0.1"), "10.9.0.1: want an address"},
		{verb("--addr", "10.9.0.300/24"), "such as 10.9.0.1/24"},
		{verb("--addr", "224.0.0.1/24"), "not a host address"},
		{verb("--addr", "10.9.0.2/24"), l.MAC(1).String() + " answers to 10.9.0.2"},
		{verb("--addr", "10.9.0.1/24", "--mtu", "1000"), "want a number from 1280 to 65000"},
		{verb("--addr", "10.9.0.1/24", "--dev", lab.Interface), "interface bob0 already exists (choose another name with --dev"},
		{verb("--addr", "10.9.0.1/24", "--dev", "a-name-that-is-too-long"), "1 to 15 bytes"},
		{verb("--addr", "10.9.0.1/24", "--iface", "eth7"), "eth7"},
		{append([]string{"sh", "-c", `mount -t tmpfs none /dev/net && exec "$@"`, "sh"}, verb(good...)...), "no /dev/net/tun (load the module: modprobe tun"},
		{append([]string{setpriv, "--bounding-set", "-net_admin"}, verb(good...)...), "creating an interface needs CAP_NET_ADMIN (run as root"},
		{append([]string{setpriv, "--bounding-set", "-net_raw"}, verb(good...)...), "no permission for raw sockets"},
	} {
		out, code := in(t, l, 0, nil, c.argv...)
		if code == 0 || !strings.Contains(out, c.says) || strings.Contains(out, "goroutine") || strings.Contains(out, "interface bobnet0") {
			t.Errorf("%v: exit code %d, want %q in:\n%s", c.argv, code, c.says, out)
		}
		if got := interfaces(t, l, 0); !slices.Equal(got, []string{lab.Interface}) {
			t.Errorf("%v has left the interfaces %v", c.argv, got)
		}
	}
}

// beside is how many bytes each of two connections carries each way at least.
const beside = 8 << 20

// TestTunBeside: the kernel's own TCP over the addresses of the card goes on while a tun on the
// same card carries TCP, both ways, without a wrong byte: each goes on until both have carried
// what is wanted.
func TestTunBeside(t *testing.T) {
	needTUN(t)
	l := newLab(t, lab.Config{N: 2, MTU: 1500})
	for host := range 2 {
		tunnel(t, l, host)
	}
	var carried [2]atomic.Int64
	var all sync.WaitGroup
	for i, address := range []string{l.Addr(1).String(), tunAddr(1)} {
		conn := echoing(t, l, address)
		all.Go(func() {
			defer conn.Close()
			if err := carry(conn, byte(i), &carried[i], &carried[1-i]); err != nil {
				t.Errorf("TCP with %s, after %d and %d bytes: %v", address, carried[0].Load(), carried[1].Load(), err)
				carried[i].Store(beside) // the other may end
			}
		})
	}
	all.Wait()
	t.Logf("%d bytes each way by the card's own address, %d through the tun", carried[0].Load(), carried[1].Load())
}

// echoing has host 1 echo a connection to one of its addresses, which it returns; host 0 makes it.
func echoing(t *testing.T, l *lab.Lab, address string) (conn net.Conn) {
	t.Helper()
	var listener net.Listener
	err := l.Exec(1, func() (err error) {
		listener, err = net.Listen("tcp", address+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
			io.Copy(c, onlyReader{c}) // by this process, and not spliced
		}
	}()
	err = l.Exec(0, func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// onlyReader hides what else a connection can do.
type onlyReader struct{ io.Reader }

// carry sends blocks and wants them back, until this connection and the other one have carried
// what is wanted.
func carry(conn net.Conn, number byte, mine, others *atomic.Int64) error {
	block, back := make([]byte, 64<<10), make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i*7) ^ number
	}
	for round := byte(0); mine.Load() < beside || others.Load() < beside; round++ {
		block[0] = round
		if err := errors.Join(conn.SetDeadline(time.Now().Add(patience)), wrote(conn.Write(block)), wrote(io.ReadFull(conn, back))); err != nil {
			return err
		}
		if !bytes.Equal(block, back) {
			return errors.New("other bytes come back")
		}
		mine.Add(int64(len(block)))
	}
	return nil
}

func wrote(_ int, err error) error { return err }
