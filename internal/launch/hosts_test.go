package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
)

// TestHosts: hosts by a list and by a file, with their slots, and what is none.
func TestHosts(t *testing.T) {
	for _, tc := range []struct{ list, file, want string }{
		{"a", "a\n", "[{a 1}]"},
		{"a,b:2", "a # the first\n\nb:2\n", "[{a 1} {b 2}]"},
		{"me@a:2, b ,me@a:3", "me@a slots=2\nb\n  me@a:3", "[{me@a 5} {b 1}]"},
		{"[::1]:2,me@[fd00::2],[fe80::1%eth0]", "[::1] slots=2\nme@[fd00::2]:1\n[fe80::1%eth0]", "[{::1 2} {me@fd00::2 1} {fe80::1%eth0 1}]"},
		{"[::1", "::1\n", ""},
		{"[10.0.0.1]:2", "[a]\n", ""},
		{"[::1]2", "x[::1]\n", ""},
		{"[::1]:", "[]:2\n", ""},
		{"", "# none\n", ""},
		{"a:", "a:\n", ""},
		{"a:0", "a slots=0\n", ""},
		{"a:4097", "a:4096\na\n", ""},
		{"-oProxyCommand=x", "-l\n", ""},
		{"a;b", "a cpus=2\n", ""},
		{"$(x)", "`x`\n", ""},
	} {
		list, listErr := ParseHosts(tc.list)
		file, fileErr := ReadHosts(strings.NewReader(tc.file))
		if tc.want == "" && (listErr == nil || fileErr == nil) {
			t.Errorf("%q: %v, %v", tc.list, list, file)
		}
		if tc.want != "" && (listErr != nil || fileErr != nil || fmt.Sprint(list) != tc.want || fmt.Sprint(file) != tc.want) {
			t.Errorf("%q: %v, %v, %v, %v, want %s", tc.list, list, file, listErr, fileErr, tc.want)
		}
	}
}

// TestAssign: ranks on hosts in both orders, also more than there are slots, and the same
// as PMI says it.
func TestAssign(t *testing.T) {
	hosts := []Host{{"a", 2}, {"b", 3}, {"c", 1}}
	for _, tc := range []struct {
		n    int
		by   Order
		want []int
		pmi  string
	}{
		{1, ByCore, []int{0}, "(vector,(0,1,1))"},
		{6, ByCore, []int{0, 0, 1, 1, 1, 2}, "(vector,(0,1,2),(1,1,3),(2,1,1))"},
		{6, ByNode, []int{0, 1, 2, 0, 1, 1}, "(vector,(0,1,1),(1,1,1),(2,1,1),(0,1,1),(1,1,2))"},
		{8, ByCore, []int{0, 0, 1, 1, 1, 2, 0, 0}, "(vector,(0,1,2),(1,1,3),(2,1,1),(0,1,2))"},
		{8, ByNode, []int{0, 1, 2, 0, 1, 1, 0, 1}, "(vector,(0,1,1),(1,1,1),(2,1,1),(0,1,1),(1,1,2),(0,1,1),(1,1,1))"},
	} {
		got := Assign(tc.n, hosts, tc.by)
		if !slices.Equal(got, tc.want) || mapping(got) != tc.pmi {
			t.Errorf("%d by %s: %v, %s, want %v, %s", tc.n, tc.by, got, mapping(got), tc.want, tc.pmi)
		}
	}
	if m := mapping(Assign(4096, hosts, ByNode)); m != "" {
		t.Errorf("a mapping of %d bytes fits no line", len(m))
	}
}

// TestOddHosts: what is odd about a host and keeps no job from running is told before it starts.
func TestOddHosts(t *testing.T) {
	var said strings.Builder
	c := &Config{N: 1, Hosts: []Host{{"a", 1}}, Stderr: &said}
	c.warn([]doctor.Finding{{Level: doctor.Warn, Check: "clock of b", Found: "3 s behind", Means: "times differ"}, {Level: doctor.OK, Check: "version"}})
	if want := "bobnet run: clock of b 3 s behind: times differ\n"; said.String() != want {
		t.Errorf("%q, want %q", &said, want)
	}
}

// TestTooManyRanks: a warning says that hosts get more ranks than they have slots, and how to change it.
func TestTooManyRanks(t *testing.T) {
	for n, want := range map[int]string{3: "", 4: "4 ranks for 3 slots: some hosts get more ranks than slots (list more hosts, or more slots, as in host:2)\n"} {
		var said strings.Builder
		c := &Config{N: n, Hosts: []Host{{"a", 2}, {"b", 1}}, Stderr: &said}
		if c.warn(nil); said.String() != "" && want == "" || !strings.HasSuffix(said.String(), want) {
			t.Errorf("%d ranks: %q, want %q", n, &said, want)
		}
	}
}

