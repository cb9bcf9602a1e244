package mapper

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// TestText: the text of a map is a fabric file, which is read as the same network.
func TestText(t *testing.T) {
	for name, top := range topologies() {
		m := (&oracle{t: top}).explore(1, 64).result()
		f, err := topology.ParseFile(m.Text())
		if err != nil || !reflect.DeepEqual(f.Topology, m.Topology) {
			t.Fatalf("%s: %v\n%s", name, err, m.Text())
		}
	}
}

// TestJSON: a map as JSON has all its parts.
func TestJSON(t *testing.T) {
	m := (&oracle{t: topology.Line(8, 2, 1)}).explore(1, 64).result()
	m.Twice = m.IDs[:1]
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"ports":8,"mapper":"h0","hosts":[{"name":"h0","id":"02:00:00:00:00:00"},{"name":"h1","id":"02:00:00:00:00:01"}],` +
		`"switches":["s0","s1"],"cables":[["s0:0","s1:1"],["h1","s0:1"],["h0","s1:0"]],` +
		`"probes":0,"lost":0,"duration_ns":0,"claimed_twice":["02:00:00:00:00:00"],"hosts_left_out":0,"links_left_out":0}`
	if string(b) != want {
		t.Errorf("%s\nwant %s", b, want)
	}
}

// TestSVG: the picture is XML, has each host and switch once, and is the same each time.
func TestSVG(t *testing.T) {
	tops := topologies()
	tops["nothing"] = &topology.Topology{Ports: 8}
	tops["switches alone"] = topology.Line(8, 3, 0)
	tops["names that XML has other uses for"] = &topology.Topology{Ports: 8, Hosts: []string{"<&>"}, Switches: []string{`"<`}}
	for name, top := range tops {
		svg := SVG(top, "a < b & c")
		if svg != SVG(top, "a < b & c") {
			t.Errorf("%s: two pictures of it differ", name)
		}
		tags, said := map[string]int{}, map[string]int{}
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
			switch x := token.(type) {
			case xml.StartElement:
				tags[x.Name.Local]++
			case xml.CharData:
				said[string(x)]++
			}
		}
		if tags["circle"] != len(top.Hosts) || tags["rect"] != 1+len(top.Switches) || tags["path"] != len(top.Cables) {
			t.Errorf("%s: the picture has %v", name, tags)
		}
		for _, n := range append(append([]string{}, top.Hosts...), top.Switches...) {
			if said[n] != 1 {
				t.Errorf("%s: %s is there %d times", name, n, said[n])
			}
		}
	}
}

// TestNames: hosts whose own names cannot stand in a fabric file, or are taken, get others.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, c := range []struct{ own, want string }{
		{"a", "a"}, {"a", "a-2"}, {"a", "a-3"}, {"s 1", "02-00-00-00-00-00"}, {"", "02-00-00-00-00-00-2"}, {strings.Repeat("x", 32), strings.Repeat("x", 32)},
		{strings.Repeat("x", 32), strings.Repeat("x", 28) + "-2"},
	} {
		got := uniqueName(names, hostName(identity{HostID(0), c.own}))
		if got != c.want || !topology.ValidName(got) {
			t.Errorf("%q is called %q, want %q", c.own, got, c.want)
		}
	}
}
