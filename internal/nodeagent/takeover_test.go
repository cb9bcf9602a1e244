package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// claimName is that of the claim on a block, without the NUL that the kernel has before it.
func claimName(index int, b int) string {
	return fmt.Sprintf("bobnet/%d/%04x/%d", index, uint16(ethertype.Default), b)
}

// bound returns a Unix socket of a type that is bound to just these bytes, and listens if it
// can.
func bound(typ int, name string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	raw := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	for i := range len(name) {
		raw.Path[i] = int8(name[i])
	}
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&raw)), unsafe.Offsetof(raw.Path)+uintptr(len(name)))
	if errno != 0 {
		unix.Close(fd)
		return -1, errno
	}
	if err := unix.Listen(fd, 1); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// pretend makes what looks like the claim on a block, by a way that has a name, and is it if
// nobody else has the block and the way is "claim".
func pretend(way string, index, b int) (fd int, err error) {
	name := claimName(index, b)
	switch way {
	case "claim":
		return bound(unix.SOCK_STREAM, "\x00"+name)
	case "datagrams":
		return bound(unix.SOCK_DGRAM, "\x00"+name)
	case "longer":
		return bound(unix.SOCK_STREAM, "\x00"+name+"\x00")
	case "file":
		dir, err := os.MkdirTemp("", "claim")
		if err != nil {
			return -1, err
		}
		defer os.RemoveAll(dir)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "@"+filepath.Dir(name)), 0o700), os.Chdir(dir)); err != nil {
			return -1, err
		}
		defer os.Chdir("/")
		return bound(unix.SOCK_STREAM, "@"+name)
	}
	return -1, fmt.Errorf("no way %q: %w", way, unix.EINVAL)
}

// heldRequest asks for a block that sockets hold.
func heldRequest(s iface.Interface, b int) *agent.Request {
	lo := uint16(b) * agent.BlockSize
	return &agent.Request{Version: agent.Version, Interface: s.Name, Index: s.Index, MAC: s.MAC.String(), EtherType: ethertype.Default,
		Ports: transport.PortRange{Lo: lo, Hi: lo + agent.BlockSize - 1}, Held: true}
}

// show shows the agent a packet socket, and what looks like the claim on a block. It returns
// what comes of it: "taken", or why not.
func show(s iface.Interface, packet int, way string, b int) string {
	fd, err := pretend(way, s.Index, b)
	if err != nil {
		return err.Error()
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: agent.Path(), Net: "unix"})
	if err != nil {
		return err.Error()
	}
	if err := agent.Write(c, heldRequest(s, b), packet, fd); err != nil {
		return err.Error()
	}
	var reply agent.Reply
	fds, err := agent.Read(c, &reply, agent.MaxRequest)
	agent.CloseAll(fds)
	switch {
	case err != nil:
		return err.Error()
	case reply.Refusal != "":
		c.Close()
		unix.Close(fd)
		return string(reply.Refusal)
	}
	return "taken" // the connection and the claim stay
}

// showing is hostileRole's answer to "show WAY BLOCK".
func showing(command string, s iface.Interface, packet int) string {
	words := strings.Fields(command)
	b, err := strconv.Atoi(words[len(words)-1])
	if err != nil || len(words) != 3 {
		return fmt.Sprintf("%q: want show WAY BLOCK", command)
	}
	return show(s, packet, words[1], b)
}

// hostile starts a program that gets sockets of its own, and wants its ports to be from lo on.
func hostile(t *testing.T, p *vethtest.Pair, path string, uid uint32, lo string) *child {
	t.Helper()
	c, line := play(t, p, 0, "hostile", uid, agent.EnvPath+"="+path)
	if line != lo {
		t.Fatalf("user %d has ports from %s, want %s", uid, line, lo)
	}
	return c
}

// says has a program answer to a command, and wants what it says.
func (c *child) says(want, format string, args ...any) {
	c.t.Helper()
	if got := c.say(format, args...); got != want {
		c.t.Errorf("%s: %q, want %q", fmt.Sprintf(format, args...), got, want)
	}
}

// sends makes a program send one of forge's frames, and wants that it passes.
func (c *child) sends(number int) {
	c.t.Helper()
	if got := c.send(number); got != "sent" {
		c.t.Errorf("frame %d: %q, want that it is sent", number, got)
	}
}

// send makes a program send one of forge's frames. It returns what comes of it: "sent", "dropped"
// by the guard, of which the kernel says nothing to the program, or an error.
func (c *child) send(number int) string {
	c.t.Helper()
	before := c.drops()
	got := c.say("send %d", number)
	if c.drops() > before {
		return "dropped"
	}
	return got
}

