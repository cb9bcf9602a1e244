package nodeagent

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"golang.org/x/sys/unix"
)

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
		if refused := strings.Contains(line, "no user has more than 2"); refused != (i == 2) {
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
