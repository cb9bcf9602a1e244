package nodeagent

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/need"
)

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
