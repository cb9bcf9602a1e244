package mplite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/sparse"
	"github.com/bobnet-go/bobnet/vipl"
)

// Init joins the job that cfg describes and returns the communicator of all its ranks (MPI_Init,
// MP_Init). It blocks until all ranks have joined and, with Ahead, until this rank is connected to
// all other ranks (Config.Connect). After three seconds it logs which ranks are missing and why.
// After cfg.Timeout it fails, about a fifth of a second later, with an error that names missing
// ranks.
//
// It fails at once with a RankError if another rank dies, leaves Init, or has timed out while it
// waited for a rank. It fails with a DuplicateError if two processes claim one rank of the job, and
// with ctx's error if ctx ends. After Init, ctx has no effect on the communicator. A rank that fails
// notifies the others. This takes at most about a second. Init refuses and counts requests of
// processes that are not in the job.
//
// Zero fields of cfg are read from the environment. A process that uses several packages with ranks
// must join its job once (job.Open) and pass the member to each of them (Config.Member). Otherwise
// the job sees the same rank twice.
//
// End with Finalize or Close: a process that ends without them counts as dead. Open is the
// same function.
func Init(ctx context.Context, cfg *Config) (*Comm, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if cfg == nil {
		cfg = &Config{}
	}
	if cfg.Size == 0 && cfg.Member == nil {
		joining.SayAlone("mplite")
	}
	asked, err := cfg.fromEnvironment()
	if err != nil {
		return nil, err
	}
	first, err := asked.withDefaults(0)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && first.Size == 1 { // otherwise OpenNIC or Meet returns it
		return nil, fmt.Errorf("mplite: init: %w: %w", ErrInit, err)
	}
	w := &world{cfg: first, rank: first.Rank, size: first.Size, maxWrite: maxWrite, order: hostBig}
	if w.job, err = newJob(w, first.Job); err != nil {
		return nil, fmt.Errorf("mplite: init: %w", err)
	}
	w.peers = sparse.New[peer](w.size)
	w.match.init(w.size)
	w.spill.limit = max(first.SpillLimit, 0)
	if w.size > 1 {
		if err := w.join(ctx, &asked); err != nil {
			w.close()
			return nil, err
		}
	}
	w.findHosts()
	w.context = 2
	c := newComm(w, identity(w.size), worldContext)
	if err := w.share(ctx, c); err != nil {
		w.close()
		return nil, err
	}
	return c, nil
}

// Open is another name of Init, for consistency with the other packages.
func Open(ctx context.Context, cfg *Config) (*Comm, error) { return Init(ctx, cfg) }

// join opens the NIC, unless one is given, and connects with the other ranks.
func (w *world) join(ctx context.Context, cfg *Config) error {
	var err error
	if w.nic, w.own, err = joining.OpenNIC(ctx, &cfg.Config); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	if w.cfg, err = cfg.withDefaults(w.nic.Query().NativeMTU); err != nil {
		return err
	}
	w.findReader()
	w.onUse = w.cfg.onUse()
	for i := range w.size {
		if i != w.rank && !w.onUse {
			w.peer(i)
		}
	}
	entries := min((w.size-1)*(2*w.cfg.Credits+controlCredits+maxWrites), vipl.MaxCQEntries)
	if w.cq, err = seam.NewQueue(w.nic, entries, reapBatch); err != nil {
		return fmt.Errorf("mplite: init: %w", err)
	}
	if w.onUse {
		return w.joinOnUse(ctx)
	}
	return w.job.Meet(ctx, w.nic, w.cq.CQ, w.cfg.Logger)
}