// TestHydraTakes: hydra would take a part of an IPv6 address for a number of ranks.
func TestHydraTakes(t *testing.T) {
	if err := (&Config{Hosts: []Host{{"a", 1}, {"::1", 2}}}).HydraTakes(); err == nil || !strings.Contains(err.Error(), "such as ::1 (use the host's name") {
		t.Error(err)
	}
	uneven := []Host{{"a", 1}, {"b", 3}}
	if err := (&Config{Hosts: uneven, N: 4, By: ByNode}).HydraTakes(); err == nil || !strings.Contains(err.Error(), "start rank 2 on a instead of b (give") {
		t.Error("one by one, of which hosts take differently many:", err)
	}
	for _, c := range []*Config{{Hosts: uneven, N: 2, By: ByNode}, {Hosts: uneven, N: 4, By: ByCore}, {Hosts: []Host{{"a", 2}, {"b", 2}}, N: 5, By: ByNode}} {
		if err := c.HydraTakes(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (&Config{Hosts: []Host{{"a", 1}}}).HydraTakes(); err != nil {
		t.Error(err)
	}
}

// TestGreet: what shells print before a node says hello is skipped, up to a bound, and
// what is no hello is said to be none.
func TestGreet(t *testing.T) {
	const hello = `bobnet-node {"Hello":{"Protocol":1,"Version":"v","Host":"h"}}` + "\n"
	for _, tc := range []struct {
		text string
		want error // nil: a hello
	}{
		{hello, nil},
		{"Welcome to h!\n\nbobnet-nodes\n" + hello, nil},
		{strings.Repeat("noise\n", 20000) + hello, errNoNode},
		{strings.Repeat("n", 2*maxNoise) + "\n" + hello, errNoNode},
		{"bobnet-node {}\n", errNoNode},
		{"bobnet-node {\"Hello\":7}\n", errNoNode},
		{"bobnet-node \x00\n", errNoNode},
		{"Permission denied\n", io.EOF},
		{"", io.EOF},
	} {
		inv, err := greet(bufio.NewReader(strings.NewReader(tc.text)))
		if !errors.Is(err, tc.want) || err == nil && inv.Host != "h" {
			t.Errorf("%.60q: %+v, %v, want %v", tc.text, inv, err, tc.want)
		}
	}
	for text, want := range map[string]error{"{\"Waits\":true}\n": nil, "{\"Waits\":1}\n": errNoNode, "nothing\n": errNoNode, "{": io.EOF, strings.Repeat("x", maxMessage+5000): errNoNode} {
		if _, err := receive(bufio.NewReader(strings.NewReader(text))); !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", text, err, want)
		}
	}
}

// TestJudge: each thing that may be wrong with a host is said of that host alone.
func TestJudge(t *testing.T) {
	at := time.Unix(1000, 0).UnixNano()
	good := Inventory{Protocol: Protocol, Version: "v1", Host: "x", Clock: at, CPUs: 2, Interface: "eth0", MTU: 1500}
	for name, tc := range map[string]struct {
		change func(*Answer)
		level  doctor.Level
		found  string
	}{
		"all well":  {func(*Answer) {}, doctor.OK, "interface eth0 of MTU 1500"},
		"no answer": {func(a *Answer) { a.Err = errors.New("is unreachable: ssh: exit status 255") }, doctor.Fail, "is unreachable"},
		"version":   {func(a *Answer) { a.Inv.Version = "v0" }, doctor.Fail, "has bobnet v0 (protocol 3), this host has v1"},
		"protocol":  {func(a *Answer) { a.Inv.Protocol++ }, doctor.Fail, "(protocol 3)"},
		"none":      {func(a *Answer) { a.Inv.Trouble = "it is down" }, doctor.Fail, "has no usable interface: it is down"},
		"interface": {func(a *Answer) { a.Inv.Interface = "eth1" }, doctor.Warn, `would use interface "eth1", host a would use "eth0"`},
		"MTU":       {func(a *Answer) { a.Inv.MTU = 9000 }, doctor.Warn, "has MTU 9000 on interface eth0, host a has 1500 on eth0"},
		"behind":    {func(a *Answer) { a.Inv.Clock -= int64(time.Minute) }, doctor.Warn, "wall clock that is off by -1m0s"},
		"ahead":     {func(a *Answer) { a.Inv.Clock += int64(time.Hour) }, doctor.Warn, "is off by 1h0m0s"},
	} {
		first, second := good, good
		second.Host = "y"
		answers := []Answer{{Host: Host{"a", 1}, Inv: &first, Arrived: at}, {Host: Host{"b", 1}, Inv: &second, Arrived: at}}
		tc.change(&answers[1])
		got := Judge("v1", answers)
		if len(got) != 2 || got[0].Level != doctor.OK || got[1].Level != tc.level || got[1].Check != "host b" || !strings.Contains(got[1].Found, tc.found) {
			t.Errorf("%s: %+v, want %v %q", name, got, tc.level, tc.found)
		}
		if refused := refusal(got) != nil; refused != (tc.level == doctor.Fail) {
			t.Errorf("%s: refused: %v", name, refused)
		}
	}
	smaller := good
	smaller.MTU, good.MTU = 1500, 9000
	if got := Judge("v1", []Answer{{Host: Host{"m1", 1}, Inv: &good, Arrived: at}, {Host: Host{"m2", 1}, Inv: &smaller, Arrived: at}}); got[1].Fix != "ssh m2 sudo ip link set dev eth0 mtu 9000" {
		t.Errorf("hosts of unequal MTU: %+v", got)
	}
	good.MTU, smaller.MTU = 300, 200
	if got := Judge("v1", []Answer{{Host: Host{"m1", 1}, Inv: &good, Arrived: at}, {Host: Host{"m2", 1}, Inv: &smaller, Arrived: at}}); got[1].Fix != "ssh m2 sudo ip link set dev eth0 mtu 338" {
		t.Errorf("hosts of an MTU below the smallest: %+v", got)
	}
	alone := good
	alone.Trouble = "there is none"
	if got := Judge("v1", []Answer{{Host: Host{"a", 1}, Inv: &alone, Arrived: at}}); got[0].Level != doctor.Warn {
		t.Errorf("one host without an interface: %+v", got)
	}
	if got := Judge("v1", []Answer{{Host: Host{"localhost", 1}, Inv: &alone, Arrived: at}}); got[0].Fix != "bobnet doctor" {
		t.Errorf("this host without an interface: %+v, want the command without ssh", got)
	}
}
