package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// background starts the command in namespace 0 of p until the test ends, and returns a
// function that waits for a line of its output which pattern matches.
func background(t *testing.T, p *vethtest.Pair, uid uint32, env []string, argv ...string) (await func(pattern string) []string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(argv[0], argv[1:]...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = "/", w, w, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := p.In(0, cmd.Start); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
	})
	return func(pattern string) []string {
		t.Helper()
		r.SetReadDeadline(time.Now().Add(30 * time.Second))
		for seen := ""; ; {
			line, err := lines.ReadString('\n')
			seen += line
			if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
				return m
			}
			if err != nil {
				t.Fatalf("%q: %v; it printed %s", argv, err, seen)
			}
		}
	}, cmd
}

// getInside reads a page of a server in namespace 0.
func getInside(t *testing.T, p *vethtest.Pair, addr, path string) (page string) {
	t.Helper()
	err := p.In(0, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", path)
		text, err := io.ReadAll(c)
		page = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestAgent: programs of an ordinary user get their sockets from bobnet agent, which shows
// the metrics of all, also of one of root's that has sockets of its own, and of what is above
// their NICs, also to bobnet top, names one that does not answer, and dumps what they say.
func TestAgent(t *testing.T) {
	bobnet, p := copyForAll(t), vethtest.New(t, 1500)
	path := publicDir(t) + "/sock"
	if err := p.In(0, func() error {
		return netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}})
	}); err != nil {
		t.Fatal(err)
	}
	said, server := background(t, p, 0, nil, bobnet, "-v", "agent", "--allow", fmt.Sprintf("user:%d", nobody), "--socket", path, "--metrics", "127.0.0.1:0")
	addr := said(`at=http://(\S+)/metrics`)[1]
	said("^agent at " + path)
	env := []string{agent.EnvPath + "=" + path}
	var programs [3]*exec.Cmd
	for i, uid := range []uint32{nobody, nobody, 0} {
		var daemon func(string) []string
		daemon, programs[i] = background(t, p, uid, env, bobnet, "daemon", "--iface", vethtest.Name, "--socket", fmt.Sprintf("@bobnet-test-%d-%d", os.Getpid(), i))
		daemon("^daemon of node")
	}
	label := func(i, port int) string {
		return fmt.Sprintf(`pid="%d",port="%d",program="bobnet",uid="%d"}`, programs[i].Process.Pid, port, nobody)
	}
	answers := func(i, port, n int) string {
		return fmt.Sprintf(`bobnet_agent_program_answers{interface="bob0",%s %d`, label(i, port), n)
	}
	awaitPage(t, p, addr, "/metrics", answers(0, 1024, 1), answers(1, 2048, 1),
		`bobnet_nic_transmit_frames_total{interface="bob0",`+label(0, 1024), `bobnet_nic_transmit_frames_total{interface="bob0",`+label(1, 2048))
	own := fmt.Sprintf(`pid="%d",port="3072",program="bobnet",uid="0"}`, programs[2].Process.Pid)
	awaitPage(t, p, addr, "/metrics", daemonOf(programs[0], nobody), daemonOf(programs[1], nobody), daemonOf(programs[2], 0), `bobnet_nic_transmit_frames_total{interface="bob0",`+own,
		fmt.Sprintf(`bobnet_agent_program_answers{interface="",pid="%d",port="",program="bobnet",uid="0"} 1`, programs[2].Process.Pid))
	if page := getInside(t, p, addr, "/metrics"); strings.Count(page, "\nbobnet_nic_mtu_bytes{") != len(programs) {
		t.Errorf("not each NIC is there once:\n%s", page)
	}
	if page := getInside(t, p, addr, "/debug/bobnet"); strings.Count(page, "\n  NIC bob0 ") != len(programs) {
		t.Errorf("not each NIC is dumped once:\n%s", page)
	}
	awaitTop(t, p, bobnet, addr, fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[0].Process.Pid, nobody), fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[1].Process.Pid, nobody),
		" ring+agent", " 3 stations, ", "rates of ")
	if err := programs[0].Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, p, addr, "/metrics", answers(0, 1024, 0), answers(1, 2048, 1), daemonOf(programs[1], nobody))
	awaitPage(t, p, addr, "/debug/bobnet", fmt.Sprintf("\nbobnet (process %d of user 0)\n  bobnet: process %[1]d at ", programs[2].Process.Pid), fmt.Sprintf("\nbobnet (process %d of user %d)\n", programs[1].Process.Pid, nobody), "\n  vmmc daemon of node ", fmt.Sprintf("does not answer: bobnet (process %d of user %d, ports 1024..2047 of bob0)", programs[0].Process.Pid, nobody), "\n  NIC bob0 ")
	if err := server.Process.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	said("^bobnet agent: 3 programs tell how they are, 2 NICs have its sockets")
}

// daemonOf is the beginning of the line in the metrics of an agent for the node of a program that
// is a daemon.
func daemonOf(program *exec.Cmd, uid uint32) string {
	return fmt.Sprintf(`bobnet_daemon_processes{node="02:00:00:00:00:0a",pid="%d",program="bobnet",uid="%d"} 0`, program.Process.Pid, uid)
}

// awaitTop runs bobnet top on what is served at an address, with its output piped, until that
// has all that is wanted, in lines without control characters.
func awaitTop(t *testing.T, p *vethtest.Pair, bobnet, addr string, want ...string) {
	t.Helper()
	lacks, text := "", ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		cmd := exec.Command(bobnet, "top", "--discover=false", "--metrics", addr, "--interval", "50ms")
		err := p.In(0, func() error {
			out, err := cmd.CombinedOutput()
			text = string(out)
			return err
		})
		if err != nil || strings.ContainsAny(text, "\x1b\r\b") {
			t.Fatalf("bobnet top: %v\n%q", err, text)
		}
		lacks = ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				lacks = w
			}
		}
		if lacks == "" {
			return
		}
	}
	t.Fatalf("bobnet top lacks %s:\n%s", lacks, text)
}

// awaitPage reads a page until it has all that is wanted: a program that is slow to answer is
// left out.
func awaitPage(t *testing.T, p *vethtest.Pair, addr, path string, want ...string) {
	t.Helper()
	page, lacks := "", ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		page, lacks = getInside(t, p, addr, path), ""
		for _, w := range want {
			if !strings.Contains(page, w) {
				lacks = w
			}
		}
		if lacks == "" {
			return
		}
	}
	t.Fatalf("%s lacks %s:\n%s", path, lacks, page)
}

// TestAgentReference: docs/metrics.md has the agent's own metric as the code does.
func TestAgentReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if cells[0] != "`bobnet_agent_program_answers`" || len(cells) != 4 {
			continue
		}
		want := prometheus.NewDesc(strings.Trim(cells[0], "`"), cells[3], strings.Split(cells[2], ", "), nil).String()
		if got := agentProgram.String(); got != want {
			t.Errorf("the code has %s, the documentation %s", got, want)
		}
		return
	}
	t.Error("docs/metrics.md does not have it")
}
