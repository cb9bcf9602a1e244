package launch

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Host is a machine to run ranks on.
type Host struct {
	Name  string // as ssh takes it: host, user@host, an IPv6 address without brackets
	Slots int    // number of ranks before the next host is used
}

// ParseHosts parses comma-separated hosts such as "a,b:2". A host has one slot by default.
func ParseHosts(list string) ([]Host, error) {
	var hosts []Host
	for text := range strings.SplitSeq(list, ",") {
		h, err := parseHost(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return unique(hosts)
}

// ReadHosts reads a file of hosts, one per line: "host", "host:4" or "host slots=4". # starts a
// comment.
func ReadHosts(r io.Reader) ([]Host, error) {
	var hosts []Host
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		text = fields[0]
		if len(fields) == 2 && strings.HasPrefix(fields[1], "slots=") {
			text += ":" + strings.TrimPrefix(fields[1], "slots=")
		} else if len(fields) > 1 {
			return nil, fmt.Errorf("line %d: %q: want a host, host:4 or host slots=4", n, in.Text())
		}
		h, err := parseHost(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		hosts = append(hosts, h)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no host listed")
	}
	return unique(hosts)
}

// maxSlots is the maximum number of slots of a host.
const maxSlots = 4096

// parseHost parses name, name:slots, and for IPv6 [address] or [address]:slots. A user and @ may
// precede it.
func parseHost(text string) (Host, error) {
	name, number, counted := strings.Cut(text, ":")
	valid := true
	if open := strings.IndexByte(text, '['); open >= 0 {
		address, rest, closed := strings.Cut(text[open+1:], "]")
		ip, err := netip.ParseAddr(address)
		valid = closed && err == nil && ip.Is6() && (open == 0 || text[open-1] == '@')
		name = text[:open] + address // the format of ssh
		number, counted = strings.CutPrefix(rest, ":")
		valid = valid && (counted || rest == "")
	}
	h := Host{Name: name, Slots: 1}
	var err error
	if counted {
		h.Slots, err = strconv.Atoi(number)
	}
	// ssh would parse a name that begins with - as an option.
	if !valid || err != nil || name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\"'\\$`;|&<>(){}*?") || h.Slots < 1 || h.Slots > maxSlots {
		return h, fmt.Errorf("invalid host %q: want a name or [IPv6 address], optionally followed by :slots (1 to %d)", text, maxSlots)
	}
	return h, nil
}

// numeric reports whether a host is named by an IPv6 address.
func (h Host) numeric() bool { return strings.Contains(h.Name, ":") }

// unique merges repeated hosts and adds up their slots.
func unique(hosts []Host) ([]Host, error) {
	var list []Host
	at := map[string]int{}
	for _, h := range hosts {
		i, known := at[h.Name]
		if !known {
			at[h.Name] = len(list)
			list = append(list, h)
			continue
		}
		if list[i].Slots += h.Slots; list[i].Slots > maxSlots {
			return nil, fmt.Errorf("host %s has more than %d slots", h.Name, maxSlots)
		}
	}
	return list, nil
}

// local reports whether h is this host, which needs no ssh.
func (h Host) local() bool {
	own, err := os.Hostname()
	return h.Name == "localhost" || err == nil && h.Name == own
}

// Order is the assignment of ranks to hosts.
type Order string

// The orders.
const (
	ByCore Order = "core" // fill each host's slots in turn
	ByNode Order = "node" // assign ranks to hosts round-robin
)

// Assign returns the index of the host of each of n ranks. When all slots are used, it starts again
// with the first host; Run prints a warning.
func Assign(n int, hosts []Host, by Order) []int {
	seats := make([]int, 0, n)
	for len(seats) < n {
		free := make([]int, len(hosts))
		for i, h := range hosts {
			free[i] = h.Slots
		}
		for left := true; left && len(seats) < n; {
			left = false
			for i := range hosts {
				take := free[i]
				if by == ByNode {
					take = min(1, take)
				}
				for range min(take, n-len(seats)) {
					seats = append(seats, i)
					free[i]--
					left = true
				}
			}
		}
	}
	return seats
}

// mapping formats seats as PMI_process_mapping: blocks of the first node, the number of nodes, and
// the number of ranks on each. It returns "" if the value would be too long.
func mapping(seats []int) string {
	var b strings.Builder
	b.WriteString("(vector")
	for at := 0; at < len(seats); {
		run := 1
		for at+run < len(seats) && seats[at+run] == seats[at] {
			run++
		}
		fmt.Fprintf(&b, ",(%d,1,%d)", seats[at], run)
		at += run
	}
	b.WriteString(")")
	if b.Len() > 900 {
		return ""
	}
	return b.String()
}
