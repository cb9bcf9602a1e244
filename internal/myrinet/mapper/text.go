package mapper

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Summary describes the map in one line.
func (m *Map) Summary() string {
	t := &m.Topology
	return fmt.Sprintf("%s, %s, %s, as %s sees them; %s in %v, of which %d came back",
		count(len(t.Hosts), "host", "hosts"), count(len(t.Switches), "switch", "switches"), count(len(t.Cables), "cable", "cables"),
		t.Hosts[m.Mapper], count(int(m.Probes), "probe", "probes"), m.Duration, m.Probes-m.Lost)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Text returns the map as a fabric file, with further information as comments.
func (m *Map) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", m.Summary())
	for _, id := range m.Twice {
		fmt.Fprintf(&b, "# several hosts claim the identity %v\n", id)
	}
	if m.TooMany > 0 {
		fmt.Fprintf(&b, "# omitted: %s (the maximum is %d)\n", count(m.TooMany, "host", "hosts"), MaxHosts)
	}
	if m.Beyond > 0 {
		fmt.Fprintf(&b, "# omitted: everything behind %s (too many switches, or too far away)\n", count(m.Beyond, "link", "links"))
	}
	for i, id := range m.IDs {
		fmt.Fprintf(&b, "# %v is %s\n", id, m.Topology.Hosts[i])
	}
	b.WriteString(m.Topology.Text())
	return b.String()
}

// mapJSON is the JSON form of a Map.
type mapJSON struct {
	Ports    int         `json:"ports"`
	Mapper   string      `json:"mapper"`
	Hosts    []hostJSON  `json:"hosts"`
	Switches []string    `json:"switches"`
	Cables   [][2]string `json:"cables"`
	Probes   uint64      `json:"probes"`
	Lost     uint64      `json:"lost"`
	Nanos    int64       `json:"duration_ns"`
	Twice    []string    `json:"claimed_twice"`
	TooMany  int         `json:"hosts_left_out"`
	Beyond   int         `json:"links_left_out"`
}

type hostJSON struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// MarshalJSON returns the map as a JSON object: the names of hosts, switches and the mapper's host,
// and cables as pairs of ends. An end is a host's name, or a switch's name and a port, such as
// "s0:3".
func (m *Map) MarshalJSON() ([]byte, error) {
	t := &m.Topology
	j := mapJSON{Ports: t.Ports, Mapper: t.Hosts[m.Mapper], Hosts: []hostJSON{}, Switches: append([]string{}, t.Switches...), Cables: [][2]string{},
		Probes: m.Probes, Lost: m.Lost, Nanos: int64(m.Duration), Twice: texts(m.Twice), TooMany: m.TooMany, Beyond: m.Beyond}
	for i, name := range t.Hosts {
		j.Hosts = append(j.Hosts, hostJSON{name, m.IDs[i].String()})
	}
	for _, c := range t.Cables {
		j.Cables = append(j.Cables, [2]string{t.End(c.A), t.End(c.B)})
	}
	return json.Marshal(j)
}

func texts(ids []ethertype.MAC) []string {
	s := []string{}
	for _, id := range ids {
		s = append(s, id.String())
	}
	return s
}

var _ json.Marshaler = (*Map)(nil)
