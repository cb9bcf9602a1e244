package nodeagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/lingertest"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func alwaysLong(iface.Interface) bool { return true }

// widen tries all that would let sockets receive or send more. It returns "refused" if
// nothing does.
func widen(fds []int) string {
	all := []unix.SockFilter{{Code: unix.BPF_RET, K: 1 << 18}}
	for i, fd := range fds {
		for what, err := range map[string]error{
			"attach a filter": unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &all[0]}),
			"detach it":       unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0),
			"unlock it":       unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 0),
			"set a mark":      unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 0),
		} {
			if !errors.Is(err, unix.EPERM) {
				return fmt.Sprintf("socket %d: %s: %v", i, what, err)
			}
		}
	}
	return "refused"
}

// The frames that forge sends, by their numbers. Only the own one may pass.
const (
	ownFrame = iota
	portOfOther
	portOfAll
	otherMAC
	otherType
	otherVersion
	pastQdisc
	throughLoopback
	otherProtocol
	withoutEthernet
	longFromOther
	longOwn
	forgedEnd
)

// forge sends a frame from a station with a port, which is true or not.
func forge(fd, index int, port, number uint16, mac ethertype.MAC) string {
	const typ = uint16(ethertype.Default)
	to, protocol := index, typ
	f := frameFrom(mac, typ, 1024, port, byte(number))
	switch number {
	case portOfOther:
		f = frameFrom(mac, typ, 1024, port+agent.BlockSize, byte(number))
	case portOfAll:
		f = frameFrom(mac, typ, 1024, ethertype.PortAll, byte(number))
	case otherMAC:
		mac[5]++
		f = frameFrom(mac, typ, 1024, port, byte(number))
	case otherType:
		f = frameFrom(mac, unix.ETH_P_IP, 1024, port, byte(number))
	case otherVersion:
		f[framing.OffsetVersion]++
	case pastQdisc: // which is where a filter of tc would be
		f = frameFrom(mac, typ, 1024, port+agent.BlockSize, byte(number))
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
		defer unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 0)
	case throughLoopback:
		to = 1
	case otherProtocol: // which is what the kernel would segment it by
		protocol = unix.ETH_P_IPV6
	case withoutEthernet:
		f = f[:framing.OffsetVersion]
	case longFromOther:
		f = lengthened(frameFrom(mac, typ, 1024, port+agent.BlockSize, byte(number)))
		protocol = unix.ETH_P_IPV6
	case longOwn: // which would pass, if the guard could judge it
		f = lengthened(f)
		protocol = unix.ETH_P_IPV6
	}
	device, err := net.InterfaceByIndex(to)
	if err == nil {
		err = sendPacket(fd, to, device.Name, protocol, f, 0, nil)
	}
	if err != nil {
		return err.Error()
	}
	return "sent"
}

// lengthened returns a frame with the headers of a long one.
func lengthened(f []byte) []byte {
	begin := append(append([]byte(nil), f...), make([]byte, ethertype.HeaderSize)...)
	long := make([]byte, ethertype.EthernetSize+framing.LongHeader)
	framing.PutLong(long, begin, len(f))
	return append(long, f[ethertype.EthernetSize:]...)
}

// TestForged: of what a program sends by sockets of the agent's, only frames pass that are its
// own, also where they would not pass tc, and on other interfaces.
func TestForged(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	if err := p.In(0, func() error {
		return netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}})
	}); err != nil {
		t.Fatal(err)
	}
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	sniffers := [2]int{sniff(t, p, 1, vethtest.Name), sniff(t, p, 0, "lo")}
	c, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	if _, err := strconv.Atoi(line); err != nil {
		t.Fatal(line)
	}
	if got := c.say("widen 0"); got != "refused" {
		t.Error(got)
	}
	if got := c.send(ownFrame); got != "sent" {
		t.Errorf("a frame of its own: %s", got)
	}
	for number := ownFrame + 1; number < forgedEnd; number++ {
		if got := c.send(number); got == "sent" {
			t.Errorf("forged frame %d was sent", number)
		}
	}
	if got := c.send(ownFrame); got != "sent" {
		t.Errorf("a frame of its own after the others: %s", got)
	}
	for seen := 0; seen < 2; {
		if number := next(t, sniffers[0]); number != ownFrame {
			t.Fatalf("frame %d has passed", number)
		}
		seen++
	}
	if err := unix.SetNonblock(sniffers[1], true); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(sniffers[1], make([]byte, 100)); err == nil {
		t.Errorf("%d bytes have passed through the loopback", n)
	}
}

// TestRulesFlushed: when somebody has removed all rules of nftables, the agent makes its own again, and
// programs may send what they might before and nothing else.
func TestRulesFlushed(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	c, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	if _, err := strconv.Atoi(line); err != nil {
		t.Fatal(line)
	}
	if err := p.In(0, func() error {
		var conn nftables.Conn
		conn.FlushRuleset()
		return conn.Flush()
	}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); c.send(portOfOther) == "sent"; {
		if time.Now().After(end) {
			t.Fatal("forged frames are sent for 30 s")
		}
	}
	if got := c.send(ownFrame); got != "sent" {
		t.Errorf("a frame of its own: %s", got)
	}
}

