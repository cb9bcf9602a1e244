package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// oneHost opens NICs in one namespace: on one interface with each driver, and
// without an interface.
func oneHost(t *testing.T, run func(t *testing.T, open func() *vipl.NIC)) {
	for _, driver := range []string{"ring", "packet", "shm"} {
		t.Run(driver, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			run(t, func() *vipl.NIC {
				var n *vipl.NIC
				if err := p.In(0, func() (err error) {
					n, err = vipl.Open(t.Context(), &vipl.Config{Driver: driver, Interface: interfaceOf(driver)})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { n.Close() })
				return n
			})
		})
	}
}

// TestOneHost: NICs of one host connect and exchange messages of all sizes, in
// frames longer than the wire's, and so do VIs of one NIC.
func TestOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b := open(), open()
		for name, nics := range map[string][2]*vipl.NIC{"Two": {a, b}, "Self": {a, a}} {
			for _, level := range levels {
				attr := vipl.DefaultAttributes()
				attr.Reliability, attr.EnableRDMARead = level, level.Reliable()
				va, vb := join(t, nics, attr)
				if v := va.Remote(); v.MAC != a.Addr().MAC {
					t.Fatalf("%s: connected with %v", name, v)
				}
				for i, size := range []int{0, 1, 64, 5000, 60_000, 400_000} {
					if level == levels[0] && size > 300_000 {
						continue // more than a queue holds is lost
					}
					relay(t, va, vb, size, byte(i))
					relay(t, vb, va, size, byte(i+1))
				}
				once := func() uint64 { // frames, without those that a busy machine has it send again
					s := va.Snapshot()
					return s.TxFrames - s.Retransmits
				}
				frames := once()
				relay(t, va, vb, 60_000, 9)
				if got := once() - frames; got > 12 {
					t.Errorf("%s: %d frames for a message of 60,000 bytes", name, got)
				}
				va.Close()
				vb.Close()
			}
		}
	})
}

// relay sends a message and checks what arrives.
func relay(t *testing.T, from, to *vipl.VI, size int, fill byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	src, hs, err := from.NIC().AllocMem(max(size, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.NIC().DeregisterMem(hs)
	dst, hd, err := to.NIC().AllocMem(max(size, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer to.NIC().DeregisterMem(hd)
	for i := range src {
		src[i] = fill + byte(i)*3 + byte(i>>8)
	}
	if err := to.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: dst[:size], Handle: hd}}}); err != nil {
		t.Fatal(err)
	}
	if err := from.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: src[:size], Handle: hs}}}); err != nil {
		t.Fatal(err)
	}
	d, err := to.RecvWait(ctx)
	if err != nil || int(d.Length) != size || !bytes.Equal(dst[:size], src[:size]) {
		t.Fatalf("receive of %d bytes: %v (%v), the same: %t", size, err, to.Err(), bytes.Equal(dst[:size], src[:size]))
	}
	if _, err := from.SendWait(ctx); err != nil {
		t.Fatalf("send of %d bytes: %v (%v)", size, err, from.Err())
	}
}

// TestNamesOnOneHost: the name service reaches the host's other programs.
func TestNamesOnOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b, c := open(), open(), open()
		if err := b.Advertise("here", b.Addr()); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*vipl.NIC{a, c} {
			if got, err := n.Lookup(bg, "here"); err != nil || got != b.Addr() {
				t.Errorf("Lookup = %v, %v; want %v", got, err, b.Addr())
			}
		}
		if rtt, err := a.Echo(bg, c.Addr(), 1000); err != nil {
			t.Errorf("Echo: %v, %v", rtt, err)
		}
	})
}

