// Package conformance is the test suite that vipl passes on every link. It contains the rules of
// VIPL 1.0, each as a named case. Each rule runs with both kinds of wait, and on each reliability
// level to which it applies.
//
// A rule is a function that controls both ends from one goroutine: the NICs A and B on one segment,
// or one NIC that is both, whose VIs connect with each other. The rule waits only through Case. So
// the same function runs over a simulated segment in virtual time and over real links, and waits
// either by loops of Done calls (Spin) or by blocking Wait calls (Block).
//
// The source of a rule names a section of the VIPL reference. V means that the reference was
// checked against the standard, M that it was written from memory. "doc" means a rule of this
// library's own documentation.
package conformance

import (
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Link is a named kind of link between two NICs. Setup prepares resources for the whole suite, such
// as network namespaces. It returns a function that opens two links of one segment. The suite calls
// this function whenever a rule needs new links.
type Link struct {
	Name  string
	Setup func(t testing.TB) func() (Ends, error)
}

// Ends holds the links of NICs A and B. If both are the same link, B is the same NIC as A. World is
// the simulated segment, or nil.
type Ends struct {
	Links [2]transport.Link
	World *sim.World
}

// Wait is how the rules wait for events.
type Wait uint8

// The kinds of wait.
const (
	Spin  Wait = iota // loops of Done calls; only these calls drive the NICs
	Block             // blocking calls; the engine never spins
)

// String returns the kind's name.
func (w Wait) String() string {
	if w == Block {
		return "block"
	}
	return "spin"
}

// rule is one rule of VIPL. It runs once on each of its levels, or once in all if levels is
// anyLevel.
type rule struct {
	call   string // name of the VIPL call
	name   string // condition and outcome
	source string
	levels reliability.Level
	run    func(c *Case)
}

// Sets of levels. anyLevel is for rules that do not depend on the level.
const (
	anyLevel   reliability.Level = 0
	unreliable                   = reliability.Unreliable
	delivery                     = reliability.ReliableDelivery
	reception                    = reliability.ReliableReception
	reliable                     = delivery | reception
	allLevels                    = unreliable | reliable
)

// own returns the rule with NICs that no other rule uses, because the rule closes or damages them.
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

// Count returns the number of rules, the number of cases if each level of a rule counts as one, and
// the number of rules for each call.
func Count() (distinct, byLevel int, calls map[string]int) {
	calls = map[string]int{}
	for _, r := range rules() {
		distinct++
		byLevel += len(r.levelsOf())
		calls[r.call]++
	}
	return distinct, byLevel, calls
}

// Duplicates returns the names that several rules of one call share.
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
// <link>/<wait>/<level>/<call>/<rule>. Several goroutines may run different links at the same time.
// This saves time, because a real link spends most of it waiting for the kernel to close sockets.
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

// runAll runs rules on a level, as subtests grouped by call.
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