// TestUnguarded: without the guard programs may send anything, and receive no more than with
// it.
func TestUnguarded(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow, Unguarded: true})
	c, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	if line != "1024" {
		t.Fatal(line)
	}
	if got := c.say("widen 0"); got != "refused" {
		t.Error(got)
	}
	if got := c.send(portOfOther); got != "sent" {
		t.Error(got)
	}
}

// TestUnguardedLong: where the kernel does not judge what is sent, tenants send long frames.
func TestUnguardedLong(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow, Unguarded: true})
	serveEcho(t, p)
	c, _ := play(t, p, 0, "tenant", alice, agent.EnvPath+"="+path)
	c.says("echoed", "echo 4096")
	c.says("long frames pass", "long")
}

// sniff returns a socket that receives all frames of an interface of a side.
func sniff(t *testing.T, p *vethtest.Pair, side int, name string) (fd int) {
	t.Helper()
	err := p.In(side, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		index, err := indexOf(name)
		if err == nil {
			err = unix.Bind(fd, packetAddress(index, unix.ETH_P_ALL))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	tv := unix.NsecToTimeval(int64(patience / time.Nanosecond))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	return fd
}

// next returns the number of the next frame that is one of forge's.
func next(t *testing.T, fd int) byte {
	t.Helper()
	buf := make([]byte, 200)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		// Others are such as those by which IPv6 looks for neighbours.
		if n > ethertype.HeaderSize && buf[0] == 0xff && buf[6] == vethtest.MACs[0][0] {
			return buf[n-1]
		}
	}
}

// heard binds sockets to all there is to hear, and returns the number of the first frame that
// one of them receives.
func heard(fds []int, index int) string {
	polls := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		if err := bindPacket(fd, index, unix.ETH_P_ALL); err != nil {
			return err.Error()
		}
		polls[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	fmt.Println("bound")
	for {
		if _, err := unix.Poll(polls, int(patience/time.Millisecond)); errors.Is(err, unix.EINTR) {
			continue
		}
		for i, fd := range fds {
			buf := make([]byte, 200)
			if n, err := unix.Read(fd, buf); err == nil && n > 0 {
				return fmt.Sprintf("socket %d frame %d", i, buf[n-1])
			}
		}
		return "nothing"
	}
}

// TestOthersFrames: a program that binds its sockets to everything receives what is to its
// ports, and nothing that is to others' or of another EtherType, nor what another program of
// the host sends to a port of the same number elsewhere.
func TestOthersFrames(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	c, line := play(t, p, 0, "hostile", alice, agent.EnvPath+"="+path)
	port, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(line)
	}
	if got := c.say("heard 0"); got != "bound" {
		t.Fatal(got)
	}
	outgoing, out := sniff(t, p, 0, vethtest.Name), sniff(t, p, 1, vethtest.Name)
	other := ethertype.MAC{2, 9, 9, 9, 9, 9}
	const typ = uint16(ethertype.Default)
	if _, err := unix.Write(outgoing, frameFrom(other, typ, uint16(port), uint16(port)+agent.BlockSize, 4)); err != nil {
		t.Fatal(err)
	}
	for _, f := range [][]byte{
		frameFrom(other, typ, uint16(port)+agent.BlockSize, 1, 1),
		frameFrom(other, unix.ETH_P_IP, uint16(port), 1, 2),
		frameFrom(other, typ, uint16(port), 1, 3),
	} {
		if _, err := unix.Write(out, f); err != nil {
			t.Fatal(err)
		}
	}
	got := c.line()
	if got != "socket 0 frame 3" && got != "socket 1 frame 3" && got != "socket 2 frame 3" {
		t.Errorf("it heard %s", got)
	}
}

// TestLingering: a program whose request is refused passes sockets that take for ever to close, with a
// request and behind it. The agent serves others, and ends.
func TestLingering(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	s := serving(t, Config{Path: path, Policy: func() (Policy, error) { return Policy{all: true}, nil }})
	body, err := json.Marshal(&agent.Request{Version: agent.Version + 1, Held: true})
	if err != nil {
		t.Fatal(err)
	}
	pass := func(request []byte) *net.UnixConn {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		fds := []int{lingertest.Socket(t), lingertest.Hidden(t)}
		if _, _, err := c.WriteMsgUnix(request, unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		c.WriteMsgUnix(request, unix.UnixRights(fds...), nil) // nobody asks for it, or has left
		passfd.Promptly(func() { agent.CloseAll(fds) })       // maybe the last
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range 3 {
		refused := pass(framed(body))
		refused.SetReadDeadline(time.Now().Add(patience))
		if n, err := refused.Read(make([]byte, 1)); err != nil || n == 0 {
			t.Fatalf("the request has no answer: %v", err)
		}
		pass([]byte{0}) // half a request
		answers(t, path)
	}
	over := make(chan error, 1)
	go func() { over <- s.Close() }()
	select {
	case <-over:
	case <-time.After(patience):
		t.Error("the agent does not end")
	}
}
