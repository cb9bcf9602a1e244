package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/sparse"
	"github.com/bobnet-go/bobnet/vipl"
)

// Member is the membership of a rank in a job whose ranks have all joined. It is for programs whose
// connections between ranks are made later, or not at all. It keeps a small VI to each neighbour in a
// tree of all ranks: at most five, and in a job of more than 256 ranks at most 17. Along the tree the ranks forward reports of a failed rank and its
// reason. The job fails as a whole: after the first failure only Fail and Leave are useful.
//
// One goroutine at a time may use a Member. Others may use its NIC.
type Member struct{ t *tree }

// Program describes the software that a rank runs, for Open.
type Program struct {
	Name    string    // name in error texts
	Version uint32    // version of its message format, equal at all ranks
	Params  [2]uint32 // values that other ranks get from Member.Params, such as a port
}

// Open makes the process a member of the job that cfg and the environment describe, and returns
// when all its ranks have joined. A nil cfg takes everything from the environment. ctx bounds the
// call alone, not the membership. The caller must end with Leave or Close: a process that ends
// without them counts as dead.
//
// When Config.Timeout expires, Open fails with an error that names missing ranks. It fails at once
// with ctx's error if ctx ends, with a RankError and its reason if another rank dies or leaves, and
// with a DuplicateError if two processes claim one rank. A rank that fails notifies the others of
// the reason, which takes about a second at most.
func Open(ctx context.Context, cfg *Config, program Program) (*Member, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if cfg.Size == 0 {
		sayAlone(program.Name)
	}
	full := *cfg
	err := full.complete()
	if err != nil {
		return nil, fmt.Errorf("job: open: %w", err)
	}
	full.Logger = logqueue.New(full.Logger).Logger()
	id := Identity{Job: full.Job, Rank: full.Rank, Size: full.Size, Program: program.Name, Version: program.Version}
	t := &tree{cfg: full, params: program.Params, peers: sparse.New[link](full.Size)}
	t.job = newMembership(id, t, full.Timeout)
	if t.nic = full.NIC; full.Size == 1 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("job: open: %w: %w", ErrInit, err)
		}
		return &Member{t}, nil
	}
	if t.nic, t.own, err = full.openNIC(ctx); err != nil {
		return nil, t.job.errorf("%w", err)
	}
	if err := t.join(ctx); err != nil {
		t.close()
		return nil, err
	}
	return &Member{t}, nil
}

// join connects with the neighbours in the tree, and returns when all ranks know all addresses.
func (t *tree) join(ctx context.Context) (err error) {
	if t.cq, err = seam.NewQueue(t.nic, t.entries(), 16); err != nil {
		return t.job.errorf("%w", err)
	}
	t.up, t.table = -1, make([]place, t.job.Size)
	t.places = make([]arrival, 0, t.job.Size)
	if err := t.job.Meet(ctx, t.nic, t.cq.CQ, t.cfg.Logger); err != nil {
		return err
	}
	t.Lock()
	t.repair()
	t.Unlock()
	if err := t.attend(); err != nil {
		return t.job.errorf("%w", err)
	}
	return nil
}

// entries returns the maximum number of simultaneous completions.
func (t *tree) entries() int { return min((linkReceives+linkSends)*t.peers.Len(), vipl.MaxCQEntries) }

// close releases what Open acquired.
func (t *tree) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.job.Close()
	for _, p := range t.near {
		p.Close()
	}
	if t.cq != nil {
		t.cq.Close()
	}
	if t.own {
		t.nic.Close()
	}
	logqueue.New(t.cfg.Logger).Flush(logFlush)
}

// logFlush limits the wait for the last log lines.
const logFlush = 100 * time.Millisecond

// heard handles a message, and returns its kind.
func (t *tree) heard(p *link, b []byte) (kind byte) {
	if p.state >= joining.Dead {
		return 0
	}
	ok := len(b) > 0
	if ok {
		kind, b = b[0], b[1:]
		ok = t.heardOf(p, kind, b)
	}
	if !ok {
		t.Fail(p.rank, errGarbled)
	}
	return kind
}

