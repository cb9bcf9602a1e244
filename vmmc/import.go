package vmmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Name identifies an export: SBL's triple of node, process (squid) and number. A zero Node means
// any node with that process. This is enough if process numbers are unique, as in a job.
type Name struct {
	Node    ethertype.MAC
	Process uint32
	ID      uint32
}

// Import is the buffer of another process, in this process's proxy space.
type Import struct {
	p      *Process
	name   Name
	word   string
	ask    *provider.Ask
	region *provider.Region
	addr   ProxyAddr
	err    error // why the import is unusable
	lost   bool  // the process that was asked has ended without an answer: find the next one
	tries  int   // number of such searches

	ctx    context.Context // of ImportStart
	cancel context.CancelFunc
	after  []func() // see AfterEnd
}

// Import imports an export (SBL_ImportRecvBuf). It blocks until the process and the
// export exist and the export's policy has allowed or refused the import, or until ctx
// ends; give ctx a deadline to detect a wrong name. If the exporter ends meanwhile, Import
// waits for the next process of the name.
func (p *Process) Import(ctx context.Context, name Name) (*Import, error) {
	i := &Import{p: p, name: name}
	return i, i.obtain(ctx)
}

// ImportWord is like Import, for an export that Export.Advertise has named.
func (p *Process) ImportWord(ctx context.Context, word string) (*Import, error) {
	i := &Import{p: p, word: word}
	return i, i.obtain(ctx)
}

// ImportStart starts an import as Import does and returns at once (SBL_ImportRecvBufReq). Done
// reports the outcome, and Unimport cancels the import. In virtual time ImportStart itself looks
// up the process, and Wait looks up the next process of the name.
func (p *Process) ImportStart(name Name) *Import {
	i := &Import{p: p, name: name}
	i.ctx, i.cancel = context.WithCancel(p.life)
	if p.virtual {
		i.find(i.ctx)
	} else {
		go i.find(i.ctx)
	}
	return i
}

// obtain finds the exporter, asks, and waits for the answer.
func (i *Import) obtain(ctx context.Context) error {
	i.find(ctx)
	i.p.mu.Lock()
	defer i.p.unlock()
	err := i.seek(ctx)
	if err == nil {
		return i.err
	}
	i.forget(err)
	return err
}

// seek waits until the import is over. If the exporter that was asked has ended, seek
// looks for the exporter again. The error is that of the wait. The caller must hold the
// lock, which seek releases while it waits.
func (i *Import) seek(ctx context.Context) error {
	p := i.p
	for {
		err := p.await(ctx, func() bool { return i.over() || i.lost })
		if err != nil || i.over() {
			return err
		}
		limited, cancel := p.via.WithTimeout(ctx, i.pause())
		err = p.await(limited, i.over)
		cancel()
		if err == nil || errors.Is(err, ErrClosed) {
			return err
		}
		p.unlock()
		i.find(ctx)
		p.mu.Lock()
	}
}

// pause returns how long to wait before the next search for the exporter.
func (i *Import) pause() time.Duration {
	i.tries++
	return min(againMin<<min(i.tries-1, 16), againMax)
}

const againMin, againMax = 5 * time.Millisecond, 400 * time.Millisecond

func (i *Import) over() bool { return i.region != nil || i.err != nil }

// lose starts a search for the next exporter. A goroutine that waits for the import makes
// the search, or a timer if no goroutine waits. The caller must hold the lock.
func (i *Import) lose() {
	i.lost, i.ask = true, nil
	if i.ctx != nil && !i.p.virtual {
		time.AfterFunc(i.pause(), func() { i.find(i.ctx) })
	}
}

// forget abandons requests that have not been answered.
func (i *Import) forget(why error) {
	if i.err == nil {
		i.err = why
		i.ended()
	}
	if i.ask != nil && i.region == nil && !i.p.closed {
		i.p.via.Forget(i.ask)
		i.p.spent(i.ask.Ticket)
	}
}

