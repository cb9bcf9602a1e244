package topology

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	f, err := ParseFile("# two switches\n\nlink a s:0 # before the names\nswitch s t\nhost a\nhost b-1.x\nports 4\nlink s:3 t:3\nlink t:1 b-1.x")
	if err != nil {
		t.Fatal(err)
	}
	want := Topology{Ports: 4, Hosts: []string{"a", "b-1.x"}, Switches: []string{"s", "t"}, Cables: []Join{
		{AtHost(0), AtSwitch(0, 0)}, {AtSwitch(0, 3), AtSwitch(1, 3)}, {AtSwitch(1, 1), AtHost(1)},
	}}
	if !reflect.DeepEqual(f.Topology, want) {
		t.Errorf("it is read as %+v", f.Topology)
	}
	if !reflect.DeepEqual([][]int{f.HostLines, f.SwitchLines, f.CableLines}, [][]int{{5, 6}, {4, 4}, {3, 8, 9}}) {
		t.Errorf("lines %v %v %v", f.HostLines, f.SwitchLines, f.CableLines)
	}
}

// TestParseFileRefuses: each error names the line, and says what to do.
func TestParseFileRefuses(t *testing.T) {
	const head = "host a b\nswitch s t\n"
	for text, want := range map[string]string{
		"ports 1":                           "line 3: invalid number of ports \"1\"",
		"ports 8 9":                         "line 3: invalid number of ports \"8 9\"",
		"ports 8\nports 8":                  "line 4: line 3 already sets the number of ports",
		"host":                              "line 3: a name is missing",
		"host c b":                          "line 3: b was named on line 1",
		"switch b":                          "line 3: b was named on line 1",
		"switch s:1":                        "line 3: invalid name \"s:1\"",
		"host -x":                           "line 3: invalid name \"-x\"",
		"host " + strings.Repeat("x", 33):   "invalid name",
		"link a":                            "line 3: a link has two ends, found 1",
		"link a s:0 t:0":                    "found 3",
		"link a c":                          "line 3: no host or switch \"c\"",
		"link a:0 b":                        "line 3: \"a:0\": a host has one card",
		"link a s":                          "line 3: \"s\" is a switch: say which port",
		"link a s:8":                        "line 3: switch s has no port \"8\": they are 0 to 7",
		"link a s:-1":                       "switch s has no port \"-1\"",
		"link a s:x":                        "switch s has no port \"x\"",
		"link s:4 t:0\nports 4":             "line 3: switch s has no port \"4\": they are 0 to 3",
		"link a a":                          "line 3: the link leads from host a to itself",
		"link s:1 s:1":                      "line 3: the link leads from port 1 of switch s to itself",
		"link a s:1\nlink b s:1":            "line 4: port 1 of switch s already has the cable of line 3",
		"link a s:1\n\nlink a s:2":          "line 5: host a already has the cable of line 3",
		"cable a b":                         "line 3: invalid first word \"cable\"",
		"link a s:99999999999999999999999 ": "they are 0 to 7",
	} {
		if _, err := ParseFile(head + text); err == nil || !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestFileRoundTrip: what Text writes is read as the same topology.
func TestFileRoundTrip(t *testing.T) {
	tops := []*Topology{Line(8, 1, 3), Line(8, 2, 5), NOW()}
	for seed := range uint64(50) {
		tops = append(tops, Random(seed+1, 4+int(seed%5), 1+int(seed%9), int(seed%13)))
	}
	for _, top := range tops {
		f, err := ParseFile(top.Text())
		if err != nil || !reflect.DeepEqual(&f.Topology, top) {
			t.Fatalf("%v: %s", err, top.Text())
		}
	}
}

// FuzzParseFile: no text makes it panic, what it takes can be built, and is written and
// read as the same.
func FuzzParseFile(f *testing.F) {
	f.Add(Line(8, 2, 2).Text())
	f.Add("ports 2\nhost a # b\nswitch s\nlink a s:1\nlink s:0 s:0")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile(text)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatal(err)
			}
			return
		}
		if err := file.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := ParseFile(file.Text())
		if err != nil || !reflect.DeepEqual(again.Topology, file.Topology) {
			t.Fatalf("%v: %q", err, file.Text())
		}
	})
}
