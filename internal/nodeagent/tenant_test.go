package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// patience bounds what tests wait for.
const patience = 30 * time.Second

// echoName is what the server in namespace 1 is called.
const echoName = "bobnet://echo"

// serveEcho has streams that come to a NIC in namespace 1 echoed.
func serveEcho(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	var nic *vipl.NIC
	err := p.In(1, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Spin: -1})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	h, err := stream.Open(t.Context(), &stream.Config{NIC: nic})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	l, err := (&stream.ListenConfig{Host: h}).Listen(t.Context(), echoName)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
}

// tenantRole opens a NIC and prints its driver and ports, or why it has none. To "echo N" it
// answers when N bytes have come back from the server, and to "long" when long frames pass.
func tenantRole(commands *bufio.Scanner) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != unix.EPERM {
		unix.Close(fd)
		return fmt.Errorf("packet socket: %v: the process has rights", err)
	}
	nic, err := vipl.Open(context.Background(), &vipl.Config{Interface: vethtest.Name, Spin: -1})
	if err != nil {
		fmt.Println("no NIC:", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	defer nic.Close()
	q := nic.Query()
	fmt.Printf("%s %d %d\n", q.Driver, q.Ports.Lo, q.Ports.Hi)
	var conn *stream.Conn
	for commands.Scan() {
		if commands.Text() == "long" { // after "echo"
			for end := time.Now().Add(patience); !sendsLong(nic); {
				if err := echo(conn, 1); err != nil {
					return err
				}
				if time.Now().After(end) {
					return errors.New("no long frames pass")
				}
			}
			fmt.Println("long frames pass")
			continue
		}
		var n int
		if _, err := fmt.Sscanf(commands.Text(), "echo %d", &n); err != nil {
			return err
		}
		if conn == nil {
			h, err := stream.Open(context.Background(), &stream.Config{NIC: nic})
			if err != nil {
				return err
			}
			defer h.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if conn, err = (&stream.Dialer{Host: h}).Dial(ctx, echoName); err != nil {
				return err
			}
			defer conn.Close()
		}
		if err := echo(conn, n); err != nil {
			return err
		}
		fmt.Println("echoed")
	}
	return nil
}

// sendsLong reports whether a connection has found out that long frames reach its peer.
func sendsLong(nic *vipl.NIC) bool {
	s := nic.Snapshot()
	return slices.ContainsFunc(s.VIs, func(v vipl.VISnapshot) bool { return v.FrameData > s.Attributes.NativeMTU })
}

// echo writes n bytes in pieces, and reads each back.
func echo(c *stream.Conn, n int) error {
	c.SetDeadline(time.Now().Add(patience))
	piece, back := make([]byte, 4096), make([]byte, 4096)
	for sent := 0; sent < n; sent += len(piece) {
		binary.BigEndian.PutUint64(piece, uint64(sent))
		if _, err := c.Write(piece); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, back); err != nil {
			return err
		}
		if !bytes.Equal(piece, back) {
			return fmt.Errorf("at %d something else came back", sent)
		}
	}
	return nil
}

// allow lets in the two users of the tests.
const allow = "user:65534, group:65533"

// TestTenants: programs of two ordinary users open NICs, get blocks of their own, and speak
// with another host. One whose user is not let in is told so; without an agent, too.
func TestTenants(t *testing.T) {
	p, path := vethtest.New(t, 1500), socketPath(t)
	_, line := play(t, p, 0, "tenant", alice, agent.EnvPath+"="+path)
	if !strings.Contains(line, "no agent at "+path) || !strings.Contains(line, "setcap cap_net_raw") {
		t.Errorf("without an agent: %s", line)
	}
	startAgent(t, p, 0, testConfig{Path: path, Allow: allow})
	serveEcho(t, p)
	var ports []string
	for _, uid := range []uint32{alice, bob} {
		c, line := play(t, p, 0, "tenant", uid, agent.EnvPath+"="+path)
		if !strings.HasPrefix(line, "ring+agent+host ") {
			t.Fatalf("user %d: %s", uid, line)
		}
		ports = append(ports, line)
		if got := c.say("echo 400000"); got != "echoed" {
			t.Errorf("user %d: %s", uid, got)
		}
	}
	if ports[0] == ports[1] {
		t.Errorf("both have %s", ports[0])
	}
	if _, line := play(t, p, 0, "tenant", 65532, agent.EnvPath+"="+path); !strings.Contains(line, "user 65532 is not allowed") {
		t.Errorf("a user who is not let in: %s", line)
	}
}

