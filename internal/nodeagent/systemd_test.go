package nodeagent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/mdlayher/ethernet"
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

func TestPolicy(t *testing.T) {
	p, err := ParsePolicy("user:1000, group:50 # staff\n\nuser:root")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		uid, gid uint32
		want     bool
	}{{1000, 1, true}, {1001, 50, true}, {0, 0, true}, {1001, 1000, false}, {50, 1, false}} {
		if got := p.Allows(tt.uid, tt.gid); got != tt.want {
			t.Errorf("user %d group %d: %v", tt.uid, tt.gid, got)
		}
	}
	if (Policy{}).Allows(1, 0) {
		t.Error("without entries a user is let in")
	}
	if !p.Allows(1001, 1000, 7, 50) || p.Allows(1001, 1000, 7, 51) {
		t.Error("the groups beside the first are not judged")
	}
	if _, err := ParsePolicy("group:no-such-group-here"); err == nil || !strings.Contains(err.Error(), "group:1234") {
		t.Errorf("%v, want that a number may be given", err)
	}
	for _, bad := range []string{"alice", "user:", "user:no-such-user-here", "group:-1", "user"} {
		if p, err := ParsePolicy("all " + bad); err == nil || p.Allows(1, 1) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	if _, err := ReadPolicy(path); err == nil {
		t.Error("a file that is not there has been read")
	}
	if err := os.WriteFile(path, []byte("all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadPolicy(path); err != nil || !p.Allows(7, 7) {
		t.Errorf("%v, %v", p, err)
	}
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPolicy(path); err == nil {
		t.Error("a file that others may write has been read")
	}
}

// TestLimits: requests beyond the burst wait for their turn, or are refused, and connections
// beyond the bound are not let in.
func TestLimits(t *testing.T) {
	now := time.Unix(1, 0)
	var l limits
	l.init(2)
	l.clock = func() time.Time { return now }
	if !l.enter(7) || !l.enter(7) || l.enter(7) || !l.enter(8) {
		t.Error("connections are not bounded by user")
	}
	for i := range requestBurst {
		if pause, err := l.takeToken(7); pause > 0 || err != nil {
			t.Fatalf("request %d: %v, %v", i, pause, err)
		}
	}
	last := time.Duration(0)
	for range requestRate * int(requestWait/time.Second) {
		pause, err := l.takeToken(7)
		if err != nil || pause <= last {
			t.Fatalf("%v after %v, %v", pause, last, err)
		}
		last = pause
	}
	if _, err := l.takeToken(7); err == nil {
		t.Error("requests are not bounded")
	}
	if pause, err := l.takeToken(8); pause > 0 || err != nil {
		t.Errorf("another user waits: %v, %v", pause, err)
	}
	now = now.Add(time.Hour)
	l.leave(7)
	l.leave(7)
	l.enter(9)
	if l.users[7] != nil {
		t.Error("a user who has left is kept")
	}
}

// TestParseEtherTypes: numbers are read, each once, and lengths and the types of the system's
// own traffic are refused.
func TestParseEtherTypes(t *testing.T) {
	got, err := ParseEtherTypes("0x88b5, 0x88b6,34997,0x88b5")
	if want := []ethernet.EtherType{0x88b5, 0x88b6}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for text, says := range map[string]string{"": "want numbers", "0x5ff": "from 0x0600", "0x10000": "to 0xffff", "-1": "want", "0x88b5,": "want", "0x800": "to IPv4", "0x86dd": "to IPv6", "0x8100": "to VLAN"} {
		if got, err := ParseEtherTypes(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, says)
		}
	}
}

// TestKey: keys say what went into them, and are what the rules load.
func TestKey(t *testing.T) {
	b := block{index: 3, typ: ethertype.Default, n: 63}
	e := element{mark: markBase | 5, mac: ethertype.MAC{2, 0, 0, 0, 0, 1}}
	k := key(b, e)
	gotBlock, gotElement, ok := parseKey(k)
	if !ok || gotBlock != b || gotElement != e {
		t.Errorf("%x is %+v, %+v", k, gotBlock, gotElement)
	}
	frame := frameFrom(ethertype.MAC{2, 0, 0, 0, 0, 1}, uint16(ethertype.Default), 9, 63*blockSize+17, 0)[frameAt : frameAt+frameSize]
	for i, m := range frameMask() {
		frame[i] &= m
	}
	if want := key(b, element{mac: ethertype.MAC{2, 0, 0, 0, 0, 1}})[3*wordSize:]; !bytes.Equal(frame, want) {
		t.Errorf("a frame has %x, the key %x", frame, want)
	}
}
