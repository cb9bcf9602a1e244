package rpcbind_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc/rpcbind"
)

// patience is how long a tool may take on a busy machine.
const patience = time.Minute

// isolatedEnv says to the test's own process that it is in namespaces of its own.
const isolatedEnv = "BOBNET_TEST_RPCBIND_NAMESPACES"

// isolated runs the test again in a process with a network and a /run of its own, so that
// it may have port 111 and rpcbind's socket. It reports whether it is that process.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) != "" {
		return true
	}
	for _, tool := range []string{"rpcinfo", "rpcbind", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%s: apt-get install rpcbind iproute2", tool)
		}
	}
	if os.Getuid() != 0 || exec.Command("unshare", "--net", "--mount", "true").Run() != nil {
		need.Skip(t, "root, and rights to make namespaces")
	}
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-c", `mount -t tmpfs none /run && ip link set lo up && exec "$0" "$@"`,
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// tool runs rpcinfo and returns what it prints.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "rpcinfo", args...).CombinedOutput()
	if err != nil {
		t.Errorf("rpcinfo %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// systemRPCBind starts Debian's rpcbind and waits until it answers.
func systemRPCBind(t *testing.T) {
	t.Helper()
	cmd := exec.Command("rpcbind", "-f", "-r")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	tick := time.NewTicker(10 * time.Millisecond) // the daemon does not say that it is ready
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		c, err := rpcbind.Local(t.Context(), nil)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// With the system's rpcbind a server registers there.
func TestToolsAndSystem(t *testing.T) {
	if !isolated(t) {
		return
	}
	systemRPCBind(t)
	askTools(t, false)
}

// Without one it serves program 100000 itself, and the tools do not see a difference.
func TestToolsAlone(t *testing.T) {
	if !isolated(t) {
		return
	}
	s := newProgram(t)
	if _, err := rpcbind.Announce(t.Context(), s, &rpcbind.Config{OnlySystem: true}); err == nil {
		t.Fatal("announced where nobody is to announce to")
	}
	askTools(t, true)
}

// askTools announces a server and looks at it through rpcinfo and through clients.
func askTools(t *testing.T, serving bool) {
	s := newProgram(t)
	for _, network := range []string{"tcp", "udp"} {
		if _, err := s.Listen(network, ":0"); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &rpcbind.Config{Server: rpcbind.ServerConfig{RemoteCalls: true}}
	a, err := rpcbind.Announce(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a.Serving() != serving {
		t.Errorf("rpcbind runs here: %v", a.Serving())
	}
	list := []string{"-l", "127.0.0.1", fmt.Sprint(testProg), fmt.Sprint(testVers)}
	if out := tool(t, list...); !strings.Contains(out, "tcp") || !strings.Contains(out, "udp") {
		t.Errorf("rpcinfo -l: %s", out)
	}
	s.AddEndpoint(vrpc.Endpoint{Netid: "vmmc", Addr: place("02:00:00:00:00:01/7/8")})
	if err := a.Update(t.Context(), s); err != nil {
		t.Error(err)
	}
	if serving { // the system's would not answer any more: see the package's comment
		tool(t, list...)
	}
	lookByTools(t)
	callThere(t, serving)
	second(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if c, err := rpcbind.Local(t.Context(), nil); err == nil {
		defer c.Close()
		if _, err := c.Addr(t.Context(), testProg, testVers, "tcp"); serving || !errors.Is(err, rpcbind.ErrNotRegistered) {
			t.Errorf("after the end: %v", err)
		}
	} else if !serving {
		t.Error(err)
	}
}

func lookByTools(t *testing.T) {
	prog, vers := fmt.Sprint(testProg), fmt.Sprint(testVers)
	for _, args := range [][]string{{"-p"}, {"-p", "127.0.0.1"}, {"-s"}, {"127.0.0.1"}, {}} {
		if out := tool(t, args...); !strings.Contains(out, prog) || !strings.Contains(out, "100000") {
			t.Errorf("rpcinfo %v does not show program %s:\n%s", args, prog, out)
		}
	}
	for _, args := range [][]string{
		{"-T", "tcp", "127.0.0.1", prog, vers}, {"-T", "udp", "127.0.0.1", prog, vers}, {"-T", "tcp", "127.0.0.1", prog},
		{"-T", "tcp6", "::1", prog, vers}, {"-T", "udp6", "::1", prog, vers},
		{"-u", "127.0.0.1", prog, vers}, {"-t", "127.0.0.1", prog, vers}, {"-T", "tcp", "127.0.0.1", "100000", "4"},
	} {
		if out := tool(t, args...); !strings.Contains(out, "ready and waiting") {
			t.Errorf("rpcinfo %v: %s", args, out)
		}
	}
	if out := tool(t, "-m"); !strings.Contains(out, "RPCBIND") {
		t.Errorf("rpcinfo -m: %s", out)
	}
}

// callThere finds the program through rpcbind and calls it.
func callThere(t *testing.T, serving bool) {
	for network, host := range map[string]string{"tcp": "127.0.0.1", "udp": "127.0.0.1", "tcp6": "::1", "udp6": "::1"} {
		c, err := rpcbind.DialProgram(t.Context(), network, host, testProg, testVers, nil)
		if err != nil {
			t.Errorf("%s: %v", network, err)
			continue
		}
		var res word
		if err := c.Call(t.Context(), 1, &word{4}, &res); err != nil || res.n != 8 {
			t.Errorf("%s: %d, %v", network, res.n, err)
		}
		c.Close()
	}
	c, err := rpcbind.Local(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if addr, err := c.Addr(t.Context(), testProg, testVers, "vmmc"); err != nil || addr != "02:00:00:00:00:01/7/8" {
		t.Errorf("vmmc: %q, %v", addr, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var res word
	answers := 0
	err = rpcbind.Broadcast(ctx, nil, testProg, testVers, 1, &word{21}, &res, func(rpcbind.Answer) bool {
		answers++
		return false
	}, nil)
	if err != nil || answers != 1 || res.n != 42 {
		t.Errorf("broadcast: %d answers, %d, %v", answers, res.n, err)
	}
}

// second is another server of the machine: it finds the rpcbind that the first has found or
// become, its own program gets in, and one that is there already does not, unless told to.
func second(t *testing.T) {
	s := vrpc.NewServer(nil)
	defer s.Close()
	if _, err := s.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(&vrpc.Program{Number: testProg + 1, Version: 1}); err != nil {
		t.Fatal(err)
	}
	a, err := rpcbind.Announce(t.Context(), s, nil)
	if err != nil || a.Serving() {
		t.Fatalf("%v, serving: %v", err, a.Serving())
	}
	other := vrpc.NewServer(nil)
	defer other.Close()
	if _, err := other.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := other.Register(&vrpc.Program{Number: testProg + 1, Version: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := rpcbind.Announce(t.Context(), other, nil); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("a program that is there already: %v", err)
	}
	if _, err := rpcbind.Announce(t.Context(), other, &rpcbind.Config{Replace: true}); err != nil {
		t.Error(err)
	}
}

// place is the address of a transport that the tools do not know.
type place string

func (p place) Network() string { return "vmmc" }
func (p place) String() string  { return string(p) }
