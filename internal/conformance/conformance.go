// Package conformance is the suite that every way of running vipl passes: the
// rules of VIPL 1.0 one by one, each a named case, on any link, with both kinds
// of wait and on each reliability level that the rule speaks of.
//
// A rule is a script in one goroutine that holds both ends: NICs A and B on one
// segment, or one NIC that is both, whose VIs talk to each other. What waits in it
// goes through Case, so that the same script runs over a simulated segment in
// virtual time and over real links, by loops of Done calls (Spin) and by blocking
// Wait calls (Block).
//
// Sources name a section of the VIPL reference, with V for what was verified
// there and M for what it gives from memory; "doc" is a rule of this library's
// own documentation.
package conformance

import (
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Link is a way to join two NICs, by name. Setup prepares what lasts for the
// whole suite, such as network namespaces, and returns how to open two links
// at two stations of one segment, as often as a rule needs fresh ones.
type Link struct {
	Name  string
	Setup func(t testing.TB) func() (Ends, error)
}

// Ends are the links of NICs A and B: one and the same if B is to be A. World is
// the segment if it is simulated.
type Ends struct {
	Links [2]transport.Link
	World *sim.World
}

// Wait says how the rules wait for what must come.
type Wait uint8

// The kinds of wait.
const (
	Spin  Wait = iota // loops of Done calls, which alone drive both NICs
	Block             // blocking calls; the engine never spins
)

// String returns the kind's name.
func (w Wait) String() string {
	if w == Block {
		return "block"
	}
	return "spin"
}

// rule is one rule of VIPL. Its levels are those that it is run on: none for a
// rule that has nothing to do with levels.
type rule struct {
	call   string // of VIPL
	name   string // condition and outcome
	source string
	levels reliability.Level
	run    func(c *Case)
}

// Sets of levels; anyLevel is for rules that levels do not matter to.
const (
	anyLevel   reliability.Level = 0
	unreliable                   = reliability.Unreliable
	delivery                     = reliability.ReliableDelivery
	reception                    = reliability.ReliableReception
	reliable                     = delivery | reception
	allLevels                    = unreliable | reliable
)

// own marks a rule that gets NICs of its own because it closes or spoils them.
func (r rule) own() rule {
	run := r.run
	r.run = func(c *Case) { c.reopen(nil); run(c) }
	return r
}

// levelsOf returns the levels that the rule runs on, one at a time.
func (r *rule) levelsOf() []reliability.Level {
	if r.levels == anyLevel {
		return []reliability.Level{anyLevel}
	}
	var ls []reliability.Level
	for _, l := range []reliability.Level{unreliable, delivery, reception} {
		if r.levels&l != 0 {
			ls = append(ls, l)
		}
	}
	return ls
}

func levelName(l reliability.Level) string {
	if l == anyLevel {
		return "any"
	}
	return l.String()
}

// rules returns all rules, in the order of the VIPL reference.
func rules() []rule {
	var all []rule
	for _, group := range groups {
		all = append(all, group()...)
	}
	return all
}

func group(rs []rule) func() []rule { return func() []rule { return rs } }

// Count returns how many rules there are, how many cases they make with their
// levels counted one by one, and the number of rules for each call.
func Count() (distinct, byLevel int, calls map[string]int) {
	calls = map[string]int{}
	for _, r := range rules() {
		distinct++
		byLevel += len(r.levelsOf())
		calls[r.call]++
	}
	return distinct, byLevel, calls
}

// Duplicates returns the names that more than one rule of a call has.
func Duplicates() (names []string) {
	seen := map[string]bool{}
	for _, r := range rules() {
		if name := r.call + "/" + r.name; seen[name] {
			names = append(names, name)
		} else {
			seen[name] = true
		}
	}
	return names
}

// Run runs every rule over a link on each of its levels, as subtests
// <link>/<wait>/<level>/<call>/<rule>. Goroutines may run links at the same time,
// which saves most of the time where it is the kernel's that closes sockets.
func Run(t *testing.T, l Link, waits ...Wait) {
	t.Run(l.Name, func(t *testing.T) {
		open := l.Setup(t)
		all := rules()
		for _, wait := range waits {
			t.Run(wait.String(), func(t *testing.T) {
				s := &segment{open: open, wait: wait}
				defer s.close()
				for _, level := range []reliability.Level{anyLevel, unreliable, delivery, reception} {
					rs := at(level, all)
					t.Run(levelName(level), func(t *testing.T) { s.runAll(t, rs, level) })
				}
			})
		}
	})
}

// at returns the rules that run on a level.
func at(level reliability.Level, all []rule) (rs []rule) {
	for _, r := range all {
		if slices.Contains(r.levelsOf(), level) {
			rs = append(rs, r)
		}
	}
	return rs
}

// runAll runs rules on a level, those of a call below its name. They need not
// lie together.
func (s *segment) runAll(t *testing.T, rs []rule, level reliability.Level) {
	byCall := map[string][]rule{}
	var order []string
	for _, r := range rs {
		if byCall[r.call] == nil {
			order = append(order, r.call)
		}
		byCall[r.call] = append(byCall[r.call], r)
	}
	for _, call := range order {
		t.Run(call, func(t *testing.T) {
			for _, r := range byCall[call] {
				t.Run(r.name, func(t *testing.T) { s.run(t, &r, level) })
			}
		})
	}
}
