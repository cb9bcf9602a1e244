package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Segment is the directory that needs no daemon: each process answers for its own names
// by the name service of the NIC. It proves no users and notices no deaths but those that
// connections tell of.
type Segment struct {
	nic   *vipl.NIC
	scope string // separates groups of processes, such as jobs

	mu    sync.Mutex
	self  provider.Identity
	names map[string]bool // advertised
}

// NewSegment returns a directory over nic. Processes find those of equal scope only.
func NewSegment(nic *vipl.NIC, scope string) *Segment {
	return &Segment{nic: nic, scope: scope, names: map[string]bool{}}
}

// A process is known by its number alone, and by node and number.
func (s *Segment) byNumber(process uint32) string {
	return fmt.Sprintf("vmmc/%s/%d", s.scope, process)
}

func (s *Segment) byNode(node ethertype.MAC, process uint32) string {
	return fmt.Sprintf("vmmc/%s/%v/%d", s.scope, node, process)
}

func (s *Segment) byWord(word string) string { return "vmmc/" + s.scope + "=" + word }

// Enter implements Directory.
func (s *Segment) Enter(self provider.Identity) error {
	s.mu.Lock()
	s.self = self
	s.mu.Unlock()
	if err := s.advertise(s.byNode(self.Addr.MAC, self.Process)); err != nil {
		return err
	}
	return s.advertise(s.byNumber(self.Process))
}

func (s *Segment) advertise(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.nic.Advertise(name, s.self.Addr); err != nil {
		return err
	}
	s.names[name] = true
	return nil
}

// Export implements Directory. Only words need to be known on the segment.
func (s *Segment) Export(_ uint32, word string) error {
	if word == "" {
		return nil
	}
	return s.advertise(s.byWord(word))
}

// Unexport implements Directory.
func (s *Segment) Unexport(_ uint32, word string) {
	if word != "" {
		s.withdraw(s.byWord(word))
	}
}

func (s *Segment) withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	s.nic.Withdraw(name)
}

// Match implements Directory. It asks until somebody answers.
func (s *Segment) Match(ctx context.Context, name Name) (Found, error) {
	key := s.byNumber(name.Process)
	switch {
	case name.Word != "":
		key = s.byWord(name.Word)
	case name.Node != (ethertype.MAC{}):
		key = s.byNode(name.Node, name.Process)
	}
	for {
		began := s.nic.Now()
		addr, err := s.nic.Lookup(ctx, key)
		if err == nil {
			return Found{Addr: addr}, nil
		}
		// A look-up without a deadline gives up after a while, one with a deadline at that.
		if waited := time.Duration(s.nic.Now() - began); waited < vipl.DefaultConnectTimeout || !errors.Is(err, vipl.ErrNameService) {
			return Found{}, err
		}
	}
}

// Prove implements Directory.
func (s *Segment) Prove(_ provider.Ticket, _ provider.Identity, answer func(uid uint32, proven bool)) {
	answer(0, false)
}

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