// drops returns how many frames the guard of the program's namespace has dropped. It counts while
// a program sends.
func (c *child) drops() (n uint64) {
	c.t.Helper()
	err := c.pair.In(c.side, func() error {
		var conn nftables.Conn
		chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
		for _, chain := range chains {
			rules, failed := conn.GetRules(chain.Table, chain)
			err = errors.Join(err, failed)
			for _, rule := range rules {
				if counter, is := rule.Exprs[0].(*expr.Counter); is && chain.Table.Name == tableName {
					n += counter.Packets
				}
			}
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// TestTakeover: a program that has sockets of the agent's, and shows them with what looks like
// the claim on another's ports, does not get these, whether the other has them still or has left
// its claim and keeps its sockets. The other sends as before, the first does not send as it.
func TestTakeover(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	victim := hostile(t, p, path, bob, "1024")
	thief := hostile(t, p, path, alice, "2048")
	for _, way := range []string{"file", "datagrams", "longer"} {
		thief.says(string(agent.Invalid), "show %s 1", way)
		victim.sends(ownFrame)
	}
	victim.says("left", "leave 0")
	thief.says(string(agent.Invalid), "show claim 1")
	victim.sends(ownFrame)
	thief.sends(ownFrame)
	if got := thief.send(portOfOther); got == "sent" {
		t.Error("it sends from ports that are not its own")
	}
}

// TestShownBeyondBounds: ports that a program has claimed by itself are not its own, also when the agent
// starts again: it does not get more than its bounds by them.
func TestShownBeyondBounds(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	cfg := testConfig{Path: path, Allow: allow, MaxBlocks: 2}
	a := startAgent(t, p, 0, cfg)
	c := hostile(t, p, path, alice, "1024")
	c.says(string(agent.Invalid), "show claim 7")
	a.kill()
	awaitPrograms(t, startAgent(t, p, 0, cfg), "user 65534 ports 1024..2047 answers false") // it has nothing to say
	c.says(string(agent.Invalid), "show claim 9")
}

// TestRestartAtBounds: programs that have as many blocks as a user may are known to the next
// agent, also to one whose table somebody has removed, and send as before.
func TestRestartAtBounds(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	cfg := testConfig{Path: path, Allow: allow, MaxBlocks: 1}
	a := startAgent(t, p, 0, cfg)
	programs := []*child{hostile(t, p, path, alice, "1024"), hostile(t, p, path, bob, "2048")}
	const list = "user 65534 ports 1024..2047 answers false; user 65533 ports 2048..3071 answers false"
	awaitPrograms(t, a, list)
	for _, removed := range []bool{false, true} {
		a.kill()
		if removed {
			if err := p.In(0, removeTable); err != nil {
				t.Fatal(err)
			}
		}
		a = startAgent(t, p, 0, cfg)
		awaitPrograms(t, a, list)
		for _, c := range programs {
			c.sends(ownFrame)
			if got := c.send(portOfOther); got == "sent" {
				t.Error("it sends from ports that are not its own")
			}
		}
	}
}

// removeTable does what nft delete table netdev bobnet-agent does.
func removeTable() error {
	var conn nftables.Conn
	conn.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyNetdev})
	return conn.Flush()
}

// TestShownFromElsewhere: a claim that is held in another network namespace, where anybody may
// hold it who can make one, is none, and packet sockets from there are none, whatever their mark.
func TestShownFromElsewhere(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow, Unguarded: true})
	const b = 60
	var at iface.Interface
	open := func(fds *[2]int) (err error) { // a packet socket and a claim
		if fds[0], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err == nil {
			fds[1], err = pretend("claim", at.Index, b)
		}
		return err
	}
	var here, there [2]int
	err := p.In(0, func() (err error) {
		if at, err = iface.Find(vethtest.Name); err == nil {
			err = open(&here)
		}
		return err
	})
	if err := errors.Join(err, p.In(1, func() error { return open(&there) })); err != nil {
		t.Fatal(err)
	}
	defer agent.CloseAll(append(here[:], there[:]...))
	body, err := json.Marshal(heldRequest(at, b))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		fds  []int
		want agent.Refusal
	}{
		"both from here":           {[]int{here[0], here[1]}, ""},
		"a claim from there":       {[]int{here[0], there[1]}, agent.Invalid},
		"a packet socket of there": {[]int{there[0], here[1]}, agent.Invalid},
	} {
		if r, err := request(t, path, framed(body), tt.fds...); err != nil || r.Refusal != tt.want {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, tt.want)
		}
	}
}

