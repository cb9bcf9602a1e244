package nodeagent

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// tenantSockets is what a hostile tenant works with: the sockets that the agent gave it.
type tenantSockets struct {
	fds     []int
	at      iface.Interface
	port    uint16 // its first port
	attempt byte   // number of the attempt, which ends each frame
}

// attempts are ways to use options of packet(7) and socket(7) so that a frame leaves that the
// tenant may not send. Each returns a remark for a person.
var attempts = []struct {
	name string
	try  func(s *tenantSockets, fd int) string
}{
	{"checksum over the source port", func(s *tenantSockets, fd int) string { return s.checksum(fd, framing.OffsetSrcPort, false) }},
	{"the same past the queueing discipline", func(s *tenantSockets, fd int) string { return s.checksum(fd, framing.OffsetSrcPort, true) }},
	{"checksum over the source MAC", func(s *tenantSockets, fd int) string { return s.checksum(fd, framing.OffsetSrc+4, false) }},
	{"segments", (*tenantSockets).segments},
	{"a transmit ring that changes", (*tenantSockets).changingRing},
	{"a VLAN tag", (*tenantSockets).tagged},
	{"control messages", (*tenantSockets).controls},
	{"flags of sendmsg", (*tenantSockets).flags},
	{"bound elsewhere", (*tenantSockets).elsewhere},
	{"every option", (*tenantSockets).everyOption},
}

// optionsRole gets sockets, prints the number of its first port, and makes the attempts that it
// is asked for on each socket.
func optionsRole(commands *bufio.Scanner) error {
	lease, err := agent.Open(context.Background(), agent.Path(), agent.Wish{Interface: vethtest.Name, Long: alwaysLong})
	if err != nil {
		return err
	}
	defer lease.Close()
	at := lease.Station
	fmt.Println(at.Ports.Lo)
	for commands.Scan() {
		n, err := strconv.Atoi(commands.Text())
		if err != nil {
			return err
		}
		s := &tenantSockets{fds: at.Given, at: at.Interface, port: at.Ports.Lo, attempt: byte(n)}
		if n == len(attempts) {
			fmt.Println(s.send(s.fds[0], s.frame(s.port), uint16(ethertype.Default), 0, nil))
			continue
		}
		said := ""
		for _, fd := range s.fds {
			said += fmt.Sprintf("[%s]", attempts[n].try(s, fd))
		}
		fmt.Println(said)
	}
	return nil
}

// frame returns a frame of the tenant's own but for its source port.
func (s *tenantSockets) frame(port uint16) []byte {
	return frameFrom(s.at.MAC, uint16(ethertype.Default), 1024, port, s.attempt)
}

// forged returns a frame from a port of another tenant.
func (s *tenantSockets) forged() []byte { return s.frame(s.port + agent.BlockSize) }

// send sends a frame to the interface, by an address of the socket's kind.
func (s *tenantSockets) send(fd int, frame []byte, protocol uint16, flags int, control []byte) string {
	err := sendPacket(fd, s.at.Index, s.at.Name, protocol, frame, flags, control)
	return fmt.Sprint(err)
}

// checksum makes the kernel write a checksum at an offset of a genuine frame, so that it is
// another tenant's.
func (s *tenantSockets) checksum(fd, at int, bypass bool) string {
	if bypass {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return err.Error()
		}
		defer unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 0)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return err.Error()
	}
	defer unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 0)
	f := append(s.frame(s.port), 0, 0, s.attempt) // the two bytes before the last make the checksum what it is to be
	f[len(f)-4] = 0
	if len(f)%2 == 1 {
		f = append(f[:len(f)-1], 0, s.attempt)
	}
	sum := uint32(0)
	for i := at; i < len(f); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	const filler = framing.OffsetSrcPort + 4
	want := ^(s.port + agent.BlockSize)
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	need := uint32(want) + 0xffff - sum
	for need > 0xffff {
		need = need&0xffff + need>>16
	}
	binary.BigEndian.PutUint16(f[filler:], uint16(need))
	head := make([]byte, vnetHeader)
	head[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(head[6:], uint16(at))
	return s.send(fd, append(head, f...), uint16(ethertype.Default), 0, nil)
}

const vnetHeader = 10 // struct virtio_net_hdr

