package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Segment is the directory that needs no daemon: each process answers for its own names
// with the name service of the NIC. It proves no users. It detects no deaths, except for
// those that connections report.
type Segment struct {
	nic   *vipl.NIC
	scope string // separates groups of processes, such as jobs

	mu    sync.Mutex
	self  provider.Identity
	names map[string]bool // advertised
}

// NewSegment returns a directory over nic. Processes find only processes of the same
// scope.
func NewSegment(nic *vipl.NIC, scope string) *Segment {
	return &Segment{nic: nic, scope: scope, names: map[string]bool{}}
}

// A process has two names on the segment: its number alone, and its node with its number.

// NumberKey returns the first of these names, NodeKey the second.
func NumberKey(scope string, process uint32) string { return fmt.Sprintf("vmmc/%s/%d", scope, process) }

// NodeKey returns the name of a process at a node.
func NodeKey(scope string, node ethertype.MAC, process uint32) string {
	return fmt.Sprintf("vmmc/%s/%v/%d", scope, node, process)
}

// WordKey returns the name of a word.
func WordKey(scope, word string) string { return "vmmc/" + scope + "=" + word }

// Key returns the name on the segment under which to look for n.
func (n Name) Key(scope string) string {
	switch {
	case n.Word != "":
		return WordKey(scope, n.Word)
	case n.Node != (ethertype.MAC{}):
		return NodeKey(scope, n.Node, n.Process)
	}
	return NumberKey(scope, n.Process)
}

// describe describes, for error messages, what Key looks for.
func (n Name) describe(scope string) string {
	text := fmt.Sprintf("VMMC process %d", n.Process)
	switch {
	case n.Word != "":
		text = fmt.Sprintf("the word %q of VMMC", n.Word)
	case n.Node != (ethertype.MAC{}):
		text += fmt.Sprintf(" of node %v", n.Node)
	}
	if scope != "" {
		text += fmt.Sprintf(" in job %q", scope)
	}
	return text
}

// reword replaces the key in an error of the NIC by a description of the name.
func (s *Segment) reword(err error, name Name) error {
	return errclass.Reword(err, strconv.Quote(name.Key(s.scope)), name.describe(s.scope))
}

// Enter implements Directory.
func (s *Segment) Enter(self provider.Identity) error {
	s.mu.Lock()
	s.self = self
	s.mu.Unlock()
	if err := s.advertise(Name{Node: self.Addr.MAC, Process: self.Process}); err != nil {
		return err
	}
	return s.advertise(Name{Process: self.Process})
}

func (s *Segment) advertise(name Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := name.Key(s.scope)
	if err := s.nic.Advertise(key, s.self.Addr); err != nil {
		return s.reword(err, name)
	}
	s.names[key] = true
	return nil
}

// Export implements Directory. Only words need to be known on the segment.
func (s *Segment) Export(_ uint32, word string) error {
	if word == "" {
		return nil
	}
	return s.advertise(Name{Word: word})
}

// Unexport implements Directory.
func (s *Segment) Unexport(_ uint32, word string) {
	if word != "" {
		s.withdraw(WordKey(s.scope, word))
	}
}

func (s *Segment) withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	s.nic.Withdraw(name)
}

// Match implements Directory. It asks until a process answers.
func (s *Segment) Match(ctx context.Context, name Name) (Found, error) {
	addr, err := Look(ctx, s.nic, name.Key(s.scope))
	return Found{Addr: addr}, s.reword(err, name)
}

// Look asks the segment for a name until a NIC answers, or ctx ends.
func Look(ctx context.Context, nic *vipl.NIC, key string) (ethertype.Addr, error) {
	for {
		began := nic.Now()
		addr, err := nic.Lookup(ctx, key)
		if err == nil {
			return addr, nil
		}
		// A look-up without a deadline gives up after a while, and a look-up with a
		// deadline at that deadline.
		if waited := time.Duration(nic.Now() - began); waited < vipl.DefaultConnectTimeout || !errors.Is(err, vipl.ErrNameService) {
			return addr, err
		}
	}
}

// Prove implements Directory.
func (s *Segment) Prove(_ provider.Ticket, _ provider.Identity, answer func(uid uint32, proven bool)) {
	answer(0, false)
}

// Spent implements Directory.
func (s *Segment) Spent(provider.Ticket) {}

// Met implements Directory.
func (s *Segment) Met(ethertype.MAC) {}

// OnDeath implements Directory.
func (s *Segment) OnDeath(func(addr ethertype.Addr, incarnation uint64)) {}

// Close implements Directory.
func (s *Segment) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.names {
		s.nic.Withdraw(name)
	}
	clear(s.names)
}
