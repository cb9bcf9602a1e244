package nodeagent

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unitFile is what packages install as /lib/systemd/system/bobnet-agent.service.
const unitFile = "../../packaging/bobnet-agent.service"

// TestUnit: the unit of systemd starts the agent with a policy, again when it ends, keeps the
// directory of its socket between, and has the rights that the agent needs and no others.
// systemd itself finds nothing wrong with it, where it is installed.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	unit, section := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch name, value, ok := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line
		case !ok || section == "" || unit[section+name] != "":
			t.Errorf("the line %q sets nothing, or again", line)
		default:
			unit[section+name] = value
		}
	}
	for name, want := range map[string]string{
		"[Service]Restart":                  "always", // RestartSec and the programs' own pauses do the rest
		"[Service]RuntimeDirectory":         "bobnet", // that of agent.DefaultPath
		"[Service]RuntimeDirectoryPreserve": "yes",
		"[Service]CapabilityBoundingSet":    "CAP_NET_RAW CAP_NET_ADMIN",
		"[Service]NoNewPrivileges":          "yes",
		"[Unit]ConditionPathExists":         "/etc/bobnet/agent.policy",
		"[Install]WantedBy":                 "multi-user.target",
	} {
		if unit[name] != want {
			t.Errorf("%s is %q, want %q", name, unit[name], want)
		}
	}
	start := strings.Fields(unit["[Service]ExecStart"])
	if len(start) < 4 || start[0] != "/usr/bin/bobnet" || start[1] != "agent" || !slices.Contains(start, unit["[Unit]ConditionPathExists"]) {
		t.Errorf("it starts %q", start)
	}
	if !slices.Contains(start, "localhost:9465") { // bobnet top reads it by default
		t.Errorf("it serves its metrics elsewhere: %q", start)
	}
	families := strings.Fields(unit["[Service]RestrictAddressFamilies"])
	for _, family := range []string{"AF_UNIX", "AF_PACKET", "AF_NETLINK", "AF_INET", "AF_INET6"} {
		if !slices.Contains(families, family) {
			t.Errorf("it may use no %s", family)
		}
	}
	verify(t, string(text))
}

// verify has systemd look at a unit, with a program that exists in the place of the agent.
func verify(t *testing.T, text string) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("systemd does not look at it: %v", err)
		return
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bobnet-agent.service")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "/usr/bin/bobnet", own, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		for _, wrong := range []string{"Unknown", "Failed to parse", "Invalid", "ignoring"} {
			if strings.Contains(line, filepath.Base(file)) && strings.Contains(line, wrong) { // it looks at others, too
				t.Errorf("systemd says: %s", line)
			}
		}
	}
	if err != nil {
		t.Logf("systemd-analyze: %v: %s", err, out)
	}
}