// segments sends frames that the kernel would cut into several, of every kind.
func (s *tenantSockets) segments(fd int) string {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return err.Error()
	}
	defer unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 0)
	taken := 0
	for _, kind := range []byte{1, 3, 4, 5} { // TCPv4, UDP, TCPv6, UDP_L4
		for _, protocol := range []uint16{uint16(ethertype.Default), unix.ETH_P_IP, unix.ETH_P_IPV6} {
			for _, long := range []bool{false, true} {
				f := s.frame(s.port)
				if long {
					f = lengthened(f)
				}
				for len(f) < 4000 {
					f = append(f, s.forged()...)
				}
				head := make([]byte, vnetHeader)
				head[0], head[1] = 1, kind
				binary.NativeEndian.PutUint16(head[2:], uint16(len(f)))
				binary.NativeEndian.PutUint16(head[4:], 1024)
				binary.NativeEndian.PutUint16(head[6:], ethertype.EthernetSize+20)
				binary.NativeEndian.PutUint16(head[8:], 16)
				if s.send(fd, append(head, f...), protocol, 0, nil) == "<nil>" {
					taken++
				}
			}
		}
	}
	return fmt.Sprintf("%d taken", taken)
}

// changes is how often changingRing tries.
const changes = 5000

// changingRing sends by a transmit ring, and changes the source port all the time.
func (s *tenantSockets) changingRing(fd int) string {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return err.Error()
	}
	const size = 1 << 16
	request := &unix.TpacketReq{Block_size: size, Block_nr: 1, Frame_size: 2048, Frame_nr: size / 2048}
	if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, request); err != nil {
		return err.Error()
	}
	defer unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &unix.TpacketReq{})
	ring, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err.Error()
	}
	defer unix.Munmap(ring)
	const data = 32 // TPACKET2_HDRLEN less the address
	f := s.frame(s.port)
	var ports []*uint32 // and what follows, which is 0
	for slot := 0; slot < size; slot += 2048 {
		copy(ring[slot+data:], f)
		ports = append(ports, (*uint32)(unsafe.Pointer(&ring[slot+data+framing.OffsetSrcPort])))
	}
	word := func(port uint16) uint32 {
		return binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, uint32(port)<<16))
	}
	own, other := word(s.port), word(s.port+agent.BlockSize)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 100 {
				for _, p := range ports {
					atomic.StoreUint32(p, other)
					atomic.StoreUint32(p, own)
				}
			}
		}
	}()
	taken := 0
	for i := range changes {
		slot := i % len(ports) * 2048
		hdr := (*unix.Tpacket2Hdr)(unsafe.Pointer(&ring[slot]))
		hdr.Len, hdr.Status = uint32(len(f)), 1 // TP_STATUS_SEND_REQUEST
		if unix.Sendto(fd, nil, 0, packetAddress(s.at.Index, uint16(ethertype.Default))) == nil {
			taken++
		}
	}
	close(stop)
	<-stopped
	return fmt.Sprintf("%d taken", taken)
}

// tagged sends another tenant's frame behind one or two VLAN tags.
func (s *tenantSockets) tagged(fd int) string {
	said := ""
	for _, typ := range []uint16{unix.ETH_P_8021Q, unix.ETH_P_8021AD} {
		f := s.forged()
		tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, typ), 0)
		f = append(append(append([]byte(nil), f[:framing.OffsetType]...), tag...), f[framing.OffsetType:]...)
		for _, protocol := range []uint16{typ, uint16(ethertype.Default), 0} {
			said = s.send(fd, f, protocol, 0, nil)
		}
	}
	return said
}

// controls sends another tenant's frame with control messages: a mark, a priority, a time.
func (s *tenantSockets) controls(fd int) string {
	unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string([]byte{1, 0, 0, 0, 0, 0, 0, 0}))
	said := ""
	for typ := range int32(100) {
		control := make([]byte, unix.CmsgSpace(8))
		hdr := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		hdr.Level, hdr.Type = unix.SOL_SOCKET, typ
		hdr.SetLen(unix.CmsgLen(4))
		s.send(fd, s.forged(), uint16(ethertype.Default), 0, control)
		hdr.SetLen(unix.CmsgLen(8))
		said = s.send(fd, s.forged(), uint16(ethertype.Default), 0, control)
	}
	return said
}

// flags sends another tenant's frame with each flag that there is.
func (s *tenantSockets) flags(fd int) string {
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
	said := ""
	for bit := range 31 {
		said = s.send(fd, s.forged(), uint16(ethertype.Default), 1<<bit|unix.MSG_DONTWAIT, nil)
	}
	return said
}

