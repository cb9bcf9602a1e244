package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBadValues: a bad value is a usage error, in an argument and in the environment as in a
// flag, and the message names it.
func TestBadValues(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	for _, tt := range []struct{ env, args, says string }{
		{"BOBNET_DRIVER=tcp", "ping --listen", `"tcp" is none of`},
		{"BOBNET_DRIVER=tcp", "perf --local", `"tcp" is none of`},
		{"BOBNET_DRIVER=tcp", "info", `"tcp" is none of`},
		{"BOBNET_DRIVER=tcp", "run -n 1 -- true", `"tcp" is none of`},
		{"BOBNET_PEERS=here", "ping --listen --driver udp -i 127.0.0.1", `"here" is no IP address`},
		{"BOBNET_FAULT=loss=lots", "ping --listen", "BOBNET_FAULT"},
		{"BOBNET_KEY=short", "ping --listen", "characters that are no key"},
		{"BOBNET_KEY_FILE=/no/such/key", "perf --local", "/no/such/key: no such file"},
		{"BOBNET_IFACE=nope", "ping --listen", `BOBNET_IFACE=nope: there is no Ethernet interface "nope"`},
		{"BOBNET_IFACE=lo", "ping --listen", `BOBNET_IFACE=lo: there is no Ethernet interface "lo"`},
		{"BOBNET_IFACE=nope", "run -n 1 -- true", `BOBNET_IFACE=nope: there is no Ethernet interface "nope"`},
		{"SOURCE_DATE_EPOCH=yesterday", "man .", "SOURCE_DATE_EPOCH"},
		{"", "rpcgen none.x", "none.x: no such file"},
		{"", "rpcgen /dev/null", "not a regular file"},
		{"", "agent --allow all --interfaces lo", `--interfaces lo: there is no Ethernet interface "lo"`},
	} {
		cmd := exec.Command(bobnet, strings.Fields(tt.args)...)
		cmd.Env = append(os.Environ(), tt.env)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), tt.says) {
			t.Errorf("%s %s: %v, and said %q, want %q", tt.env, tt.args, err, out, tt.says)
		}
	}
}
