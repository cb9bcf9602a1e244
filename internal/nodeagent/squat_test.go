package nodeagent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// squatterRole takes the names of all blocks of ports: the claims, and the names within the host.
func squatterRole(commands *bufio.Scanner) error {
	at, err := iface.Find(vethtest.Name)
	if err != nil {
		return err
	}
	for b := range 64 {
		claim, err := net.Listen("unix", fmt.Sprintf("@bobnet/%d/%04x/%d", at.Index, uint16(ethertype.Default), b))
		if err != nil {
			return err
		}
		defer claim.Close()
		near, err := net.ListenPacket("unixgram", fmt.Sprintf("@bobnet-host/%v/%04x/%d/%d", at.MAC, uint16(ethertype.Default), at.Index, b))
		if err != nil {
			return err
		}
		defer near.Close()
	}
	fmt.Println("all taken")
	for commands.Scan() {
	}
	return nil
}

// echoRole opens a NIC and prints its driver and address. To an address it answers whether the NIC there
// echoes.
func echoRole(commands *bufio.Scanner) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Interface: vethtest.Name, XDP: ring.Off, Spin: -1})
	if err != nil {
		fmt.Println("no NIC:", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	defer nic.Close()
	fmt.Println(nic.Query().Driver, nic.Addr())
	for commands.Scan() {
		to, err := ethertype.ParseAddr(commands.Text())
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err = nic.Echo(ctx, to, 100)
			cancel()
		}
		fmt.Println(err)
	}
	return nil
}

// TestSquatted: a process of a user without rights has taken all names of ports. The agent's tenants and
// root's programs open NICs all the same, and those of one user reach each other within the host. An agent
// that starts again takes over what they hold, and counts nothing that the squatter has.
func TestSquatted(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	cfg := testConfig{Path: path, Allow: allow, MaxBlocks: 3}
	const stranger = 65532
	if _, line := play(t, p, 0, "squatter", stranger); line != "all taken" {
		t.Fatal(line)
	}
	a := startAgent(t, p, 0, cfg)
	var list []string
	open := func(uid uint32, driver string) (c *child, addr string) {
		c, line := play(t, p, 0, "echo", uid, agent.EnvPath+"="+path)
		addr, ok := strings.CutPrefix(line, driver+" ")
		if !ok {
			t.Fatalf("user %d: %s", uid, line)
		}
		if driver == "ring+agent+host" {
			at, _ := ethertype.ParseAddr(addr)
			list = append(list, fmt.Sprintf("user %d ports %d..%d answers true", uid, at.Port, at.Port+1023))
		}
		return c, addr
	}
	for _, user := range []struct {
		uid    uint32
		driver string
	}{{alice, "ring+agent+host"}, {bob, "ring+agent+host"}, {0, "ring+host"}} {
		first, at := open(user.uid, user.driver)
		second, other := open(user.uid, user.driver)
		if at == other {
			t.Fatalf("two NICs are at %s", at)
		}
		if got := first.say("%s", other) + second.say("%s", at); got != "<nil><nil>" {
			t.Errorf("user %d: %s", user.uid, got)
		}
	}
	awaitPrograms(t, a, strings.Join(list, "; "))
	a.kill()
	a = startAgent(t, p, 0, cfg)
	awaitPrograms(t, a, strings.Join(list, "; "))
	if _, line := play(t, p, 0, "echo", alice, agent.EnvPath+"="+path); !strings.HasPrefix(line, "ring+agent+host ") {
		t.Errorf("a third NIC of a user who may have three: %s", line)
	}
	if _, line := play(t, p, 0, "echo", alice, agent.EnvPath+"="+path); !strings.Contains(line, "no user has more than 3") {
		t.Errorf("a fourth NIC of a user who may have three: %s", line)
	}
}