// elsewhere binds a socket to what it may be bound to, and sends another tenant's frame.
func (s *tenantSockets) elsewhere(fd int) string {
	said := ""
	for _, protocol := range []uint16{0, unix.ETH_P_ALL, unix.ETH_P_IP, unix.ETH_P_LOOP, uint16(ethertype.Default)} {
		for _, index := range []int{0, 1, s.at.Index} {
			bindPacket(fd, index, protocol)
			unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, s.at.Name)
			said = fmt.Sprint(unix.Send(fd, s.forged(), unix.MSG_DONTWAIT))
			for _, other := range []uint16{0, unix.ETH_P_ALL, protocol} {
				s.send(fd, s.forged(), other, unix.MSG_DONTWAIT, nil)
			}
		}
	}
	unix.Bind(fd, packetAddress(s.at.Index, 0))
	return said
}

// everyOption sets options of both levels at random, and sends frames between: another tenant's,
// and such as would be another's if the kernel took off a header first.
func (s *tenantSockets) everyOption(fd int) string {
	rng, set := rand.New(rand.NewPCG(1, uint64(fd))), map[[2]int]bool{}
	values := []int{0, 1, 2, 3, 10, 12, 255, 1500, 1 << 16, -1}
	forged := s.forged()
	f := s.frame(s.port)
	for range 3000 {
		level := []int{unix.SOL_PACKET, unix.SOL_SOCKET}[rng.IntN(2)]
		option := rng.IntN(40)
		if level == unix.SOL_SOCKET {
			option = rng.IntN(90)
		}
		if level == unix.SOL_SOCKET && option == unix.SO_DETACH_BPF {
			continue
		}
		value := values[rng.IntN(len(values))]
		if unix.SetsockoptInt(fd, level, option, value) == nil {
			set[[2]int{level, option}] = true
		}
		s.send(fd, forged, uint16(ethertype.Default), unix.MSG_DONTWAIT, nil)
		for _, skip := range []int{vnetHeader, 12} {
			head := make([]byte, skip)
			s.send(fd, append(head, forged...), uint16(ethertype.Default), unix.MSG_DONTWAIT, nil)
			head[0] = 1
			binary.NativeEndian.PutUint16(head[6:], framing.OffsetSrcPort)
			s.send(fd, append(head, f...), uint16(ethertype.Default), unix.MSG_DONTWAIT, nil)
		}
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NOFCS, 0)
	for option := range 40 { // as it was
		unix.SetsockoptInt(fd, unix.SOL_PACKET, option, 0)
	}
	return fmt.Sprintf("%d options", len(set))
}

// TestOptions: whatever options a tenant sets on the sockets that it was given, no frame arrives
// that is not from its MAC and its ports, with the interface's transmit offloads on and off, at
// the other end of a veth pair, and behind a bridge.
func TestOptions(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T) *vethtest.Pair{
		"veth":   func(t *testing.T) *vethtest.Pair { return vethtest.New(t, 1500) },
		"bridge": func(t *testing.T) *vethtest.Pair { return vethtest.NewBridged(t, 1500, 1500) },
	} {
		for _, offload := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, offloads %v", name, offload), func(t *testing.T) { testOptions(t, pair(t), offload) })
		}
	}
}

func testOptions(t *testing.T, p *vethtest.Pair, offload bool) {
	path := socketPath(t)
	if err := p.In(0, func() error { return setOffloads(vethtest.Name, offload) }); err != nil {
		t.Fatal(err)
	}
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	c, line := play(t, p, 0, "options", alice, agent.EnvPath+"="+path)
	port, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(line)
	}
	for n, a := range attempts {
		fd := sniff(t, p, 1, vethtest.Name)
		again := unix.Timeval{Sec: 1} // until the tenant's last frame is sent again: a bridge's port may not forward yet
		if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &again)); err != nil {
			t.Fatal(err)
		}
		remark := c.say("%d", n)
		seen, wrong := foreign(t, fd, uint16(port), func() {
			if got := c.say("%d", len(attempts)); got != "<nil>" {
				t.Errorf("%s: then a frame of its own: %s", a.name, got)
			}
		})
		t.Logf("%s: %s: %d frames arrived", a.name, remark, seen)
		if wrong > 0 {
			t.Errorf("%s: %d of %d frames that arrived are not the tenant's", a.name, wrong, seen)
		}
	}
}

// setOffloads switches what an interface does with frames that it sends.
func setOffloads(name string, on bool) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.Change(name, map[string]bool{"tx-checksum-ip-generic": on, "tx-tcp-segmentation": on, "tx-tcp6-segmentation": on, "tx-generic-segmentation": on, "tx-scatter-gather": on})
}

