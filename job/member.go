package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// Member is the membership of a rank in a job whose ranks have all joined. It is for programs whose
// connections between ranks are made later, or not at all. It keeps a small VI to every other rank,
// which reports the rank's failure and its reason. If a launcher with PMI-1 has distributed the
// addresses, it keeps at most five, and those ranks forward reports. The job fails as a whole:
// after the first failure only Fail and Leave are useful.
//
// One goroutine at a time may use a Member. Others may use its NIC.
type Member struct{ l *links }

// Program describes the software that a rank runs, for Open.
type Program struct {
	Name    string    // for error texts
	Version uint32    // of its message format, equal at all ranks
	Params  [2]uint32 // values that other ranks get from Member.Params, such as a port
}

// Open makes the process a member of the job that cfg and the environment describe, and returns
// when all its ranks have joined. A nil cfg takes everything from the environment. It fails as
// Job.Meet does. ctx bounds the call alone, not the membership. The caller must end with Leave or
// Close: a process that ends without them counts as dead.
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
	l := &links{cfg: full, params: program.Params, peers: make([]*link, full.Size)}
	l.job = New(id, l, full.Timeout)
	if l.nic = full.NIC; full.Size == 1 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("job: open: %w: %w", ErrInit, err)
		}
		return &Member{l}, nil
	}
	if l.nic, l.own, err = full.openNIC(ctx); err != nil {
		return nil, l.job.errorf("%w", err)
	}
	if err := l.join(ctx); err != nil {
		l.close()
		return nil, err
	}
	return &Member{l}, nil
}

// join connects with the other ranks.
func (l *links) join(ctx context.Context) (err error) {
	for rank := range l.peers {
		if rank != l.job.Rank {
			l.peers[rank] = &link{rank: rank}
		}
	}
	if l.cq, err = seam.NewQueue(l.nic, 2*maxSends*len(l.peers)+1, 16); err != nil {
		return l.job.errorf("%w", err)
	}
	if err := l.job.Meet(ctx, l.nic, l.cq.CQ, l.cfg.Logger); err != nil {
		return err
	}
	return l.attend()
}

// close gives back what Open took.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.job.Close()
	for _, p := range l.peers {
		if p != nil {
			p.Close()
		}
	}
	if l.cq != nil {
		l.cq.Close()
	}
	if l.own {
		l.nic.Close()
	}
	logqueue.New(l.cfg.Logger).Flush(logFlush)
}

// logFlush is how long the last lines of the log are waited for.
const logFlush = 100 * time.Millisecond

// heard handles a message.
func (l *links) heard(p *link, b []byte) {
	if p.state >= Dead {
		return
	}
	if len(b) == 0 {
		l.Fail(p.rank, errGarbled)
		return
	}
	switch kind, body := b[0], b[1:]; kind {
	case sayHello:
		m, err := l.job.Greeted(p.rank, body)
		if err != nil {
			l.Fail(p.rank, err)
			return
		}
		p.params = m.Params
		if p.state == Greeting {
			p.state = Live
		}
	case sayReport:
		r, ok := ParseReport(string(body), l.job.Size)
		switch {
		case !ok:
			l.Fail(p.rank, errGarbled)
		case r.Rank == l.job.Rank && !r.Twice():
			l.Fail(p.rank, fmt.Errorf("it takes rank %d for dead: %s", r.Rank, r.Why))
		default:
			l.job.Hear(r, p.rank)
		}
	case sayBye:
		p.state = Left
	default:
		l.Fail(p.rank, errGarbled)
	}
}

// Identity returns the job and the rank of this process, with the nonce of the run.
func (m *Member) Identity() Identity { return m.l.job.Identity }

// NIC returns the NIC of the member, which several packages may share. In a job of one rank it is
// Config.NIC, which may be nil.
func (m *Member) NIC() *vipl.NIC { return m.l.nic }

// Addr returns the address of another rank: the station, and a port of its NIC. If the launcher
// must be asked and does not answer, the address is zero and Err returns the cause.
func (m *Member) Addr(rank int) ethertype.Addr {
	addr, _ := m.l.where(rank)
	return addr
}

// Params returns the values that the program of another rank has published. It fails as Addr does.
func (m *Member) Params(rank int) [2]uint32 {
	_, params := m.l.where(rank)
	return params
}

// Refused returns the number of refused connection requests, which did not belong to the job.
func (m *Member) Refused() uint64 {
	m.l.Lock()
	defer m.l.Unlock()
	return m.l.job.Refused()
}

// Err processes received messages, without waiting, and returns the first failure: a RankError with
// its reason, or nil if no failure is known. A program calls it when it waits for another rank, and
// when an operation has failed.
func (m *Member) Err() error {
	l := m.l
	l.Lock()
	defer l.Unlock()
	if l.cq == nil {
		return nil
	}
	done, err := l.cq.Poll()
	l.handle(done)
	if l.err == nil && err != nil && !errors.Is(err, vipl.ErrNotDone) {
		return l.job.errorf("%w", err)
	}
	return l.err
}

// Fail ends the membership because of err and notifies the others, which takes at most a quarter of
// a second. It releases everything.
func (m *Member) Fail(err error) {
	l := m.l
	l.Lock()
	l.Tell(l.job.ReportOf(err))
	if l.cq != nil {
		(&meeting{Job: l.job}).drain()
	}
	l.Unlock()
	l.close()
}

// Close is Leave without a context: Config.Timeout bounds it. After Leave, Fail or Close it
// does nothing.
func (m *Member) Close() error {
	m.l.mu.Lock()
	closed := m.l.closed
	m.l.mu.Unlock()
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
	l := m.l
	defer l.close()
	if l.cq == nil {
		return nil
	}
	ctx, cancel := l.nic.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	l.Lock()
	defer l.Unlock()
	var err error
	if l.isTree() {
		err = l.part(ctx)
	} else {
		for _, p := range l.peers {
			if p != nil {
				l.say(p, sayBye, nil)
			}
		}
		err = l.stepUntil(ctx, func() bool { return !l.job.any(Live) })
	}
	if err == nil && l.err == nil {
		err = l.job.AwaitAcks(ctx)
	}
	if err != nil {
		return fmt.Errorf(l.job.prefix()+": leave: %w", err)
	}
	if l.err != nil { // others may have to hear it from this rank
		(&meeting{Job: l.job}).drain()
	} else {
		l.job.Done()
	}
	return l.err
}
