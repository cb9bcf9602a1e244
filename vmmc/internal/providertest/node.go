package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Node is a process of the suite. It has a provider, the lock that callers of the provider hold,
// and a record of the provider's upcalls.
type Node struct {
	number uint32
	stage  *stage
	mu     sync.Mutex
	owed   atomic.Bool
	still  atomic.Bool // the process does not call Turn, although its engine continues
	p      provider.Provider

	policy   func(r *provider.Request) // policy answers requests; nil: they stay unanswered
	requests []*provider.Request
	asked    int                      // requests so far
	grants   map[*provider.Grant]bool // all grants; true: released
	moved    []redirected
	noted    []*provider.Grant
	handle   bool // the process handles notifications immediately
	done     map[any]error
	twice    error  // error if an upcall has occurred twice
	seen     uint32 // the last write that the process has seen in memory, in caseWatch
}

// redirected has the arguments of a call of Up.Redirected.
type redirected struct {
	lo, hi uint64
	count  uint32
}

var _ provider.Up = (*Node)(nil)

// Asked implements provider.Up, like the methods below.
func (n *Node) Asked(r *provider.Request) {
	n.requests = append(n.requests, r)
	n.asked++
	if n.policy != nil {
		n.policy(r)
	}
}

// Withdrawn removes a request.
func (n *Node) Withdrawn(r *provider.Request) {
	for i, x := range slices.Clone(n.requests) {
		if x == r {
			n.requests = append(n.requests[:i], n.requests[i+1:]...)
			return
		}
	}
}

// Answered records nothing, because the Ask has the answer.
func (n *Node) Answered(a *provider.Ask) {
	if n.told("answer", a, nil); (a.Region == nil) == (a.Err == nil && a.Why == 0) {
		n.fail("an answer with region %v, refusal %d and error %v", a.Region != nil, a.Why, a.Err)
	}
}

// Lost checks that the region has an error.
func (n *Node) Lost(r *provider.Region) {
	if n.told("loss", r, nil); r.Err == nil {
		n.fail("a region is lost without an error")
	}
}

// Released records that a grant has ended.
func (n *Node) Released(g *provider.Grant) {
	if gone, given := n.grants[g]; gone || !given {
		n.fail("a grant is released twice, or was none")
	}
	n.grants[g] = true
}

// Redirected records the data that has arrived in the old memory. It checks that nothing has
// arrived in the new memory yet, because the process's copy would overwrite it.
func (n *Node) Redirected(g *provider.Grant, lo, hi uint64, count uint32) {
	n.moved = append(n.moved, redirected{lo, hi, count})
	n.p.Poll() // Poll puts everything that has arrived into memory
	if atomic.LoadUint32(word(g.Mem, 4000)) != 0 {
		n.fail("what came before a redirection can be copied only when something has come behind it")
	}
}

// Done records the result of a write.
func (n *Node) Done(token any, err error) { n.told("write", token, err) }

// Notified records a notification, and handles it if the process handles notifications immediately.
func (n *Node) Notified(g *provider.Grant) {
	if n.noted = append(n.noted, g); n.handle {
		n.p.Handled(g)
	}
}

func (n *Node) told(what string, about any, err error) {
	key := [2]any{what, about}
	if _, before := n.done[key]; before {
		n.fail("a %s is told twice", what)
	}
	n.done[key] = err
}

func (n *Node) fail(format string, args ...any) {
	if n.twice == nil {
		n.twice = fmt.Errorf(format, args...)
	}
}

// finished reports whether a write has ended, and its result. The caller holds the lock.
func (n *Node) finished(token any) (ended bool, err error) {
	err, ended = n.done[[2]any{"write", token}]
	return ended, err
}

// kick is the process's part of the contract about locks: it calls Turn. If another goroutine holds
// the lock, unlock does it.
func (n *Node) kick() {
	n.owed.Store(true)
	for n.owed.Load() && !n.still.Load() && n.mu.TryLock() {
		n.turn()
		n.mu.Unlock()
	}
}

func (n *Node) turn() {
	if n.owed.Store(false); n.p != nil {
		n.p.Turn()
	}
}

// unlock releases the lock, and calls Turn if kick was called meanwhile.
func (n *Node) unlock() {
	n.mu.Unlock()
	if n.owed.Load() {
		n.kick()
	}
}

