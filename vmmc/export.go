package vmmc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Export is a part of this process's memory that other processes may write to.
type Export struct {
	p       *Process
	id      uint32
	buf     []byte // the program's own
	to      []byte // where writes go: buf, or what Redirect has named
	policy  Policy
	handler Handler
	words   []string
	grants  map[*provider.Grant]struct{}
	moving  map[*provider.Grant]struct{} // grants whose importers have not confirmed the last Redirect
	asked   []*provider.Request          // imports that wait for the end of the Redirect
	late    int                          // messages that were written to the old memory
	gone    bool
}

// Export makes buf a receive buffer (SBL_ExportRecvBuf), named by the process and id, for importers
// that the policy allows. Nothing is allocated or copied: data from importers is written to buf at
// once, and the program may read and change it at any time (with Word, Spin and WaitWord). buf must
// stay allocated until Unexport, and must not overlap another export. handler may be nil;
// notifications then have no effect.
//
// If another process of the operating system serves the card (Config.Card), buf must be memory that
// AllocMem has returned: that process writes to it. For other memory the error wraps ErrArgument.
func (p *Process) Export(buf []byte, id uint32, policy Policy, handler Handler) (*Export, error) {
	e := &Export{p: p, id: id, buf: buf, to: buf, policy: policy.copied(), handler: handler, grants: map[*provider.Grant]struct{}{}}
	p.mu.Lock()
	err := p.enter(e)
	p.unlock()
	if err != nil {
		return nil, err
	}
	if err := p.dir.Export(id, ""); err != nil {
		e.Unexport(context.Background())
		return nil, err
	}
	return e, nil
}

// AllocMem returns n bytes of zeroed memory that the process can export over every kind of NIC and card.
// A send from this memory is not copied if its source is aligned like its destination. The memory stays
// valid until FreeMem, even after Close. If another process serves the card (Config.Card), the memory is
// not garbage collected before FreeMem. The error wraps ErrNoRoom if the serving process has no room for
// more memory, or none for this user.
func (p *Process) AllocMem(n int) ([]byte, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: cannot allocate %d bytes", ErrArgument, n)
	}
	if p.life.Err() != nil {
		return nil, ErrClosed
	}
	mem, err := p.via.AllocMem(n)
	if err != nil {
		return nil, typed(err)
	}
	return mem, nil
}

// FreeMem frees memory that AllocMem has returned. No export and no send may use the memory any more.
// The program must not use it afterwards.
func (p *Process) FreeMem(mem []byte) { p.via.FreeMem(mem) }

func (p *Process) enter(e *Export) error {
	if p.closed {
		return ErrClosed
	}
	if p.exports[e.id] != nil {
		return fmt.Errorf("%w: %d", ErrExists, e.id)
	}
	if err := p.overlaps(e.buf, nil); err != nil {
		return err
	}
	if err := p.via.Reaches(e.buf); err != nil {
		return typed(err)
	}
	p.exports[e.id] = e
	p.askAgain()
	return nil
}

// askAgain examines again the requests that wait for exports. Requests whose export still
// does not exist return to their places in the queue.
func (p *Process) askAgain() {
	asked := p.asked
	p.asked, p.withdrawn = nil, 0
	for _, r := range asked {
		if !r.Gone {
			(*up)(p).Asked(r)
		}
	}
}

// overlaps returns an error if buf overlaps the memory of an export other than one given
// export.
func (p *Process) overlaps(buf []byte, but *Export) error {
	lo := addressOf(buf)
	for _, e := range p.exports {
		for i, other := range [][]byte{e.buf, e.to} {
			at := addressOf(other)
			if (e != but || i == 0) && lo < at+uintptr(len(other)) && at < lo+uintptr(len(buf)) {
				return fmt.Errorf("%w: %d bytes at %#x, and export %d has %d at %#x", errOverlap, len(buf), lo, e.id, len(other), at)
			}
		}
	}
	return nil
}

// ID returns the export's number.
func (e *Export) ID() uint32 { return e.id }

// Bytes returns the exported memory.
func (e *Export) Bytes() []byte { return e.buf }

// Advertise publishes the export under a word, as another name for ImportWord.
func (e *Export) Advertise(word string) error {
	p := e.p
	if word == "" || len(word) > provider.MaxWord {
		return fmt.Errorf("%w: a word has 1..%d bytes, this one has %d", ErrArgument, provider.MaxWord, len(word))
	}
	p.mu.Lock()
	switch {
	case e.gone || p.closed:
		p.unlock()
		return ErrUnexported
	case p.words[word] != nil:
		p.unlock()
		return fmt.Errorf("%w: it is advertised as %q", ErrExists, word)
	}
	p.words[word] = e
	e.words = append(e.words, word)
	p.askAgain()
	p.unlock()
	return p.dir.Export(e.id, word)
}

// Importers returns the processes that have imported the buffer (SBL_Importers).
func (e *Export) Importers() []Peer {
	p := e.p
	p.mu.Lock()
	defer p.unlock()
	peers := make([]Peer, 0, len(e.grants))
	for g := range e.grants {
		peers = append(peers, peerOf(g.To))
	}
	return peers
}

// Unexport ends the export. When it returns, no process can write to the buffer any more.
// Sends in progress have completed, or fail with ErrUnexported at their senders. It waits
// until all importers have acknowledged, for at most Config.PeerTimeout and until ctx ends.
// An importer that has not acknowledged by then loses its connection with this process when
// it writes. Handlers may call Unexport. Notifications that are not handled yet are dropped.
// A second call does nothing.
func (e *Export) Unexport(ctx context.Context) error {
	p := e.p
	words, had := e.unlist()
	if !had {
		return nil
	}
	p.dir.Unexport(e.id, "")
	for _, w := range words {
		p.dir.Unexport(e.id, w)
	}
	p.mu.Lock()
	defer p.unlock()
	if !p.ended {
		e.withdraw(ctx)
	}
	return nil
}

