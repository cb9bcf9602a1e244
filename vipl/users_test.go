package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

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
