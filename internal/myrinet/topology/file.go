package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
)

// ErrFile is wrapped by every error of ParseFile.
var ErrFile = errors.New("myrinet: fabric file")

// File is a topology that was read from a text, with the line numbers of its parts.
//
// A line of the text is empty or has one of these forms; # begins a comment:
//
//	ports 8            of each switch; 8 if there is no such line
//	host h0 h1         names of hosts, each with one card
//	switch s0 s1       names of switches
//	link h0 s0:3       a cable, from a host or a switch's port to another one
//	link s0:0 s1:7
//
// Names consist of letters, digits and -_. and begin with a letter or digit. They are unique. Ports
// are numbered from 0. The lines may be in any order.
type File struct {
	Topology
	HostLines, SwitchLines, CableLines []int // line of each, from 1
}

// maxName is the maximum length of a name in a fabric file, in bytes.
const maxName = 32

// defaultPorts is the number of ports of the switches in a file without a ports line.
const defaultPorts = 8

// ParseFile parses a fabric file. The error wraps ErrFile and names the line. A topology that
// ParseFile returns passes Check.
func ParseFile(text string) (*File, error) {
	p := &fileParser{File: &File{Topology: Topology{Ports: defaultPorts}}, nodes: map[string]named{}, taken: map[Plug]int{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "#")
		if words := strings.Fields(line); len(words) > 0 {
			if err := p.line(n, words); err != nil {
				return nil, atLine(n, err)
			}
		}
	}
	for _, l := range p.links {
		if err := p.link(l.line, l.ends); err != nil {
			return nil, atLine(l.line, err)
		}
	}
	return p.File, nil
}

func atLine(n int, err error) error { return fmt.Errorf("%w, line %d: %w", ErrFile, n, err) }

// fileParser reads one file. It resolves links at the end, when all names and the number of ports
// are known.
type fileParser struct {
	*File
	portsLine int
	nodes     map[string]named
	taken     map[Plug]int // line of the cable at each plug
	links     []struct {
		line int
		ends []string
	}
}

type named struct {
	Plug
	line int
}

func (p *fileParser) line(n int, words []string) error {
	switch what, args := words[0], words[1:]; what {
	case "ports":
		return p.ports(n, args)
	case "host", "switch":
		return p.names(n, what == "host", args)
	case "link":
		if len(args) != 2 {
			return fmt.Errorf("a link has two ends, found %d (example: link h0 s0:3)", len(args))
		}
		p.links = append(p.links, struct {
			line int
			ends []string
		}{n, args})
		return nil
	default:
		return fmt.Errorf("invalid first word %q: want ports, host, switch or link", what)
	}
}

func (p *fileParser) ports(n int, args []string) error {
	if p.portsLine != 0 {
		return fmt.Errorf("line %d already sets the number of ports: delete one of the lines", p.portsLine)
	}
	p.portsLine = n
	v, err := strconv.Atoi(strings.Join(args, " "))
	if err != nil || v < 2 || v > crossbar.MaxPorts {
		return fmt.Errorf("invalid number of ports %q: want 2 to %d", strings.Join(args, " "), crossbar.MaxPorts)
	}
	p.Ports = v
	return nil
}

func (p *fileParser) names(n int, host bool, names []string) error {
	if len(names) == 0 {
		return errors.New("a name is missing")
	}
	for _, name := range names {
		if !ValidName(name) {
			return fmt.Errorf("invalid name %q: want up to %d letters, digits and -_. that begin with a letter or digit", name, maxName)
		}
		if old, ok := p.nodes[name]; ok {
			return fmt.Errorf("%s was named on line %d: choose another name", name, old.line)
		}
		if host {
			p.nodes[name] = named{AtHost(len(p.Hosts)), n}
			p.Hosts, p.HostLines = append(p.Hosts, name), append(p.HostLines, n)
		} else {
			p.nodes[name] = named{AtSwitch(len(p.Switches), 0), n}
			p.Switches, p.SwitchLines = append(p.Switches, name), append(p.SwitchLines, n)
		}
	}
	return nil
}

// ValidName reports whether a name is valid for hosts and switches in a fabric file.
func ValidName(name string) bool {
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

func (p *fileParser) link(n int, ends []string) error {
	var plugs [2]Plug
	for i, end := range ends {
		plug, err := p.end(end)
		if err != nil {
			return err
		}
		if i == 1 && plug == plugs[0] {
			return fmt.Errorf("the link leads from %s to itself: give it another end", p.Name(plug))
		}
		if old, ok := p.taken[plug]; ok {
			return fmt.Errorf("%s already has the cable of line %d: choose a free port", p.Name(plug), old)
		}
		plugs[i] = plug
	}
	p.taken[plugs[0]], p.taken[plugs[1]] = n, n
	p.Cables = append(p.Cables, Join{plugs[0], plugs[1]})
	p.CableLines = append(p.CableLines, n)
	return nil
}

// end resolves the end of a link.
func (p *fileParser) end(end string) (Plug, error) {
	name, port, withPort := strings.Cut(end, ":")
	node, ok := p.nodes[name]
	switch {
	case !ok:
		return Plug{}, fmt.Errorf("no host or switch %q: name it on a line that begins with host or switch", name)
	case node.Host && withPort:
		return Plug{}, fmt.Errorf("%q: a host has one card with one port: write %s", end, name)
	case node.Host:
		return node.Plug, nil
	case !withPort:
		return Plug{}, fmt.Errorf("%q is a switch: say which port, as in %s:0", end, name)
	}
	v, err := strconv.Atoi(port)
	if err != nil || v < 0 || v >= p.Ports {
		return Plug{}, fmt.Errorf("switch %s has no port %q: they are 0 to %d", name, port, p.Ports-1)
	}
	return AtSwitch(node.Node, v), nil
}

// Text returns the topology as a fabric file.
func (t *Topology) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ports %d\n", t.Ports)
	for _, h := range t.Hosts {
		fmt.Fprintf(&b, "host %s\n", h)
	}
	for _, s := range t.Switches {
		fmt.Fprintf(&b, "switch %s\n", s)
	}
	for _, c := range t.Cables {
		fmt.Fprintf(&b, "link %s %s\n", t.End(c.A), t.End(c.B))
	}
	return b.String()
}

// End returns the end of a cable in the notation of a fabric file: h0, or s0:3.
func (t *Topology) End(p Plug) string {
	if p.Host {
		return t.Hosts[p.Node]
	}
	return fmt.Sprintf("%s:%d", t.Switches[p.Node], p.Port)
}