// awaitPrograms asks an agent until its programs are these.
func awaitPrograms(t *testing.T, c *child, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); runtime.Gosched() {
		if got = c.say("programs"); got == want {
			return
		}
	}
	t.Fatalf("the agent's programs are %q, want %q", got, want)
}

// TestRestart: agents are killed and started again under programs with traffic. These do not
// notice, the next agent knows them, and gives others other ports. What they may send is
// judged as before.
func TestRestart(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	cfg := testConfig{Path: path, Allow: allow}
	a := startAgent(t, p, 0, cfg)
	serveEcho(t, p)
	var tenants []*child
	var list []string
	for i, uid := range []uint32{alice, bob} {
		c, line := play(t, p, 0, "tenant", uid, agent.EnvPath+"="+path)
		lo := 1024 * (i + 1)
		if want := fmt.Sprintf("ring+agent+host %d %d", lo, lo+1023); line != want {
			t.Fatalf("user %d has %s, want %s", uid, line, want)
		}
		list = append(list, fmt.Sprintf("user %d ports %d..%d answers true", uid, lo, lo+1023))
		tenants = append(tenants, c)
	}
	awaitPrograms(t, a, strings.Join(list, "; "))
	for range 3 {
		for _, c := range tenants {
			fmt.Fprintln(c.in, "echo 400000")
		}
		a.kill()
		a = startAgent(t, p, 0, cfg)
		awaitPrograms(t, a, strings.Join(list, "; "))
		for _, c := range tenants {
			if got := c.line(); got != "echoed" {
				t.Fatal(got)
			}
		}
	}
	hostile, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	if line != "3072" {
		t.Errorf("a third program has ports from %s", line)
	}
	if got := hostile.send(portOfOther); got == "sent" {
		t.Error("it can send from another's port")
	}
	if got := hostile.send(ownFrame); got != "sent" {
		t.Errorf("it cannot send from its own: %s", got)
	}
}

// TestDeath: the ports of a program that is killed are free at once, whether an agent runs or
// not, and whoever has its sockets still can no longer send from them when another has the
// ports.
func TestDeath(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	first, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	if line != "1024" {
		t.Fatalf("ports from %s", line)
	}
	if got := first.say("leave 0"); got != "left" { // it keeps the packet sockets
		t.Fatal(got)
	}
	second, line := play(t, p, 0, "hostile", bob, agent.EnvPath+"="+path)
	if line != "1024" {
		t.Fatalf("the next program has ports from %s, want those that were left", line)
	}
	if got := first.send(ownFrame); got == "sent" {
		t.Error("the first can still send from its ports")
	}
	if got := second.send(ownFrame); got != "sent" {
		t.Errorf("the second cannot send: %s", got)
	}
	second.kill()
	if _, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path); line != "1024" {
		t.Errorf("after a kill ports are from %s", line)
	}
}

// TestSilentProgram: a program that is stopped is found not to answer, and holds up nobody.
func TestSilentProgram(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	a := startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	var tenants []*child
	for _, uid := range []uint32{alice, bob} {
		c, line := play(t, p, 0, "tenant", uid, agent.EnvPath+"="+path)
		if !strings.HasPrefix(line, "ring+agent") {
			t.Fatal(line)
		}
		tenants = append(tenants, c)
	}
	const of = "user 65534 ports 1024..2047 answers %v; user 65533 ports 2048..3071 answers true"
	awaitPrograms(t, a, fmt.Sprintf(of, true))
	if err := tenants[0].Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitPrograms(t, a, fmt.Sprintf(of, false))
	if err := tenants[0].Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitPrograms(t, a, fmt.Sprintf(of, true))
}

// TestBounds: a user gets no more blocks than allowed, and one who makes many connections
// keeps nobody out.
func TestBounds(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow, MaxBlocks: 2})
	for i := range 3 {
		_, line := play(t, p, 0, "tenant", alice, agent.EnvPath+"="+path)
		if refused := strings.Contains(line, "the maximum is 2"); refused != (i == 2) {
			t.Errorf("NIC %d: %s", i, line)
		}
	}
	if _, line := play(t, p, 0, "flood", alice, agent.EnvPath+"="+path); line != "flooded" {
		t.Error(line)
	}
	if _, line := play(t, p, 0, "tenant", bob, agent.EnvPath+"="+path); !strings.HasPrefix(line, "ring+agent") {
		t.Errorf("another user, during the flood: %s", line)
	}
}

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
	if _, line := play(t, p, 0, "echo", alice, agent.EnvPath+"="+path); !strings.Contains(line, "the maximum is 3") {
		t.Errorf("a fourth NIC of a user who may have three: %s", line)
	}
}