// unlist removes the export from the process's table. It returns the words under which the export
// was advertised, and whether the export was in the table.
func (e *Export) unlist() (words []string, had bool) {
	p := e.p
	p.mu.Lock()
	defer p.unlock()
	if e.gone || p.ended {
		return nil, false
	}
	e.gone = true
	delete(p.exports, e.id)
	for _, w := range e.words {
		delete(p.words, w)
	}
	return e.words, true
}

// withdraw revokes the memory from all importers. The caller must hold the lock.
func (e *Export) withdraw(ctx context.Context) {
	p := e.p
	for g := range e.grants {
		p.via.Revoke(g, false)
	}
	limited, cancel := p.via.WithTimeout(ctx, orDefault(p.cfg.PeerTimeout, vipl.DefaultPeerTimeout))
	defer cancel()
	if err := p.await(limited, func() bool { return len(e.grants) == 0 }); err != nil && !p.ended {
		p.stats.Forced += uint64(len(e.grants))
		for g := range e.grants {
			p.via.Revoke(g, true)
		}
	}
	p.notes.drop(func(n note) bool {
		if n.export == e && !p.ended {
			p.via.Handled(n.grant)
		}
		return n.export == e
	})
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// moved lets importers continue: those that a redirection has notified, and those that
// have sent a request meanwhile.
func (e *Export) moved(told []*provider.Grant) {
	for _, g := range told {
		if _, still := e.grants[g]; still {
			e.p.via.Moved(g)
		}
	}
	asked := e.asked
	e.asked = nil
	for _, r := range asked {
		switch {
		case r.Gone:
		case e.gone:
			e.p.via.Deny(r, provider.ReasonRevoked)
		default:
			e.p.allow(r, e)
		}
	}
}

// Redirect makes later sends of importers write to buf instead of the exported buffer; nil restores
// the exported buffer (transfer redirection, VMMC-2). buf must be as long as the exported buffer.
// Redirect returns when all importers have acknowledged. Some messages may have been written to the
// exported buffer since the last redirection. Redirect copies their data to buf and returns their
// number, late.
//
// Only one call at a time is allowed. The memory named in the previous call belongs to the caller
// again. Sends of importers, and new imports, wait until Redirect returns.
func (e *Export) Redirect(ctx context.Context, buf []byte) (late int, err error) {
	p := e.p
	p.mu.Lock()
	defer p.unlock()
	if buf == nil {
		buf = e.buf
	}
	switch {
	case e.gone || p.closed:
		return 0, ErrUnexported
	case e.moving != nil:
		return 0, fmt.Errorf("%w: another Redirect of export %d is under way", ErrBusy, e.id)
	case len(buf) != len(e.buf):
		return 0, fmt.Errorf("%w: export %d has %d bytes, what it is redirected to has %d", ErrArgument, e.id, len(e.buf), len(buf))
	}
	if addressOf(buf) != addressOf(e.buf) {
		if err := p.overlaps(buf, e); err != nil {
			return 0, err
		}
		if err := p.via.Reaches(buf); err != nil {
			return 0, typed(err)
		}
	}
	e.to, e.late, e.moving = buf, 0, map[*provider.Grant]struct{}{}
	var told []*provider.Grant
	defer func() { e.moved(told) }()
	for g := range e.grants {
		if err := p.via.Redirect(g, buf); err != nil {
			e.moving = nil
			return 0, typed(err)
		}
		if _, still := e.grants[g]; still { // its connection may have ended meanwhile
			e.moving[g] = struct{}{}
			told = append(told, g)
		}
	}
	err = p.await(ctx, func() bool { return len(e.moving) == 0 || e.gone })
	e.moving = nil
	return e.late, err
}

// Peer identifies a process by its node and number. In a Policy, a zero Node means any node.
type Peer struct {
	Node    ethertype.MAC
	Process uint32
}

// Policy determines which processes may import a buffer. The zero Policy allows none. A process
// needs to match only one of the lists. A node is identified by its address. A user is
// authenticated by the daemon of the user's node, and is unknown if that node has no daemon. The
// number of a process is not authenticated: it protects only against mistakes.
type Policy struct {
	All       bool
	Nodes     []ethertype.MAC
	Processes []Peer
	Users     []uint32
}

// Everybody allows all processes.
var Everybody = Policy{All: true}

// allows reports whether the policy permits an importer. uid counts only if it is proven.
func (p *Policy) allows(who Peer, uid uint32, proven bool) bool {
	return p.All || slices.Contains(p.Nodes, who.Node) || proven && slices.Contains(p.Users, uid) ||
		slices.ContainsFunc(p.Processes, func(x Peer) bool {
			return x.Process == who.Process && (x.Node == who.Node || x.Node == ethertype.MAC{})
		})
}

// asksForUser reports whether the decision depends on the importer's user.
func (p *Policy) asksForUser(who Peer) bool { return len(p.Users) > 0 && !p.allows(who, 0, false) }

// copied returns a copy of the policy that the program cannot change.
func (p Policy) copied() Policy {
	p.Nodes, p.Processes, p.Users = slices.Clone(p.Nodes), slices.Clone(p.Processes), slices.Clone(p.Users)
	return p
}
