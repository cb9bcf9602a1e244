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

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/agent"
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
// the metrics of all, also to bobnet top, names one that does not answer, and dumps what they
// say.
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
	var programs [2]*exec.Cmd
	for i := range programs {
		var daemon func(string) []string
		daemon, programs[i] = background(t, p, nobody, env, bobnet, "daemon", "--iface", vethtest.Name, "--socket", fmt.Sprintf("@bobnet-test-%d-%d", os.Getpid(), i))
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
	awaitTop(t, p, bobnet, addr, fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[0].Process.Pid, nobody), fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[1].Process.Pid, nobody),
		" ring+agent", " 2 stations, ", "rates of ")
	if err := programs[0].Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, p, addr, "/metrics", answers(0, 1024, 0), answers(1, 2048, 1))
	awaitPage(t, p, addr, "/debug/bobnet", fmt.Sprintf("does not answer: bobnet (process %d of user %d, ports 1024..2047 of bob0)", programs[0].Process.Pid, nobody), "\nNIC bob0 ")
	if err := server.Process.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	said("^bobnet agent: 2 NICs")
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