// find asks the directory where the exporter is, and then the exporter.
func (i *Import) find(ctx context.Context) {
	p := i.p
	p.mu.Lock()
	i.lost = false
	over := i.over() || p.closed
	p.unlock()
	if over {
		return
	}
	if !p.virtual {
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.life, cancel)()
		ctx = limited
	}
	found, err := p.dir.Match(ctx, directory.Name{Node: i.name.Node, Process: i.name.Process, ID: i.name.ID, Word: i.word})
	p.mu.Lock()
	defer p.unlock()
	switch {
	case i.err != nil || p.closed:
		p.spent(found.Ticket)
		i.forget(ErrClosed)
	case err != nil:
		i.fail(fmt.Errorf("%w: %s: %w", ErrNoConnectivity, i.what(), err))
	default:
		i.ask = &provider.Ask{ID: i.name.ID, Word: i.word, Ticket: found.Ticket, Import: i}
		p.via.Ask(found.Addr, i.ask)
	}
	p.via.Ring()
}

// spent notifies the directory that a ticket will no longer be shown. It does so
// concurrently with the caller, which may hold the lock.
func (p *Process) spent(t provider.Ticket) {
	if t != (provider.Ticket{}) {
		go p.dir.Spent(t)
	}
}

func (i *Import) what() string {
	if i.word != "" {
		return fmt.Sprintf("import %q", i.word)
	}
	text := fmt.Sprintf("import %d of process %d", i.name.ID, i.name.Process)
	if i.name.Node != (ethertype.MAC{}) {
		text += fmt.Sprintf(" at %v", i.name.Node)
	}
	return text
}

// fail ends the import.
func (i *Import) fail(why error) {
	i.err = why
	if i.region != nil {
		i.p.proxies.remove(i.addr, why)
	}
	i.ended()
}

// ended runs the functions that were registered for the end of the import.
func (i *Import) ended() {
	for _, f := range i.after {
		go f()
	}
	i.after = nil
}

// Done returns nil if the import is usable, and ErrPending while it is in progress. Otherwise it
// returns the cause of the failure: ErrDenied, ErrPeer, ErrUnexported, or that the import was given
// up.
func (i *Import) Done() error {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.err == nil && i.region == nil {
		return ErrPending
	}
	return i.err
}

// AfterEnd registers f to run on its own goroutine when the import fails, ends or is given up, for
// programs that do not call Done meanwhile. The death of the exporter's process is detected without
// a send.
func (i *Import) AfterEnd(f func()) {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.err != nil {
		go f()
		return
	}
	i.after = append(i.after, f)
}

// Wait blocks until Done no longer returns ErrPending, and returns the result of Done.
func (i *Import) Wait(ctx context.Context) error {
	i.p.mu.Lock()
	defer i.p.unlock()
	wait := i.seek
	if i.ctx != nil && !i.p.virtual { // a timer searches
		wait = func(ctx context.Context) error { return i.p.await(ctx, i.over) }
	}
	if err := wait(ctx); err != nil {
		return err
	}
	return i.err
}

// Addr returns the proxy address of the first byte, or 0 while the import is in progress.
func (i *Import) Addr() ProxyAddr {
	i.p.mu.Lock()
	defer i.p.unlock()
	return i.addr
}

// Size returns the size of the buffer in bytes, or 0 while the import is in progress.
func (i *Import) Size() int {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.region == nil {
		return 0
	}
	return int(i.region.Size)
}

// Name returns the name of the imported export.
func (i *Import) Name() Name { return i.name }

// Unimport ends the import: its addresses become invalid. It returns when each send to the
// import has completed or failed, so that no data is written later. If ctx ends earlier,
// Unimport returns the error of ctx, and data in transit may still be written. A second call
// does nothing.
func (i *Import) Unimport(ctx context.Context) error {
	p := i.p
	p.mu.Lock()
	defer p.unlock()
	if i.cancel != nil {
		i.cancel()
	}
	r := i.region
	if i.err != nil || r == nil {
		i.forget(errUnimported)
		return nil
	}
	i.fail(errUnimported)
	p.via.Release(r)
	return p.await(ctx, func() bool { return r.Busy == 0 })
}

// Owner returns the process that exported the buffer. While the import is in progress, it returns
// the process in the import's name.
func (i *Import) Owner() Peer {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.region == nil {
		return Peer{i.name.Node, i.name.Process}
	}
	return peerOf(i.region.Owner)
}

// Await is Process.Await, but also ends when the import ends, with the import's error.
func (i *Import) Await(ctx context.Context, done func() bool) error {
	if done() {
		return nil
	}
	p := i.p
	p.mu.Lock()
	defer p.unlock()
	if err := p.await(ctx, func() bool { return i.err != nil || done() }); err != nil {
		return err
	}
	if i.err != nil && !done() {
		return i.err
	}
	return nil
}
