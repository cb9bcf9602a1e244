package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// roleEnv names what a process started from this test binary does.
const roleEnv = "BOBNET_TEST_AGENT_ROLE"

// roles read commands from standard input, one a line, and print an answer of one line to
// each. They end when the input does.
var roles = map[string]func(commands *bufio.Scanner) error{
	"agent":    agentRole,
	"tenant":   tenantRole,
	"hostile":  hostileRole,
	"flood":    floodRole,
	"ask":      askRole,
	"options":  optionsRole,
	"squatter": squatterRole,
	"echo":     echoRole,
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := roles[name](bufio.NewScanner(os.Stdin)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Two users without rights.
const (
	alice = 65534
	bob   = 65533
)

// child is another process.
type child struct {
	t testing.TB
	*exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	pair *vethtest.Pair
	side int
}

// play starts a process in the namespace of a side as a user, with environment variables, and waits for
// its first line, which it returns.
func play(t testing.TB, p *vethtest.Pair, side int, role string, uid uint32, env ...string) (c *child, first string) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	c = &child{t: t, pair: p, side: side, Cmd: exec.Command("/proc/self/exe")} // go test builds where others cannot look
	c.Dir, c.Stderr, c.Env = "/", os.Stderr, append(append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0"), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if uid == 0 {
		c.SysProcAttr.Credential = nil
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := p.In(side, c.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // which ends it
		timer := time.AfterFunc(patience, func() { c.Process.Kill() })
		defer timer.Stop()
		c.Wait()
	})
	return c, c.line()
}

// line returns what the process prints next.
func (c *child) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("a process has ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// say gives the process a command, and returns its answer.
func (c *child) say(format string, args ...any) string {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
	return c.line()
}

// kill ends the process at once.
func (c *child) kill() {
	c.Process.Kill()
	c.Wait()
}

// configEnv has the test's part of an agent's Config, as JSON.
const configEnv = "BOBNET_TEST_AGENT_CONFIG"

// testConfig is that part.
type testConfig struct {
	Path, Allow string
	MaxBlocks   int
	Unguarded   bool
}

// socketPath returns the path of a socket that all users can reach.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + "/sock"
}

// startAgent starts an agent in the namespace of a side.
func startAgent(t testing.TB, p *vethtest.Pair, side int, cfg testConfig) *child {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, line := play(t, p, side, "agent", 0, configEnv+"="+string(text))
	if strings.Contains(line, "nftables") {
		need.Skip(t, "nftables for netdev, egress: %s", line)
	}
	if line != "serving" {
		t.Fatal(line)
	}
	return c
}

// agentRole serves. To "programs" it answers with the programs and whether they answer.
func agentRole(commands *bufio.Scanner) error {
	var cfg testConfig
	if err := json.Unmarshal([]byte(os.Getenv(configEnv)), &cfg); err != nil {
		return err
	}
	policy, err := ParsePolicy(cfg.Allow)
	if err != nil {
		return err
	}
	s, err := Listen(Config{Path: cfg.Path, MaxBlocks: cfg.MaxBlocks, Unguarded: cfg.Unguarded, Policy: func() (Policy, error) { return policy, nil }})
	if err != nil {
		return err
	}
	defer s.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background()) }()
	fmt.Println("serving")
	for commands.Scan() {
		list := []string{}
		for _, p := range s.Programs() {
			body, err := p.Ask(agent.Snapshot)
			list = append(list, fmt.Sprintf("user %d ports %d..%d answers %v", p.UID, p.Ports.Lo, p.Ports.Hi, err == nil && len(body) > 0))
		}
		fmt.Println(strings.Join(list, "; "))
	}
	return nil
}
