package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Kind is the kind of a Cut.
type Kind int

// The kinds of cuts.
const (
	Flap      Kind = iota // the links of some ranks lose their carrier
	Partition             // groups of ranks cannot reach each other; carriers stay up
	MTUDrop               // frames longer than an MTU are silently lost on the path
)

var kindNames = [...]string{"flap", "partition", "mtu-drop"}

// String returns the kind's name, which is also the name of the flag of `bobnet lab`.
func (k Kind) String() string { return kindNames[k] }

// Cut is a temporary failure of links while a job runs. Zero times mean from the job's start, and
// until its end.
type Cut struct {
	Kind   Kind
	Groups [][]int       // of Partition: ranks that stay together; all others are one more group. Of Flap: one group, the ranks it is about
	MTU    int           // of MTUDrop: the longest frame that still passes, in bytes without the Ethernet header
	After  time.Duration // from the start of the job
	For    time.Duration // how long; 0: until the job has ended
}

// String returns the text that ParseCut reads.
func (c Cut) String() string {
	text := strconv.Itoa(c.MTU)
	if c.Kind != MTUDrop {
		groups := make([]string, len(c.Groups))
		for i, g := range c.Groups {
			groups[i] = strings.Trim(strings.ReplaceAll(fmt.Sprint(g), " ", ","), "[]")
		}
		text = strings.Join(groups, "/")
	}
	if c.After > 0 {
		text += "@" + c.After.String()
	}
	if c.For > 0 {
		text += "+" + c.For.String()
	}
	return text
}

// ParseCut parses what a cut is about and, if it does not last for the whole job,
// when: "WHAT@START+DURATION", either of which may be left out. WHAT is an MTU for
// MTUDrop, a list of ranks such as "0,2-4" for Flap, and such lists with slashes
// between them for Partition.
func ParseCut(kind Kind, text string) (Cut, error) {
	c := Cut{Kind: kind}
	what, lasts, hasLength := strings.Cut(text, "+")
	what, start, hasStart := strings.Cut(what, "@")
	err := c.parseWhat(what)
	if err == nil && hasStart {
		if c.After, err = time.ParseDuration(start); err != nil || c.After < 0 {
			err = fmt.Errorf("invalid start time %q", start)
		}
	}
	if err == nil && hasLength {
		if c.For, err = time.ParseDuration(lasts); err != nil || c.For <= 0 {
			err = fmt.Errorf("invalid duration %q", lasts)
		}
	}
	if err != nil {
		return c, fmt.Errorf("lab: %v %q: %w (example: %s)", kind, text, err, cutExamples[kind])
	}
	return c, nil
}

// parseWhat reads what the cut is about.
func (c *Cut) parseWhat(what string) (err error) {
	if c.Kind == MTUDrop {
		if c.MTU, err = strconv.Atoi(what); err != nil {
			return fmt.Errorf("invalid MTU %q", what)
		}
		return nil
	}
	for list := range strings.SplitSeq(what, "/") {
		group, err := parseRanks(list)
		if err != nil {
			return err
		}
		c.Groups = append(c.Groups, group)
	}
	return nil
}

var cutExamples = [...]string{"1@3s+500ms", "0,1/2,3@3s+5s", "1500@3s+5s"}

// parseRanks reads a list such as "0,2-4".
func parseRanks(list string) (ranks []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 0 || last < first || last >= MaxRanks {
			return nil, fmt.Errorf("invalid rank or range of ranks %q", part)
		}
		for rank := first; rank <= last; rank++ {
			ranks = append(ranks, rank)
		}
	}
	return ranks, nil
}

// check validates c for a lab with the Config of, which has its defaults.
func (c Cut) check(of Config) error {
	n, mtu := of.N, of.MTU
	bad := func(format string, args ...any) error {
		return fmt.Errorf("lab: %v %v: %s", c.Kind, c, fmt.Sprintf(format, args...))
	}
	if c.After < 0 || c.For < 0 {
		return bad("start and duration must not be negative")
	}
	if c.Kind == MTUDrop {
		if c.MTU < ethertype.MinMTU || c.MTU >= mtu {
			return bad("want an MTU of at least %d and less than the lab's MTU %d", ethertype.MinMTU, mtu)
		}
		return nil
	}
	all := slices.Concat(c.Groups...)
	for i, rank := range all {
		if rank < 0 || rank >= n {
			return bad("rank %d: want 0 to %d", rank, n-1)
		}
		if slices.Contains(all[:i], rank) {
			return bad("rank %d is listed twice", rank)
		}
	}
	if c.Kind == Partition && len(c.Groups) == 1 && len(all) == n {
		return bad("all ranks are in one group, so nothing is separated")
	}
	for rank := range n {
		if first := of.host(rank) * of.PerHost; c.group(rank) != c.group(first) {
			return bad("ranks %d and %d share a namespace and its link (list all ranks of the namespace)", first, rank)
		}
	}
	return nil
}

// group returns the index of a rank's group. All ranks that are in no group form one more group.
func (c Cut) group(rank int) int {
	for i, g := range c.Groups {
		if slices.Contains(g, rank) {
			return i
		}
	}
	return len(c.Groups)
}