// Finalize ends the job for this rank (MPI_Finalize). It waits until all ranks have called
// it, or ctx ends. Then it waits, for at most Config.Timeout, until the other ranks have
// received this rank's messages. After the last rank has left, it waits at most
// three seconds for each further acknowledgement. Then it closes the connections. Receives,
// probes and collectives of other goroutines of the rank end with ErrClosed. Call
// it once, on the job's first communicator; on another one it returns ErrComm and does
// nothing.
//
// Finalize returns the error of a failed rank, or ctx's error. If it returns ctx's error,
// the other ranks regard this rank as dead. Ranks whose failure the program has
// acknowledged (AckFailed) cause no error: Finalize then waits only for the living ranks.
// In every case it releases all resources.
func (c *Comm) Finalize(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if c.context != worldContext {
		return opError("finalize", ErrComm, "it is not the job's first communicator, which Init returned")
	}
	w := c.w
	w.mu.Lock()
	w.ending = true
	among := len(w.dead) > 0 && w.unaccepted() == nil
	w.mu.Unlock()
	var err error
	if among {
		err = w.farewell(ctx)
	} else {
		// By messages: they arrive after this rank's other messages, which the other ranks must have received.
		last := *c
		last.meet = nil
		err = last.Barrier(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finalized {
		return ErrFinalized
	}
	w.finalized = true
	if w.cq != nil && w.fatal == nil && (err == nil || errors.Is(err, ErrRankFailed) || errors.Is(err, ErrMismatch)) { // otherwise the other ranks regard this rank as dead
		w.leaving = err == nil
		if m, ok := err.(*MismatchError); ok { // other ranks may otherwise learn first that this rank has left
			c.tell(m)
		}
		w.leave(ctx)
	}
	w.cause = err
	w.shutdown(ErrFinalized)
	if err == nil {
		w.job.Done()
	}
	c.ranks = 0
	w.close()
	return err
}

// Close ends the job for this rank as Finalize does, for at most Config.Timeout. It returns nil if
// this rank has already returned from Finalize or Close. So a program can defer Close, and call
// Finalize if it wants to wait longer. On a communicator other than the job's first one, Close is
// Free. Closing twice does nothing.
func (c *Comm) Close() (err error) {
	if c.context == worldContext {
		ctx, cancel := c.w.bounded(context.Background())
		defer cancel()
		err = c.Finalize(ctx)
	} else {
		err = c.Free()
	}
	if errors.Is(err, ErrFinalized) { // before
		return nil
	}
	return err
}

// leave notifies every rank that this rank leaves. Then it waits, for at most
// Config.Timeout, until all ranks have sent the same notice, writes in either direction
// have ended, and everything sent has been acknowledged. The very last acknowledgement
// may be lost, with no rank left to repeat it (see joining.Job.AwaitAcks). leave does not
// wait for ranks that fail meanwhile.
func (w *world) leave(ctx context.Context) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	w.sayBye()
	for w.living() != nil || w.onUse && !w.parted {
		if err := w.step(ctx); err != nil {
			return
		}
	}
	w.job.AwaitAcks(ctx)
}

// farewell is the barrier of Finalize if ranks are dead and the program has acknowledged
// their deaths. Algorithms that need all ranks cannot be used then. farewell says goodbye
// to the other ranks and waits for the goodbye of every living rank. It returns the error
// of a rank that dies meanwhile.
func (w *world) farewell(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sayBye()
	for p := w.living(); p != nil || w.onUse && !w.parted; p = w.living() {
		if err := cmp.Or(w.fatal, w.unaccepted()); err != nil {
			return err
		}
		if err := w.step(ctx); err != nil {
			what := "finalize, which waits for all ranks"
			if p != nil {
				what = fmt.Sprintf("finalize, which waits for rank %d", p.rank)
			}
			return w.interrupted(what, err)
		}
	}
	return cmp.Or(w.fatal, w.unaccepted())
}

// sayBye notifies every rank, once, that this rank leaves.
func (w *world) sayBye() {
	if w.saidBye {
		return
	}
	w.saidBye = true
	for _, p := range w.peers.All() {
		if !(w.onUse && p.state == peerAbsent) {
			p.say(control{kind: kindBye})
		}
	}
	if w.onUse {
		w.job.Leave()
	}
}

// living returns another rank that has neither left nor failed, or nil.
func (w *world) living() *peer {
	for _, p := range w.peers.All() {
		if p.state == peerLive {
			return p
		}
	}
	return nil
}

// close releases the resources that join has acquired.
func (w *world) close() {
	w.job.Close()
	if w.nic == nil {
		return
	}
	for _, p := range w.peers.All() {
		p.Close()
	}
	if w.cq != nil {
		if w.shares {
			w.cq.LookElsewhere(nil)
		}
		w.cq.Close()
	}
	w.cq = nil
	w.leaveMember()
	if w.own {
		w.nic.Close()
	}
	logqueue.New(w.cfg.Logger).Flush(logFlush)
}

// leaveMember ends the membership of a rank that connects on first use.
func (w *world) leaveMember() {
	switch m := w.member; {
	case m == nil:
	case w.parted:
		m.Close()
	default:
		m.Fail(cmp.Or(w.cause, w.fatal, ErrFinalized))
	}
}

// logFlush is the longest time that close waits for the last lines of the log.
const logFlush = 100 * time.Millisecond

// bounded limits ctx by Config.Timeout, on the clock of the NIC if there is one.
func (w *world) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.nic == nil {
		return context.WithTimeout(ctx, w.cfg.Timeout)
	}
	return w.nic.WithTimeout(ctx, w.cfg.Timeout)
}

