package vmmc

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Name names an export: SBL's triple of node, process (squid) and number. A zero Node
// means whichever has the process, which is enough where process numbers are unique, as in
// a job.
type Name struct {
	Node    Node
	Process uint32
	ID      uint32
}

// Import is another process's buffer, in this process's proxy space.
type Import struct {
	p      *Process
	name   Name
	word   string
	ask    *provider.Ask
	region *provider.Region
	addr   ProxyAddr
	err    error // why it is of no use
	cancel context.CancelFunc
}

// Import imports an export (SBL_ImportRecvBuf). It blocks until the process and the export
// exist and the export's policy has been asked, or ctx ends.
func (p *Process) Import(ctx context.Context, name Name) (*Import, error) {
	i := &Import{p: p, name: name}
	return i, i.obtain(ctx)
}

// ImportWord is Import of what Export.Advertise has given a name.
func (p *Process) ImportWord(ctx context.Context, word string) (*Import, error) {
	i := &Import{p: p, word: word}
	return i, i.obtain(ctx)
}

// ImportStart begins what Import does and returns at once (SBL_ImportRecvBufReq): Done
// tells how it goes. Unimport gives it up. Under virtual time it looks for the process
// within the call.
func (p *Process) ImportStart(name Name) *Import {
	i := &Import{p: p, name: name}
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	if p.virtual {
		i.find(ctx)
	} else {
		go i.find(ctx)
	}
	return i
}

// obtain finds the exporter, asks, and waits for the answer.
func (i *Import) obtain(ctx context.Context) error {
	p := i.p
	i.find(ctx)
	p.mu.Lock()
	defer p.unlock()
	err := p.await(ctx, i.over)
	if err == nil {
		return i.err
	}
	i.forget(err)
	return err
}

func (i *Import) over() bool { return i.region != nil || i.err != nil }

// forget gives up what has not been answered.
func (i *Import) forget(why error) {
	if i.err == nil {
		i.err = why
	}
	if i.ask != nil && i.region == nil && !i.p.closed {
		i.p.via.Forget(i.ask)
	}
}

// find asks the directory where the exporter is, and then the exporter.
func (i *Import) find(ctx context.Context) {
	p := i.p
	found, err := p.dir.Match(ctx, directory.Name{Node: i.name.Node, Process: i.name.Process, ID: i.name.ID, Word: i.word})
	p.mu.Lock()
	defer p.unlock()
	switch {
	case i.err != nil:
	case p.closed:
		i.err = ErrProcessClosed
	case err != nil:
		i.err = fmt.Errorf("%w: %s: %w", ErrNoConnectivity, i.what(), err)
	default:
		i.ask = &provider.Ask{ID: i.name.ID, Word: i.word, Ticket: found.Ticket, Import: i}
		p.via.Ask(found.Addr, i.ask)
	}
	p.via.Ring()
}

func (i *Import) what() string {
	if i.word != "" {
		return fmt.Sprintf("import %q", i.word)
	}
	return fmt.Sprintf("import %d of process %d at %v", i.name.ID, i.name.Process, i.name.Node)
}

// fail ends the import.
func (i *Import) fail(why error) {
	i.err = why
	if i.region != nil {
		i.p.proxies.remove(i.addr)
	}
}

// Done returns nil when the import is made and usable, ErrPending while it is under way,
// and else why it is of no use: ErrDenied, ErrPeer, ErrUnexported, ErrUnimported.
func (i *Import) Done() error {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.err == nil && i.region == nil {
		return ErrPending
	}
	return i.err
}

// Wait blocks until Done no longer returns ErrPending, and returns that.
func (i *Import) Wait(ctx context.Context) error {
	i.p.mu.Lock()
	defer i.p.unlock()
	if err := i.p.await(ctx, i.over); err != nil {
		return err
	}
	return i.err
}

// Addr returns the proxy address of the first byte, 0 while the import is under way.
func (i *Import) Addr() ProxyAddr {
	i.p.mu.Lock()
	defer i.p.unlock()
	return i.addr
}

// Size returns how many bytes the buffer has, 0 while the import is under way.
func (i *Import) Size() int {
	i.p.mu.Lock()
	defer i.p.unlock()
	if i.region == nil {
		return 0
	}
	return int(i.region.Size)
}

// Name returns what was imported.
func (i *Import) Name() Name { return i.name }

// Unimport gives the import up: its addresses are of no use any more. It returns when what
// was sent to it is in the exporter's memory, or has failed, so that nothing of it can
// land there later; when ctx ends before, that is its error, and what is under way may
// land. A second call does nothing.
func (i *Import) Unimport(ctx context.Context) error {
	p := i.p
	p.mu.Lock()
	defer p.unlock()
	if i.cancel != nil {
		i.cancel()
	}
	r := i.region
	if i.err != nil || r == nil {
		i.forget(ErrUnimported)
		return nil
	}
	i.fail(ErrUnimported)
	p.via.Release(r)
	return p.await(ctx, func() bool { return r.Busy == 0 })
}
