package vrpc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// program is a registered Program.
type program struct {
	number, version uint32
	name            string
	procedures      map[uint32]*Procedure
	authorize       func(*Call) AuthStat
	inPlace         bool
	resultsInPlace  bool
	stats           programStats
}

// table is the dispatch table: the versions of each program. It is replaced as a whole,
// so that calls read it without a lock.
type table map[uint32]map[uint32]*program

// Register adds a version of a program to the dispatch table. Registering it twice is an
// error. Calls find it when Register returns, over every transport. Registering
// it at rpcbind is a separate step.
func (s *Server) Register(p *Program) error {
	if err := p.check(); err != nil {
		return err
	}
	entry := &program{
		number: p.Number, version: p.Version, name: p.Name,
		procedures: make(map[uint32]*Procedure), authorize: p.Authorize, inPlace: p.InPlace, resultsInPlace: p.ResultsInPlace,
	}
	for _, proc := range p.Procedures {
		entry.procedures[proc.Number] = &proc
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.table.Load()
	if old[p.Number][p.Version] != nil {
		return fmt.Errorf("vrpc: program %d version %d is registered already", p.Number, p.Version)
	}
	next := maps.Clone(old)
	versions := maps.Clone(old[p.Number])
	if versions == nil {
		versions = make(map[uint32]*program)
	}
	versions[p.Version] = entry
	next[p.Number] = versions
	s.table.Store(&next)
	return nil
}

// Unregister takes a version of a program out of the dispatch table, and reports whether it
// was there. Calls that have been dispatched go on.
func (s *Server) Unregister(number, version uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.table.Load()
	if old[number][version] == nil {
		return false
	}
	next := maps.Clone(old)
	versions := maps.Clone(old[number])
	delete(versions, version)
	next[number] = versions
	if len(versions) == 0 {
		delete(next, number)
	}
	s.table.Store(&next)
	return true
}

// find returns the program that is called, or ProgUnavail or ProgMismatch.
func (s *Server) find(c *Call) (*program, error) {
	versions, ok := (*s.table.Load())[c.header.prog]
	if !ok {
		s.stats.ProgUnavail.Add(1)
		return nil, ProgUnavail
	}
	p := versions[c.header.vers]
	if p == nil {
		s.stats.ProgMismatch.Add(1)
		return nil, ProgMismatch
	}
	return p, nil
}

// versions returns the lowest and the highest version of a program.
func (s *Server) versions(number uint32) (low, high uint32) {
	versions := slices.Sorted(maps.Keys((*s.table.Load())[number]))
	if len(versions) == 0 {
		return 0, 0 // it has just been unregistered
	}
	return versions[0], versions[len(versions)-1]
}

// programs returns all that is registered, by number and version.
func (s *Server) programs() (list []*program) {
	for _, versions := range *s.table.Load() {
		list = slices.AppendSeq(list, maps.Values(versions))
	}
	slices.SortFunc(list, func(a, b *program) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.version, b.version))
	})
	return list
}