// foreign reads what arrives until the tenant's own last frame, which last makes it send, and
// counts the frames, and those of them that are from another MAC or from ports that are not in the
// block of port.
func foreign(t *testing.T, fd int, port uint16, last func()) (seen, wrong int) {
	t.Helper()
	last()
	buf := make([]byte, 1<<16)
	for end := time.Now().Add(patience); ; {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) && time.Now().Before(end) {
			last()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f := buf[:n]
		if n < ethertype.HeaderSize || f[0] != 0xff {
			continue // such as those by which IPv6 looks for neighbours
		}
		typ := binary.BigEndian.Uint16(f[framing.OffsetType:])
		if from := binary.BigEndian.Uint16(f[framing.OffsetSrcPort:]); ethertype.MAC(f[framing.OffsetSrc:]) != vethtest.MACs[0] ||
			typ != uint16(ethertype.Default) || f[framing.OffsetVersion] != ethertype.Version || from < port || from >= port+agent.BlockSize {
			wrong++
			if wrong == 1 {
				t.Logf("such as % x", f[:24])
			}
		} else if f[n-1] == byte(len(attempts)) {
			return seen, wrong
		}
		seen++
	}
}

// tellers is how many programs tell in the tests of memory, as many as a user may connect.
const tellers = 4 * DefaultMaxBlocks

// tell connects programs that tell, and say nothing.
func tell(t *testing.T, path string) (all []*net.UnixConn) {
	t.Helper()
	for range tellers {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		if err := agent.Write(c, &agent.Request{Version: agent.Version, Tells: true}); err != nil {
			t.Fatal(err)
		}
		var r agent.Reply
		if _, err := agent.Read(c, &r, agent.MaxRequest); err != nil || r.Refusal != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		all = append(all, c)
	}
	return all
}

// begun is the beginning of a message, of which many more bytes are announced than come.
func begun(announced, come int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(announced)), make([]byte, come)...)
}

// memory returns the bytes that this process has made room for, all told and those in use.
func memory() (all, used uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.TotalAlloc, m.HeapAlloc
}

// awaitLeft waits until no program is connected any more.
func awaitLeft(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(patience); len(s.Programs()) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d programs are connected still", len(s.Programs()))
		}
	}
}

// memoryServer is a server that lets everybody in.
func memoryServer(t *testing.T) (*Server, string) {
	path := filepath.Join(t.TempDir(), "sock")
	return serving(t, Config{Path: path, Policy: func() (Policy, error) { return Policy{all: true}, nil }}), path
}

// TestUnaskedMemory: programs that announce the longest messages, which nobody has asked for and
// which do not come, take no memory, and are shut out at once.
func TestUnaskedMemory(t *testing.T) {
	s, path := memoryServer(t)
	conns := tell(t, path)
	before, _ := memory()
	for _, c := range conns {
		if _, err := c.Write(begun(agent.MaxAnswer, 0)); err != nil {
			t.Fatal(err)
		}
	}
	awaitLeft(t, s)
	if after, _ := memory(); after-before > tellers*16<<10 {
		t.Errorf("%d announced messages have taken %d bytes", tellers, after-before)
	}
}

// TestAskedMemory: programs that are asked, announce long answers and do not send them, or not to
// their ends, take little memory, and are shut out when their time is over.
func TestAskedMemory(t *testing.T) {
	for name, come := range map[string]int{"nothing comes": 0, "half of it comes": agent.MaxText / 2} {
		t.Run(name, func(t *testing.T) {
			s, path := memoryServer(t)
			conns := tell(t, path)
			_, before := memory()
			var wg sync.WaitGroup
			for _, p := range s.Programs() {
				wg.Go(func() { p.Ask(agent.Metrics) })
			}
			message := begun(agent.MaxText, come)
			for _, c := range conns {
				c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // what fits the socket
				c.Write(message)
			}
			wg.Wait()
			if _, after := memory(); after > before+4<<20 {
				t.Errorf("%d answers that have begun take %d bytes", tellers, after-before)
			}
			for _, c := range conns {
				c.CloseWrite()
			}
			awaitLeft(t, s)
		})
	}
}

// TestSlowAnswer: an answer that has begun is waited for for a while, and no longer.
func TestSlowAnswer(t *testing.T) {
	s, path := memoryServer(t)
	c := tell(t, path)[0]
	var wg sync.WaitGroup
	for _, p := range s.Programs() {
		wg.Go(func() { p.Ask(agent.Metrics) })
	}
	wg.Wait()
	if _, err := c.Write(begun(1, 0)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); len(s.Programs()) == tellers; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a program that does not go on with its answer is connected still")
		}
	}
}