// Abort ends the whole job (MPI_Abort). It notifies every rank, whose pending and later
// operations end with an AbortError, reports code to a launcher with PMI-1, and ends this
// process with code. It does not wait for other ranks. The system uses the low 8 bits of the
// code; if these are 0, the process and the job end with 1, because an aborted job has failed.
func (c *Comm) Abort(code int) {
	w := c.w
	w.job.Abort(code) // first: when other ranks fail because of the abort, the launcher may kill this process
	w.mu.Lock()
	for _, p := range w.peers.All() {
		if p.state == peerLive {
			p.say(control{kind: kindAbort, tag: int32(code)})
		}
	}
	if w.onUse {
		w.job.Say(wordAbort + strconv.Itoa(code))
	}
	w.shutdown(&AbortError{Rank: w.rank, Code: code})
	if w.nic != nil {
		w.nic.Poll()
	}
	exit := w.cfg.Exit
	w.mu.Unlock()
	exit(pmi.ExitCode(code))
}

// wireVersion changes with the format of a hello or a message, with the messages that a collective
// sends, and with the messages of package job between ranks.
const wireVersion = 15

// program is what job's errors and names call this package.
const program = "MPLite"

// newJob returns w's membership in the job of that name, or in the run of the process's
// member. Without a member, rank 0 draws the run's nonce and sends it to the other ranks.
func newJob(w *world, name string) (joining.Job, error) {
	if m := w.cfg.Member; m != nil {
		return joining.On(w.program(), m)
	}
	return joining.New(w.program(), name, w.rank, w.size), nil
}

// program describes this package to package job.
func (w *world) program() joining.Program {
	return joining.Program{Name: program, Version: wireVersion, Links: links{w}, Timeout: w.cfg.Timeout}
}

// params returns the values of this rank's hello: the payload bytes that a receive buffer of this rank
// holds, and the number of buffers that the peer may fill with data messages.
func (w *world) params() [2]uint32 { return [2]uint32{uint32(w.cfg.EagerSize), uint32(w.cfg.Credits)} }

// links is the world as package job sees it: the connections with the other ranks.
// The lock is the world's mutex.
type links struct{ w *world }

func (l links) Lock()                          { l.w.mu.Lock() }
func (l links) Unlock()                        { l.w.mu.Unlock() }
func (l links) Step(ctx context.Context) error { return l.w.step(ctx) }
func (l links) State(rank int) joining.State   { return joining.State(l.w.peers.At(rank).state) }
func (l links) Greet(rank int)                 { l.w.peers.At(rank).greet() }
func (l links) Tell(r joining.Report)          { l.w.sayAll(r) }
func (l links) End(err error)                  { l.w.duplicate(err) }
func (l links) Params() [2]uint32              { return l.w.params() }

// Open makes the VI and the buffers of a rank.
func (l links) Open(rank int, connect time.Duration) (*vipl.VI, error) {
	p := l.w.peers.At(rank)
	err := p.init(connect)
	return p.VI, err
}

// Reset makes the rank's next connection a small one, for a few short messages.
func (l links) Reset(rank int) {
	p := l.w.peers.At(rank)
	p.Close()
	*p = peer{w: l.w, rank: rank}
	l.w.cfg.Credits, l.w.cfg.EagerSize = 2, 64
}

// Fail makes a rank dead.
func (l links) Fail(rank int, cause error) error {
	p := l.w.peer(rank)
	p.fail(cause)
	return p.err
}

// Err returns the error that makes it useless to wait for other ranks, or nil.
func (l links) Err() error {
	if w := l.w; len(w.dead) > 0 {
		return w.dead[0].err
	}
	return l.w.fatal
}

// Unacked returns how many messages to connected ranks are not acknowledged yet.
func (l links) Unacked() (n int) {
	for _, p := range l.w.peers.All() {
		if p.Connected() {
			n += p.unacked()
		}
	}
	return n
}

// unacked returns how many messages p, which is connected, has not acknowledged.
func (p *peer) unacked() int {
	return p.Busy + p.pending.Len()
}

// greet sends the first message over a new connection.
func (p *peer) greet() {
	if p.state != peerAbsent {
		return // its first message has ended it already
	}
	p.state = peerGreeting
	p.meetNear()
	p.say(control{kind: kindHello})
	if p.w.job.Said(p.rank) {
		p.state = peerLive
	}
}

// greeted handles the peer's first message.
func (p *peer) greeted(body []byte) {
	w := p.w
	if w.onUse {
		p.fail(errGarbled)
		return
	}
	params, err := w.job.Greeted(p.rank, body)
	eager, credits := params[0], params[1]
	if err == nil && (credits < 2 || eager < 64) {
		err = errGarbled
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.credits = int(credits)
	p.eagerMax = min(int(eager), w.cfg.EagerSize)
	if p.state == peerGreeting {
		p.state = peerLive
	}
}
