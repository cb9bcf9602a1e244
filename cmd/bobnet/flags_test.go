package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allFlags calls f for each flag of each verb, hidden ones too, but for those of cobra.
func allFlags(f func(cmd *cobra.Command, flag *pflag.Flag)) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" {
			return
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "help" && flag.Name != "version" {
				f(cmd, flag)
			}
		})
		for _, verb := range cmd.Commands() {
			walk(verb)
		}
	}
	walk(newRootCmd())
}

// nonsense are values that hardly a flag has a use for.
var nonsense = []string{"", "-1", "0", "1", "0s", "-1s", "1.5", "99999999999999999999", "9999999h", "no such thing", "/", "/no/such/thing"}

// anyText lists the flags that take any text except the empty one. anyLength lists the flags whose
// maximum length parsing cannot know.
var (
	anyText   = []string{"perf --to", "ping --name", "daemon --socket", "agent --socket", "switch --name"}
	anyLength = []string{"map --from", "run --program", "doctor --program", "switch --port", "run --key", "node --key"}
)

// accepted are those of the nonsense that make sense after all, or of which parsing cannot tell:
// interfaces are looked for when all flags are known.
var accepted = map[string][]string{
	"agent --blocks":    {"1"},
	"demo --out":        {"-1", "0", "1", "0s", "-1s", "1.5", "99999999999999999999", "9999999h", "no such thing", "/", "/no/such/thing"},
	"demo --ranks":      {"1"},
	"demo --steps":      {"1"},
	"demo rank --steps": {"1"},
	"lab --corrupt":     {"0", "1"},
	"lab --delay":       {"0", "0s"},
	"lab --dup":         {"0", "1"},
	"lab --flap":        {"0", "1"},
	"lab --jitter":      {"0", "0s"},
	"lab --loss":        {"0", "1"},
	"lab --mtu-drop":    {"-1", "0", "1"}, // judged with the MTU of the lab
	"lab --partition":   {"0", "1"},
	"lab --per-host":    {"1"},
	"lab --ranks":       {"1"},
	"lab --reorder":     {"0", "1"},
	"lab --seed":        {"0", "1"},
	"map --seed":        {"0", "1"},
	"perf --count":      {"1"},
	"perf --credits":    {"1"},
	"perf --per-host":   {"1"},
	"perf --ranks":      {"1"},
	"perf --rounds":     {"1"},
	"perf --sizes":      {"1"},
	"ping --count":      {"0", "1"},
	"ping --interval":   {"0", "0s"},
	"run --host":        {"0", "1", "0s", "1.5", "99999999999999999999", "9999999h", "/", "/no/such/thing", endless},
	"doctor --host":     {"0", "1", "0s", "1.5", "99999999999999999999", "9999999h", "/", "/no/such/thing", endless},
	"run --ranks":       {"1"},
	"switch --spin":     {"0", "0s"},
	"top --metrics":     {"-1", "0", "1", "0s", "-1s", "1.5", "99999999999999999999", "9999999h", endless}, // names of hosts
	"rpcgen --package":  {endless},
	"rpcgen --define":   {endless},
	"rpcgen --include":  {"/"},
	"tun --network":     {"-1", "0", "1", "0s", "-1s", "1.5", "9999999h", "no such thing"},
	"tun --dev":         {"-1", "0", "1", "0s", "-1s", "1.5", "9999999h"},
	"paper --plot":      {"-1", "0", "1", "0s", "-1s", "1.5", "99999999999999999999", "9999999h", "no such thing", "/", "/no/such/thing"},
	" --verbose":        {"0", "1", "-1"}, // the last by the root
}

// TestNonsense: each flag of each verb refuses what it has no use for, before anything starts, and
// says what it wants without a word of Go.
func TestNonsense(t *testing.T) {
	t.Chdir(t.TempDir())
	allFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		name := verbPath(cmd) + " --" + flag.Name
		kind := flag.Value.Type()
		if _, ok := flag.Value.(hinted); !ok && kind != "bool" && kind != "count" {
			t.Errorf("%s is a bare %s: give it a range", name, kind)
		}
		for _, value := range append(nonsense, endless) {
			tryFlag(t, cmd, flag.Name, value, sensible(name, flag, value))
		}
	})
}

// endless is a text that is too long for most.
var endless = strings.Repeat("x", 1<<12)

// sensible reports whether a flag has a use for a value.
func sensible(name string, flag *pflag.Flag, value string) bool {
	value0, judged := flag.Value.(hinted)
	switch {
	case slices.Contains(accepted[name], value):
		return true
	case flag.Name == "iface", flag.Name == "driver" && value == "" && name != "switch --driver":
		return true
	case slices.Contains(anyLength, name):
		return value != ""
	case slices.Contains(anyText, name):
		return value != "" && value != endless
	case flag.Value.Type() == "bool":
		return value == "0" || value == "1"
	case judged && value0.hints().files && canWrite(name):
		return value != "" && value != "/" && value != "/no/such/thing"
	}
	return false
}

// canWrite reports whether a flag names a file that is written: any name is one.
func canWrite(name string) bool {
	_, flag, _ := strings.Cut(name, "--")
	return slices.Contains([]string{"perf --plot", "demo rank --out", "paper --doc"}, name) ||
		slices.Contains([]string{"pcap", "output", "cpuprofile", "memprofile"}, flag)
}

// tryFlag gives a value to a flag.
func tryFlag(t *testing.T, cmd *cobra.Command, flag, value string, ok bool) {
	t.Helper()
	path := verbPath(cmd)
	verb := path + " --" + flag
	err := cmd.ParseFlags([]string{fmt.Sprintf("--%s=%s", flag, value)})
	if (err == nil) != ok {
		t.Errorf("%s=%.40q: %v, and it makes sense: %v", verb, value, err, ok)
	}
	if err == nil {
		return
	}
	said := flagError(cmd, err)
	if wrong := (usageError{}); !errors.As(said, &wrong) {
		t.Errorf("%s=%.40q: %v is no usage error", verb, value, said)
	}
	for _, word := range []string{"strconv", "netip", "invalid argument", "invalid syntax", "Parse", "time: ", "node agent: ", "lab: lab"} {
		if strings.Contains(said.Error(), word) {
			t.Errorf("%s=%.40q: %q says %q", verb, value, said, word)
		}
	}
	if !strings.HasPrefix(said.Error(), strings.TrimSpace(path+": --"+flag)) && path != "" {
		t.Errorf("%s=%.40q: %q does not name the flag", verb, value, said)
	}
}

// TestNearest: what is nearly a word is taken for it, and what is not is left alone.
func TestNearest(t *testing.T) {
	words := []string{"lab", "ranks", "per-host", "partition", "mtu"}
	for text, want := range map[string]string{"lav": "lab", "rank": "ranks", "rnaks": "ranks", "perhost": "per-host", "part": "partition",
		"mut": "", "x": "", "": "", "something": "", "labs": "lab"} {
		if got := nearest(text, words); got != want {
			t.Errorf("nearest to %q: %q, want %q", text, got, want)
		}
	}
}

// TestPrintPeriod: times are written as people write them, and can be read again.
func TestPrintPeriod(t *testing.T) {
	for _, text := range []string{"1h", "1m", "1h30m", "20s", "1h0m5s", "500ms", "1µs", "0s", "10m", "100h"} {
		d, err := time.ParseDuration(text)
		if err != nil || printPeriod(d) != text {
			t.Errorf("%s: %v, printed as %s", text, err, printPeriod(d))
		}
	}
}
