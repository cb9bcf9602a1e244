package share_test

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// knock connects with the card at a side as a user, and returns how often it is let in. The
// connections stay until the test ends.
func knock(t *testing.T, p *vethtest.Pair, side, uid, times int) (welcome int) {
	t.Helper()
	err := p.In(side, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		return vethtest.As(uid, func() error {
			for range times {
				conn, err := runsocket.Dial("unix", share.Control(at))
				if err != nil {
					return err
				}
				t.Cleanup(func() { conn.Close() })
				conn.SetReadDeadline(time.Now().Add(time.Minute))
				line, err := bufio.NewReader(conn).ReadString('\n')
				if err != nil {
					return err
				}
				if !strings.Contains(line, "Refused") {
					welcome++
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return welcome
}

// TestSeats: programs of one user do not have all seats of a card, and those that are refused have
// none.
func TestSeats(t *testing.T) {
	const most = 16
	for any, want := range map[bool]int{true: most, false: 0} {
		p := vethtest.New(t, 1500)
		card, _ := serveUsers(t, p, 0, any)
		if got := knock(t, p, 0, 4321, 100); got != want {
			t.Errorf("any user %v: %d programs of a user are let in, want %d", any, got, want)
		}
		if programs, _, _ := card.Stats(); programs != want {
			t.Errorf("any user %v: %d seats are taken, want %d", any, programs, want)
		}
		attach(t, p, 0)
	}
}

// TestKnocksEnd: nothing is kept of programs that were refused.
func TestKnocksEnd(t *testing.T) {
	p := vethtest.New(t, 1500)
	serveUsers(t, p, 0, false)
	const knocks = 100
	if got := knock(t, p, 0, 4321, knocks); got != 0 {
		t.Errorf("%d programs are let in", got)
	}
	kept := func() int {
		stacks := make([]byte, 1<<22)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "share.(*Desk).Serve.func")
	}
	for end := time.Now().Add(10 * time.Second); kept() > knocks/4; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are kept", kept())
		}
	}
}

// TestSquatted: a user who has taken the abstract names of a card and its ports does not keep root
// from serving it, nor root's programs from having ports.
func TestSquatted(t *testing.T) {
	p := vethtest.New(t, 1500)
	if err := p.In(0, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		return vethtest.As(4321, func() error {
			squatter, err := net.Listen("unix", runsocket.Abstract(share.Control(at)))
			if err != nil {
				return err
			}
			t.Cleanup(func() { squatter.Close() })
			for b := range 64 {
				name := fmt.Sprintf("@bobnet-host/%v/%04x/card/%d/%d", at.MAC, uint16(ethertype.Default), at.Index, b)
				block, err := net.ListenPacket("unixgram", name)
				if err != nil {
					return err
				}
				t.Cleanup(func() { block.Close() })
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	serve(t, p, 0)
	attach(t, p, 0)
}