// TestDepartureOnOneHost: the end of a NIC's link ends the VIs connected to its
// ports at once, and no others.
func TestDepartureOnOneHost(t *testing.T) {
	oneHost(t, func(t *testing.T, open func() *vipl.NIC) {
		a, b, c := open(), open(), open()
		toB, _ := join(t, [2]*vipl.NIC{a, b}, nil)
		toC, fromC := join(t, [2]*vipl.NIC{a, c}, nil)
		seam.Link(b).Close() // as the death of its process: nobody says good-bye
		if err := toB.PostRecv(&vipl.Descriptor{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		d, err := toB.RecvWait(ctx)
		var broken *vipl.ConnError
		if d == nil || !errors.As(toB.Err(), &broken) || !errors.Is(broken, vipl.ErrUnreachable) || broken.Detail != shm.ErrGone.Error() {
			t.Errorf("RecvWait: %v; VI: %v; want a ConnError that wraps ErrUnreachable and says that the link has told", err, toB.Err())
		}
		relay(t, toC, fromC, 100, 1)
	})
}

// TestWireOnly: without the way to its own host a NIC says so.
func TestWireOnly(t *testing.T) {
	p := vethtest.New(t, 1500)
	err := p.In(0, func() error {
		n, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, WireOnly: true})
		if err != nil {
			return err
		}
		defer n.Close()
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		if err := v.ConnectStart(ethertype.Addr{MAC: n.Addr().MAC, Port: 5}, nil); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("connect to the own host: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSelfInTheSimulator: VIs of one NIC talk over a simulated link, which
// hands nothing back itself, the same way each time.
func TestSelfInTheSimulator(t *testing.T) {
	run := func() (now int64) {
		w := newWorld(sim.Options{Seed: 1})
		w.node("alone", nil, func(n *vipl.NIC) error {
			l, err := n.Listen(0)
			if err != nil {
				return err
			}
			a, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			b, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := a.ConnectStart(l.Addr(), []byte("hello")); err != nil {
				return err
			}
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			if err := r.Accept(bg, b); err != nil {
				return err
			}
			for a.ConnectDone() != nil {
				n.Poll()
			}
			for i := range 50 {
				relay(t, a, b, i*2000, byte(i))
				relay(t, b, a, i*3, byte(i))
			}
			now = n.Now()
			return nil
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		return now
	}
	if first, second := run(), run(); first != second {
		t.Errorf("the same seed ended at %d ns, then at %d", first, second)
	}
}

// What the roles of this file are told.
const (
	namesEnv = "BOBNET_TEST_VIPL_NAMES" // of sockets to bind, separated by spaces
	atEnv    = "BOBNET_TEST_VIPL_AT"    // the address of a listener
)

// strangerID is the user of the other processes in these tests.
const strangerID = 4001

// playStranger returns a process of another user in the namespace of side 0.
func playStranger(t *testing.T, p *vethtest.Pair, role string, env ...string) *child {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be two users")
	}
	return play(t, role, func(c *exec.Cmd) error {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: strangerID, Gid: strangerID}}
		c.Path, c.Dir = "/proc/self/exe", "/" // go test builds where others cannot look
		return p.In(0, c.Start)
	}, env...)
}

// squatRole binds sockets in the abstract name space, as anybody can.
func squatRole() error {
	for _, name := range strings.Fields(os.Getenv(namesEnv)) {
		kind := unix.SOCK_STREAM // each kind has names of its own
		if strings.HasPrefix(name, "@bobnet-host/") {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Println("bound")
	select {}
}

// TestSquatter: a process of another user has bound names by which NICs claim ports, at
// the interface or within the host. A NIC of root's that asks for no ports gets ports that nobody has claimed
// at the interface; one that asks for those that the process has gets them, as that has no right to them.
func TestSquatter(t *testing.T) {
	for _, driver := range []string{"ring", "packet", "shm"} {
		for _, where := range []string{"interface", "host"} {
			t.Run(driver+"/"+where, func(t *testing.T) {
				t.Parallel()
				p := vethtest.New(t, 1500)
				squat(t, p, driver, where)
			})
		}
	}
}

func squat(t *testing.T, p *vethtest.Pair, driver, where string) {
	index := 0
	if err := p.In(0, func() error {
		ifi, err := net.InterfaceByName(vethtest.Name)
		if err == nil {
			index = ifi.Index
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const blocks = 3
	var names []string
	for b := 1; b <= blocks; b++ {
		name := fmt.Sprintf("@bobnet/%d/%04x/%d", index, uint16(ethertype.Default), b)
		if where == "host" {
			name = fmt.Sprintf("@bobnet-host/%v/%04x/%d/%d", vethtest.MACs[0], uint16(ethertype.Default), index, b)
		}
		names = append(names, name)
	}
	squatter := playStranger(t, p, "squat", namesEnv+"="+strings.Join(names, " "))
	if line, err := squatter.out.ReadString('\n'); err != nil || line != "bound\n" {
		t.Fatalf("%q, %v", line, err)
	}
	var wrapped []transport.PortRange
	open := func(ports transport.PortRange) (n *vipl.NIC, err error) {
		err = p.In(0, func() error {
			n, err = vipl.Open(t.Context(), &vipl.Config{Driver: driver, Interface: vethtest.Name, Ports: ports, Wrap: func(l transport.Link) transport.Link {
				wrapped = append(wrapped, l.Info().Ports)
				return l
			}})
			return err
		})
		return n, err
	}
	n, err := open(transport.PortRange{})
	if err != nil {
		t.Fatalf("three blocks of ports are taken: %v", err)
	}
	defer n.Close()
	want := blockPorts(1)
	if where == "interface" {
		want = blockPorts(blocks + 1)
	}
	if got := n.Query().Ports; got != want {
		t.Errorf("got the ports %v, want %v", got, want)
	}
	if len(wrapped) != 1 || wrapped[0] != want {
		t.Errorf("links with the ports %v were wrapped, want the one that is used", wrapped)
	}
	other, err := open(blockPorts(2))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	third, err := open(transport.PortRange{Lo: 2050, Hi: 2051})
	if err == nil {
		third.Close()
	}
	if says := "this process has claimed"; !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v: does not say %q", err, says)
	}
	for _, pair := range [][2]*vipl.NIC{{n, other}, {other, n}} {
		if _, err := pair[0].Echo(bg, pair[1].Addr(), 100); err != nil {
			t.Error(err)
		}
	}
}

// blockPorts returns the ports of a block.
func blockPorts(block uint16) transport.PortRange {
	return transport.PortRange{Lo: block * 1024, Hi: block*1024 + 1023}
}

// visitRole connects to the listener that atEnv says, by shared memory.
func visitRole() error {
	at, err := ethertype.ParseAddr(os.Getenv(atEnv))
	if err != nil {
		return err
	}
	n, err := vipl.Open(context.Background(), &vipl.Config{Driver: "shm"})
	if err != nil {
		return err
	}
	defer n.Close()
	v, err := n.CreateVI(&vipl.Attributes{ConnectTimeout: 500 * time.Millisecond}, nil, nil)
	if err != nil {
		return err
	}
	fmt.Println("visit:", v.Connect(bg, at, nil))
	return nil
}

// TestVisitor: a program of another user connects to a NIC on its host if that lets it
// in, and else learns what it would take.
func TestVisitor(t *testing.T) {
	for _, any := range []bool{false, true} {
		p := vethtest.New(t, 1500)
		var n *vipl.NIC
		if err := p.In(0, func() (err error) {
			n, err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm", AnyUser: any})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		l, err := n.Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(bg)
		served := make(chan error, 1)
		go func() {
			r, err := l.Wait(ctx)
			if err == nil {
				var v *vipl.VI
				if v, err = n.CreateVI(nil, nil, nil); err == nil {
					err = r.Accept(ctx, v)
				}
			}
			served <- err
		}()
		visitor := playStranger(t, p, "visit", atEnv+"="+l.Addr().String())
		line, err := visitor.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		refused := n.Snapshot().Link.Refused
		switch err := <-served; {
		case any && (line != "visit: <nil>\n" || err != nil || refused != 0):
			t.Errorf("let in: %q; the server: %v, %d refused", line, err, refused)
		case !any && (!strings.Contains(line, "Config.AnyUser") || !errors.Is(err, vipl.ErrTimeout) || refused == 0):
			t.Errorf("not let in: %q; the server: %v, %d refused", line, err, refused)
		}
	}
}

// TestWithoutRights connects NICs and sends a message by the drivers that need no
// rights, udp and shm, in a process that has none.
func TestWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		need.Skip(t, "root, to give up rights: the other tests of udp and shm have just run without")
	}
	c := play(t, "nobody", func(c *exec.Cmd) error {
		const id = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		c.Path, c.Dir = "/proc/self/exe", "/" // go test builds where others cannot look
		err := c.Start()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
			need.Skip(t, "root that may become another user: %v", err)
		}
		return err
	})
	if line, err := c.out.ReadString('\n'); err != nil || line != "done\n" {
		t.Errorf("the process said %q (%v)", line, err)
	}
}

// nobodyRole is what a process without rights does.
func nobodyRole() error {
	if fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err != unix.EPERM {
		unix.Close(fd)
		return fmt.Errorf("packet socket: %v: the process has rights", err)
	}
	for driver, interfaces := range map[string][2]string{"udp": {vethtest.Loopback(35), vethtest.Loopback(36)}, "shm": {}} {
		if err := oneLife(driver, interfaces); err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	fmt.Println("done")
	return nil
}

// oneLife opens two NICs, sends a message from one to the other and closes them.
func oneLife(driver string, interfaces [2]string) (err error) {
	var nics [2]*vipl.NIC
	for i := range nics {
		if nics[i], err = vipl.Open(context.Background(), &vipl.Config{Interface: interfaces[i], Driver: driver}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, nics[i].Close()) }()
	}
	a, b, err := meet(nics)
	if err != nil {
		return err
	}
	return oneMessage(a, b)
}

// syncedLog collects what is logged.
type syncedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// scarcities are limits of a process that keep it from making shared memory. Each impose reaches
// one until lift is called.
var scarcities = map[string]struct {
	errno  unix.Errno
	impose func(t *testing.T) (lift func())
}{
	"ulimit -f": {unix.EFBIG, func(t *testing.T) func() { return limit(t, unix.RLIMIT_FSIZE, shm.DefaultRing) }}, // one ring of two
	"ulimit -n": {unix.EMFILE, useUpDescriptors},
}

// limit sets a resource limit.
func limit(t *testing.T, resource int, cur uint64) (lift func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(resource, &before); err != nil {
		t.Fatal(err)
	}
	set := func(r unix.Rlimit) {
		if err := unix.Setrlimit(resource, &r); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: cur, Max: before.Max})
	return func() { set(before) }
}

// useUpDescriptors opens files until the process may not open one more.
func useUpDescriptors(t *testing.T) (lift func()) {
	t.Helper()
	raise := limit(t, unix.RLIMIT_NOFILE, 256)
	var fds []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() {
		raise()
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// TestShareTrouble: a process that can make no shared memory says so, with the remedy, where
// it would say that a peer does not answer. The log has it once.
func TestShareTrouble(t *testing.T) {
	for remedy, s := range scarcities {
		t.Run(remedy, func(t *testing.T) { shareTrouble(t, remedy, s.errno, s.impose) })
	}
}

func shareTrouble(t *testing.T, remedy string, errno unix.Errno, impose func(t *testing.T) (lift func())) {
	var lines syncedLog
	open := func() *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	a, b := open(), open()
	if err := b.Advertise("b", b.Addr()); err != nil {
		t.Fatal(err)
	}
	l, err := b.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	lift := sync.OnceFunc(impose(t))
	defer lift()
	connect := func() error {
		v, err := a.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		ctx, cancel := a.WithTimeout(bg, 200*time.Millisecond)
		defer cancel()
		return v.Connect(ctx, l.Addr(), nil)
	}
	lookup := func(d time.Duration) error {
		ctx, cancel := a.WithTimeout(bg, d)
		defer cancel()
		_, err := a.Lookup(ctx, "b")
		return err
	}
	for what, err := range map[string]error{"Lookup": lookup(200 * time.Millisecond), "Connect": connect()} {
		if !errors.Is(err, shm.ErrNoMemory) || !errors.Is(err, errno) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v; want ErrNoMemory and the remedy", what, err)
		}
	}
	if got := a.Obstacle(); !strings.Contains(got, remedy) {
		t.Errorf("Obstacle() = %q", got)
	}
	if err := shm.Try(); !errors.Is(err, shm.ErrNoMemory) {
		t.Errorf("Try: %v", err)
	}
	lift()
	if err := lookup(time.Minute); err != nil {
		t.Errorf("with the limit as it was: %v", err)
	}
	if got := a.Obstacle(); got != "" {
		t.Errorf("with the limit as it was: Obstacle() = %q", got)
	}
	a.Close()
	b.Close()
	if n := strings.Count(lines.b.String(), remedy); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, lines.b.String())
	}
}