// under runs f while it holds the lock.
func (n *Node) under(f func()) {
	n.mu.Lock()
	defer n.unlock()
	f()
}

// step is the pause of a waiting process between two checks of its condition.
const step = 200 * time.Microsecond

// hangs is the time limit of each wait in a case.
const hangs = 30 * time.Second

// until waits until done returns true. It holds the lock when it calls done.
func (n *Node) until(what string, done func() bool) error {
	ctx, cancel := n.p.WithTimeout(context.Background(), hangs)
	defer cancel()
	n.mu.Lock()
	defer n.unlock()
	for {
		n.turn()
		if done() || n.twice != nil {
			return n.twice
		}
		seen := n.p.Seen()
		n.mu.Unlock()
		err := n.p.Wait(ctx, time.Millisecond, seen)
		n.mu.Lock()
		if err != nil && !done() {
			return fmt.Errorf("process %d waits for %s: %w", n.number, what, err)
		}
	}
}

// serve lets the process serve other processes until done returns true.
func (n *Node) serve(done func() bool) error {
	for !done() {
		n.p.Poll()
		n.under(n.turn)
		if err := n.pause(step); err != nil {
			return err
		}
	}
	return n.wrong()
}

// wrong returns an error if the provider has made impossible upcalls.
func (n *Node) wrong() error {
	n.mu.Lock()
	defer n.unlock()
	return n.twice
}

// allow grants all requests for export k with memory[k], including those that have arrived before.
func (n *Node) allow(memory ...[]byte) {
	n.grants = map[*provider.Grant]bool{}
	n.policy = func(r *provider.Request) {
		if int(r.ID) >= len(memory) {
			n.p.Deny(r, provider.ReasonPolicy)
			return
		}
		g, err := n.p.Allow(r, memory[r.ID], r.ID)
		if err != nil {
			n.fail("allow: %w", err)
			return
		}
		n.grants[g] = false
	}
	for _, r := range slices.Clone(n.requests) {
		n.policy(r)
	}
}

// grant returns the only grant.
func (n *Node) grant() *provider.Grant {
	for g := range n.grants {
		return g
	}
	return nil
}

// imports requests an export of another process, and waits for the region.
func (n *Node) imports(of *Node, id uint32) (*provider.Region, error) {
	a := &provider.Ask{ID: id}
	n.under(func() { n.p.Ask(of.p.Self().Addr, a) })
	err := n.until("an import", func() bool { return a.Region != nil || a.Err != nil || a.Why != 0 })
	if err == nil && a.Region == nil {
		err = errors.Join(a.Err, fmt.Errorf("refused: %d", a.Why))
	}
	return a.Region, err
}

// post posts a write. While the provider has no room, it waits and tries again.
func (n *Node) post(w provider.Write) error {
	for {
		var err error
		n.under(func() { err = n.p.Post(&w) })
		if !errors.Is(err, provider.ErrFull) {
			return err
		}
		if err := n.until("room", func() bool { return true }); err != nil {
			return err
		}
		n.p.Poll()
		if err := n.pause(step); err != nil {
			return err
		}
	}
}

// write posts a write of b, and waits for its end.
func (n *Node) write(r *provider.Region, at int, b []byte) error {
	token := new(int)
	if err := n.post(provider.Write{Region: r, Offset: uint64(at), Data: [][]byte{b}, Size: len(b), Copy: len(b) <= provider.CopyMax && len(b)%2 == 0, Token: token}); err != nil {
		return err
	}
	return n.ends("a write", token)
}

// ends waits for the end of a write, and returns the write's error.
func (n *Node) ends(what string, token any) (err error) {
	waited := n.until(what, func() (ended bool) {
		ended, err = n.finished(token)
		return ended
	})
	return errors.Join(waited, err)
}

// memory returns memory that a process can export.
func (n *Node) memory(size int) []byte {
	mem, err := n.p.AllocMem(size)
	if err != nil {
		n.fail("%d bytes of memory: %w", size, err)
		return make([]byte, size)
	}
	return mem[:size]
}

// pattern returns n bytes that differ for each message k.
func pattern(n, k int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + k*31 + i>>8 + 1)
	}
	return b
}

// same returns an error if got differs from want.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s: byte %d is %d, want %d", what, i, got[i], want[i])
		}
	}
	return fmt.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
}
