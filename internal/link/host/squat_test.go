package host_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/host"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
)

// squat takes the names of all blocks of ports on a side as another user: the claims, by stream sockets that
// listen or do not, and the names within the host. It keeps them until the test ends.
func squat(t *testing.T, p *vethtest.Pair, side, uid int, listen bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	err := p.In(side, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		return vethtest.As(uid, func() error {
			for b := range 64 {
				claim, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				t.Cleanup(func() { unix.Close(claim) })
				if err := unix.Bind(claim, &unix.SockaddrUnix{Name: fmt.Sprintf("@bobnet/%d/%04x/%d", at.Index, uint16(ethertype.Default), b)}); err != nil {
					return err
				}
				if listen {
					if err := unix.Listen(claim, 1); err != nil {
						return err
					}
				}
				block, err := net.ListenPacket("unixgram", fmt.Sprintf("@bobnet-host/%v/%04x/%d/%d", at.MAC, uint16(ethertype.Default), at.Index, b))
				if err != nil {
					return err
				}
				t.Cleanup(func() { block.Close() })
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openPorts opens a joined link that claims ports.
func openPorts(p *vethtest.Pair, ports transport.PortRange) (l *host.Link, err error) {
	err = p.In(0, func() error {
		link, err := ring.Open(context.Background(), &ring.Config{Interface: vethtest.Name, Slots: 64, Ports: ports})
		if err != nil {
			return err
		}
		if l, err = host.Join(link, nil); err != nil {
			link.Close()
		}
		return err
	})
	return l, err
}

// TestSquatted: a user without rights who has taken all names does not keep root's links from opening, with
// ports of their choice or any, nor from reaching each other within the host. Root's links keep ports from
// each other all the same, and give them back.
func TestSquatted(t *testing.T) {
	p := vethtest.New(t, 1500)
	squat(t, p, 0, 4001, true)
	open := func(t *testing.T, ports transport.PortRange) *host.Link {
		t.Helper()
		l, err := openPorts(p, ports)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	chosen := transport.PortRange{Lo: 5000, Hi: 5100}
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		links := linktest.Pair{A: open(t, transport.PortRange{}), B: open(t, chosen), C: open(t, transport.PortRange{}), SameHost: true}
		if l, err := openPorts(p, transport.PortRange{Lo: 5050, Hi: 5050}); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%v, %v: want that another link of root's has the ports", l, err)
		}
		return links
	})
	deaf := vethtest.New(t, 1500) // where the sockets do not listen
	squat(t, deaf, 0, 4001, false)
	p = deaf
	open(t, chosen)
	open(t, transport.PortRange{})
}

// TestClaimWithRights: a program of another user's that may open packet sockets keeps its ports, also from root.
func TestClaimWithRights(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	for outer := range outers {
		p := vethtest.New(t, 1500)
		var with transport.Link
		if err := p.In(0, func() (err error) {
			unix.Setfsuid(4001) // the sockets are that user's, and the thread keeps CAP_NET_RAW
			defer unix.Setfsuid(0)
			with, err = outers[outer]()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer with.Close()
		if l, err := openPorts(p, with.Info().Ports); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: %v, %v: want that another user has the ports", outer, l, err)
		}
	}
}