// heardOf handles a message of the given kind, and reports whether it is valid.
func (t *tree) heardOf(p *link, kind byte, body []byte) bool {
	switch kind {
	case sayHello:
		if _, err := t.job.Greeted(p.rank, body); err != nil {
			t.Fail(p.rank, err)
			return true
		}
		if p.state == joining.Greeting {
			p.state = joining.Live
		}
	case sayReport:
		r, ok := joining.ParseReport(string(body), t.job.Size)
		switch {
		case !ok:
			return false
		case r.Rank == t.job.Rank && !r.Twice():
			t.Fail(p.rank, fmt.Errorf("it considers rank %d dead: %s", r.Rank, r.Why))
		default:
			t.job.Hear(r, p.rank)
		}
	case sayPlaces:
		return t.learned(body, p.rank)
	case sayAnswer:
		if !p.open {
			return false
		}
		p.open = false
	case sayBye:
		return t.leaves(p, body)
	default:
		return false
	}
	return true
}

// leaves handles p's message that it leaves.
func (t *tree) leaves(p *link, body []byte) bool {
	switch {
	case len(body) == 0 && p.rank < t.job.Rank:
		p.state = joining.Left
	case len(body) == 8 && p.rank > t.job.Rank:
		p.left = leavers{min(binary.LittleEndian.Uint32(body), MaxRanks), binary.LittleEndian.Uint32(body[4:])}
		return p.left.count > 0
	default:
		return false
	}
	return true
}

// Identity returns the job and the rank of this process, with the nonce of the run.
func (m *Member) Identity() Identity { return m.t.job.Identity }

// NIC returns the NIC of the member, which several packages may share. In a job of one rank it is
// Config.NIC, which may be nil.
func (m *Member) NIC() *vipl.NIC { return m.t.nic }

// Addr returns the address at which another rank listens: the station, and a port of its NIC.
func (m *Member) Addr(rank int) ethertype.Addr {
	addr, _ := m.t.where(rank)
	return addr
}

// Params returns the values that the program of another rank has published.
func (m *Member) Params(rank int) [2]uint32 {
	_, params := m.t.where(rank)
	return params
}

// Refused returns the number of refused connection requests, which did not belong to the job.
func (m *Member) Refused() uint64 {
	m.t.Lock()
	defer m.t.Unlock()
	return m.t.job.Refused()
}

// Err processes received messages, without waiting, and returns the first failure: a RankError with
// its reason, or nil if no failure is known. A program calls it when it waits for another rank, and
// when an operation has failed.
func (m *Member) Err() error {
	t := m.t
	t.Lock()
	defer t.Unlock()
	if t.cq == nil {
		return nil
	}
	done, err := t.cq.Poll()
	t.handle(done)
	if t.err == nil && err != nil && !errors.Is(err, vipl.ErrNotDone) {
		return t.job.errorf("%w", err)
	}
	return t.err
}

// Fail ends the membership because of err and notifies the others, which takes at most a quarter of
// a second. It releases everything.
func (m *Member) Fail(err error) {
	t := m.t
	t.Lock()
	t.Tell(t.job.ReportOf(err))
	if t.cq != nil {
		(&meeting{membership: t.job}).drain()
	}
	t.Unlock()
	t.close()
}

// Close is Leave without a context: Config.Timeout bounds it. After Leave, Fail or Close it
// does nothing.
func (m *Member) Close() error {
	m.t.mu.Lock()
	closed := m.t.closed
	m.t.mu.Unlock()
	if closed {
		return nil
	}
	return m.Leave(context.Background())
}

// Leave ends the membership in order. It waits until all ranks leave, for at most Config.Timeout
// and until ctx ends, and returns the RankError of a rank that has failed. After all ranks have
// said goodbye, it waits at most three seconds for each further acknowledgement. It releases
// everything in any case.
func (m *Member) Leave(ctx context.Context) error {
	t := m.t
	defer t.close()
	if t.cq == nil {
		return nil
	}
	ctx, cancel := t.nic.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	t.Lock()
	defer t.Unlock()
	t.leaving = true
	t.part()
	err := t.stepUntil(ctx, func() bool { return t.parted })
	if err == nil && t.err == nil {
		err = t.job.AwaitAcks(ctx)
	}
	if err != nil {
		return fmt.Errorf(t.job.prefix()+": leave: %w", err)
	}
	if t.err != nil { // others may learn of the failure only through this rank
		(&meeting{membership: t.job}).drain()
	} else {
		t.job.Done()
	}
	return t.err
}