// hostileRole gets sockets, prints its ports and answers to commands with what comes of them.
func hostileRole(commands *bufio.Scanner) error {
	lease, err := agent.Open(context.Background(), agent.Path(), agent.Wish{Interface: vethtest.Name, Long: alwaysLong})
	if err != nil {
		return err
	}
	defer lease.Close()
	s := lease.Station
	fds := s.Given
	fmt.Println(s.Ports.Lo)
	for commands.Scan() {
		var what string
		var arg int
		fmt.Sscan(commands.Text(), &what, &arg)
		switch what {
		case "widen":
			fmt.Println(widen(fds))
		case "send":
			fmt.Println(forge(fds[0], s.Index, s.Ports.Lo, uint16(arg), s.MAC))
		case "heard":
			fmt.Println(heard(fds, s.Index))
		case "leave": // its ports, not its packet sockets
			lease.Close()
			s.Release()
			fmt.Println("left")
		case "show":
			fmt.Println(showing(commands.Text(), s.Interface, fds[0]))
		}
	}
	return nil
}

// floodRole connects to the agent as often as it can, and sends nothing.
func floodRole(commands *bufio.Scanner) error {
	for range 300 {
		c, err := net.Dial("unix", agent.Path())
		if err != nil {
			return err
		}
		defer c.Close()
	}
	fmt.Println("flooded")
	commands.Scan()
	return nil
}

func packetAddress(index int, protocol uint16) *unix.SockaddrLinklayer {
	return &unix.SockaddrLinklayer{Ifindex: index, Protocol: protocol<<8 | protocol>>8}
}

// frameFrom returns a frame to all stations, whose payload is a number.
func frameFrom(mac ethertype.MAC, typ, dst, src uint16, number byte) []byte {
	f := bytes.Repeat([]byte{0xff}, 6)
	f = append(f, mac[:]...)
	f = binary.BigEndian.AppendUint16(f, typ)
	f = append(f, ethertype.Version, 0, 0, 0)
	f = binary.BigEndian.AppendUint16(f, dst)
	f = binary.BigEndian.AppendUint16(f, src)
	f = append(f, make([]byte, ethertype.HeaderSize-len(f))...)
	return append(f, number)
}

func indexOf(name string) (int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return i.Index, nil
}

// askRole asks the agent whether this process may have anything, and prints the answer.
func askRole(*bufio.Scanner) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: agent.Path(), Net: "unix"})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if err := agent.Write(c, &agent.Request{Version: agent.Version, Tells: true}); err != nil {
		return err
	}
	var r agent.Reply
	if _, err := agent.Read(c, &r, agent.MaxAnswer); err != nil {
		return err
	}
	fmt.Printf("%q\n", r.Refusal)
	return nil
}

// TestGroups: a user is judged by the groups that the kernel knows of his process, which are in
// no file here, as those of a directory service are in none, and by no others.
func TestGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	const user, group, other = 4_000_000_001, 4_000_000_002, 4_000_000_003
	many := make([]uint32, 3000)
	for i := range many {
		many[i] = 3_000_000_000 + uint32(i)
	}
	path := socketPath(t)
	policy, err := ParsePolicy(fmt.Sprintf("group:%d, group:%d", group, alice))
	if err != nil {
		t.Fatal(err)
	}
	serving(t, Config{Path: path, Policy: func() (Policy, error) { return policy, nil }})
	for name, tt := range map[string]struct {
		cred syscall.Credential
		want agent.Refusal
	}{
		"the first":           {syscall.Credential{Uid: user, Gid: group}, ""},
		"a further one":       {syscall.Credential{Uid: user, Gid: other, Groups: []uint32{other, group}}, ""},
		"the last of many":    {syscall.Credential{Uid: user, Gid: other, Groups: append(many, group)}, ""},
		"none":                {syscall.Credential{Uid: user, Gid: other}, agent.Denied},
		"another one":         {syscall.Credential{Uid: user, Gid: other, Groups: []uint32{other}}, agent.Denied},
		"many others":         {syscall.Credential{Uid: user, Gid: other, Groups: many}, agent.Denied},
		"one in a file alone": {syscall.Credential{Uid: alice, Gid: other}, agent.Denied}, // nobody's, which the process does not have
	} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Dir, cmd.Stderr, cmd.Env = "/", os.Stderr, append(os.Environ(), roleEnv+"=ask", agent.EnvPath+"="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &tt.cred}
		out, err := cmd.Output()
		if want := fmt.Sprintf("%q", tt.want); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %s, %v, want %s", name, out, err, want)
		}
	}
}
