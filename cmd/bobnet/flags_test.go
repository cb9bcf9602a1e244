package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	return slices.Contains([]string{"perf --plot", "lab --plot", "demo rank --out", "paper --doc"}, name) ||
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

// TestBadValues: a bad value is a usage error, in an argument and in the environment as in a
// flag, and the message names it.
func TestBadValues(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	for _, tt := range []struct{ env, args, says string }{
		{"BOBNET_DRIVER=tcp", "ping --listen", `unknown driver "tcp"`},
		{"BOBNET_DRIVER=tcp", "perf --local", `unknown driver "tcp"`},
		{"BOBNET_DRIVER=tcp", "info", `unknown driver "tcp"`},
		{"BOBNET_DRIVER=tcp", "run -n 1 -- true", `unknown driver "tcp"`},
		{"BOBNET_PEERS=here", "ping --listen --driver udp -i 127.0.0.1", `"here" is not an IP address`},
		{"BOBNET_FAULT=loss=lots", "ping --listen", "BOBNET_FAULT"},
		{"BOBNET_KEY=short", "ping --listen", "characters that are not a key"},
		{"BOBNET_KEY_FILE=/no/such/key", "perf --local", "/no/such/key: no such file"},
		{"BOBNET_IFACE=nope", "ping --listen", `BOBNET_IFACE=nope: no Ethernet interface "nope"`},
		{"BOBNET_IFACE=lo", "ping --listen", `BOBNET_IFACE=lo: no Ethernet interface "lo"`},
		{"BOBNET_IFACE=nope", "run -n 1 -- true", `BOBNET_IFACE=nope: no Ethernet interface "nope"`},
		{"SOURCE_DATE_EPOCH=yesterday", "man .", "SOURCE_DATE_EPOCH"},
		{"", "rpcgen none.x", "none.x: no such file"},
		{"", "rpcgen /dev/null", "not a regular file"},
		{"", "agent --allow all --interfaces lo", `--interfaces lo: no Ethernet interface "lo"`},
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

// completed returns the values that a shell offers after some words, and the directive for the shell.
func completed(t *testing.T, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, diagnosis bytes.Buffer
	root := newRootCmd()
	root.SetOut(&out)
	root.SetErr(&diagnosis)
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
	if err := root.Execute(); err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// TestCompletions: for each flag with a fixed set of values a shell offers all of these, and help
// names them; no help names such a set of a flag that offers none.
func TestCompletions(t *testing.T) {
	sets := map[string][]string{}
	allFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		if value, ok := flag.Value.(hinted); ok && value.hints().words != nil {
			sets[verbPath(cmd)+" --"+flag.Name] = value.hints().words
		}
	})
	sets["map --fabric"] = readyFabrics
	allFlags(func(cmd *cobra.Command, flag *pflag.Flag) {
		name := verbPath(cmd) + " --" + flag.Name
		if flag.Value.Type() == "bool" || flag.Value.Type() == "count" {
			return
		}
		got, directive := completed(t, append(strings.Fields(verbPath(cmd)), "--"+flag.Name, "")...)
		if flag.NoOptDefVal != "" { // a value has to follow the sign =
			got, directive = completed(t, append(strings.Fields(verbPath(cmd)), "--"+flag.Name+"=")...)
		}
		want := sets[name]
		if want != nil && !slices.Equal(got, want) && name != "map --fabric" {
			t.Errorf("%s offers %q, want %q", name, got, want)
		}
		files := flag.Value.(hinted).hints().files
		if files != (directive == ":0") {
			t.Errorf("%s: directive %s, and files are its values: %v", name, directive, files)
		}
		for of, set := range sets {
			if mentions(flag.Usage, set) && !slices.Equal(got, set) && want == nil {
				t.Errorf("the help of %s lists %v, as that of %s does, but %q are offered", name, set, of, got)
			}
		}
		if want != nil && !cmd.Hidden && !mentions(flag.Usage, want) && !strings.Contains(flag.Usage, "`some`") {
			t.Errorf("the help of %s does not list its values %v: %s", name, want, flag.Usage)
		}
	})
}

// mentions reports whether a text has each of the words.
func mentions(text string, words []string) bool {
	has := strings.FieldsFunc(text, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') })
	for _, word := range words {
		if !slices.Contains(has, word) {
			return false
		}
	}
	return true
}

// TestCompletionOfLists: of a list the last word is completed.
func TestCompletionOfLists(t *testing.T) {
	if got, _ := completed(t, "perf", "--stacks", "raw,v"); !slices.Equal(got, []string{"raw,vipl", "raw,vmmc", "raw,vrpc"}) {
		t.Errorf("offered %q", got)
	}
	if got, _ := completed(t, "lab", "--topology", "b"); !slices.Equal(got, []string{"bridge"}) {
		t.Errorf("offered %q", got)
	}
	names := interfaceNames()
	if got, _ := completed(t, "ping", "-i", ""); !slices.Equal(got, names) {
		t.Errorf("offered %q, want %q", got, names)
	}
}

// TestManPages: each page has its sections, the first one the list of verbs, and no default that is
// only a zero of Go.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	date, err := sourceDate("1700000000")
	if err == nil {
		err = writePages(newRootCmd(), date, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 19 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} {
			if section == "OPTIONS" && f.Name() == "bobnet-key.1" {
				continue // it has none of its own but those of every verb
			}
			if !bytes.Contains(text, []byte(".SH "+section+"\n")) {
				t.Errorf("%s has no section %s", f.Name(), section)
			}
		}
		for _, zero := range []string{"default false", "default 0)", "default [])", "default 0s)", "default )", `=""`} {
			if bytes.Contains(text, []byte(zero)) {
				t.Errorf("%s: %q", f.Name(), zero)
			}
		}
	}
	root, err := os.ReadFile(dir + "/bobnet.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range []string{".SH VERBS\n", ".B lab\n", ".B top\n", ".SH ENVIRONMENT\n", ".B BOBNET_IFACE\n", ".SH FILES\n", "/run/bobnet/agent.sock"} {
		if !strings.Contains(string(root), has) {
			t.Errorf("bobnet.1 does not have %q", has)
		}
	}
}

// TestEnvironmentNamed: the man page names each variable that Bobnet's packages read.
func TestEnvironmentNamed(t *testing.T) {
	own := []string{"BOBNET_LAB_REEXEC", "BOBNET_PERF_KEY_FILE", "BOBNET_TEST_ALL"} // between Bobnet's own processes
	literal := regexp.MustCompile(`"(BOBNET_[A-Z_]+)"`)
	for _, room := range []string{"cmd", "vipl", "job", "mplite", "endpoint", "splitc", "stream", "transport", "vmmc", "metrics", "internal/lab", "internal/launch", "internal/link", "internal/myrinet", "internal/perf", "internal/pmi", "internal/progress"} {
		err := filepath.WalkDir("../../"+room, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range literal.FindAllStringSubmatch(string(text), -1) {
				named := slices.ContainsFunc(environment, func(e entry) bool { return e.name == found[1] })
				if !named && !slices.Contains(own, found[1]) {
					t.Errorf("%s: %s is not among the variables of the man page", path, found[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
