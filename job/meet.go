package job

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/vipl"
)

// How the ranks find and connect each other: each listens, advertises the
// listener's address as job/<name>/<rank>, connects to every lower rank in
// ascending order, and then accepts the higher ones. Rank 0 accepts at once,
// so the rest follow one after the other, each a handshake behind its
// predecessor, and no cycle of ranks can wait for each other. A rank listens
// before it can be found, so nobody meets a closed door; requests wait
// meanwhile.
//
// Rank 0 draws a nonce and tells it to each rank in its first message, before
// that one connects to others or accepts them: what belongs to another run of a
// job of the same name is refused. See admit.go and twice.go.
//
// Where a launcher has a key-value space, ranks put their addresses there, and rank 0 the
// nonce. Nobody asks the segment then, and nobody waits for his turn. See launcher.go
// and atonce.go.
//
// A Member connects along the edges of a tree only (tree.go): the rank above a rank has the part
// of rank 0 for it, and Meet ends when each rank knows where all others listen.
//
// Whatever a rank waits for, it hears those that it is connected with: when one
// dies, or says that another has, Meet ends and names that one. Who ends for a
// reason of its own says it to the others; see lastwords.go.

// meeting is a rank's part in that.
type meeting struct {
	*Job
	cq  *vipl.CQ        // of the VIs
	ctx context.Context // ends when time is up
	end int64           // the same, on the NIC's clock

	postponed []*vipl.Request         // of ranks that are being accepted
	accepting []int                   // whose requests have been accepted, and who are not connected yet
	accepted  map[ethertype.Addr]bool // whose requests have been accepted before
	undialed  []int                   // lower ranks that this one has yet to ask, if it asks several at once
	dialed    []int                   // those that it asks
	dialAt    int64                   // not to ask more of them before
	checked   map[uint32]int64        // when the segment was asked who claims a rank
	refusal   error                   // of the last request that was refused
	waits     wait
}

// Meet connects this rank with all others through nic. Connection requests go to cq, and Links.Step
// passes them to Requested. After three seconds Meet logs the ranks that it waits for, and why, to
// log; nil means slog.Default(). Call it once, without the lock of Links.
//
// When its timeout expires, it fails with an error that names missing ranks. Looking for those
// takes about a fifth of a second more. It fails at once with parent's error if that ends, with a
// RankError and its reason if another rank dies or leaves, and with a DuplicateError if two
// processes claim one rank. A rank that fails notifies the others of the reason, which takes about
// a second at most.
func (j *Job) Meet(parent context.Context, nic *vipl.NIC, cq *vipl.CQ, log *slog.Logger) error {
	j.nic, j.log = nic, logqueue.New(log).Logger()
	if j.member == nil {
		j.launcher, j.space = spaceOf(&j.Identity)
	}
	if err := j.open(cq); err != nil {
		return j.errorf("%w", err)
	}
	ctx, cancel := j.nic.WithTimeout(parent, j.timeout)
	defer cancel()
	began := j.nic.Now()
	m := &meeting{Job: j, cq: cq, ctx: ctx, end: began + int64(j.timeout), checked: map[uint32]int64{}, accepted: map[ethertype.Addr]bool{}}
	m.waits.sayAt = began + int64(sayAfter)
	if t, ok := j.links.(*tree); ok {
		t.begin(j.listener.Addr())
	}
	err := m.meet()
	m.links.Lock()
	why := m.links.Err()
	m.links.Unlock()
	switch {
	case err == nil && why == nil:
		m.adjourn()
		return nil
	case why != nil:
		err = why
	case parent.Err() != nil:
		err = m.errorf("%w: %w before %s of job %q had connected", ErrInit, parent.Err(), rankList(m.unconnected()), m.Identity.Job)
	case timeIsUp(err):
		err = m.missing(time.Duration(m.nic.Now()-began).Round(time.Millisecond), err)
		m.links.Lock()
		defer m.links.Unlock()
		m.drain()
		m.turnAway(m.ReportOf(cmp.Or(m.links.Err(), err)), func(*Hello) {})
		return err
	}
	m.leave(err)
	return err
}

// open listens, and lets others find where.
func (j *Job) open(cq *vipl.CQ) (err error) {
	if j.listener, err = j.nic.Listen(0); err != nil {
		return err
	}
	if err := j.listener.Bind(cq); err != nil {
		return err
	}
	if j.Rank == 0 && j.Nonce == 0 {
		j.Nonce = newNonce()
	}
	return j.nic.Advertise(j.Address(j.Rank), j.listener.Addr())
}

// lower returns the ranks that this one asks for a connection, in ascending order.
func (m *meeting) lower() (ranks []int) {
	if m.tree && m.Rank > 0 {
		return []int{above(m.Rank)}
	}
	for rank := range m.Rank {
		ranks = append(ranks, rank)
	}
	return ranks
}

// meet is the order of it that the comment above describes.
func (m *meeting) meet() error {
	if m.space != nil {
		return m.meetAtOnce()
	}
	if m.Rank == 0 && m.member == nil { // a member's rank is there once
		if err := m.findRival(); err != nil {
			return err
		}
	}
	for _, rank := range m.lower() {
		if err := m.dial(rank); err != nil {
			return err
		}
	}
	m.waits.at(waitAsked, 0, ethertype.Addr{})
	if err := m.welcome(); err != nil {
		return err
	}
	return m.attend(m.ctx, func() bool { return !m.any(Greeting) })
}

// attend handles what comes until done. It fails when ctx ends, or when the job
// cannot come together any more. It says whom it waits for when that takes long.
func (m *meeting) attend(ctx context.Context, done func() bool) error {
	m.links.Lock()
	defer m.links.Unlock()
	for {
		if err := m.failure(); err != nil || done() {
			return err
		}
		look := m.lookAt()
		if look == never {
			if err := m.links.Step(ctx); err != nil {
				return err
			}
			continue
		}
		patient, cancel := m.nic.WithTimeout(ctx, time.Duration(look-m.nic.Now()))
		err := m.links.Step(patient)
		cancel()
		switch now := m.nic.Now(); {
		case !m.waits.said && now >= m.waits.sayAt:
			m.links.Unlock()
			m.sayAwaited()
			m.links.Lock()
		case err != nil && now < look:
			return err
		}
	}
}

const never = math.MaxInt64

// lookAt returns when attend has something to do although nothing has come.
func (m *meeting) lookAt() (at int64) {
	at = never
	if !m.waits.said {
		at = m.waits.sayAt
	}
	if m.member != nil {
		at = min(at, m.nic.Now()+int64(memberLook))
	}
	return at
}

// failure returns why the job cannot come together any more, or nil. The others hear of
// what the member knows before this rank's end looks to them like the cause.
func (m *meeting) failure() error {
	if err := m.links.Err(); err != nil || m.member == nil {
		return err
	}
	err := m.member.Err()
	var failed *RankError
	if errors.As(err, &failed) {
		return m.links.Fail(failed.Rank, failed.Err)
	}
	return err
}

// attendFor is attend for a while at the most, whose end is no failure.
func (m *meeting) attendFor(while time.Duration, done func() bool) error {
	ctx, cancel := m.nic.WithTimeout(m.ctx, while)
	defer cancel()
	if err := m.attend(ctx, done); err != nil && (!timeIsUp(err) || m.over()) {
		return err
	}
	return nil
}

// over reports whether time is up.
func (m *meeting) over() bool { return m.ctx.Err() != nil || m.nic.Now() >= m.end }

// dial connects to a lower rank. Rank 0 has then told which run this is.
func (m *meeting) dial(rank int) error {
	vi, err := m.connector(rank, time.Duration(m.end-m.nic.Now())) // the rank may wait for others itself
	if err != nil {
		return m.errorf("%w", err)
	}
	for {
		addr, err := m.find(rank)
		if err != nil {
			return m.errorf("rank %d: %w", rank, err)
		}
		m.waits.at(waitAnswer, rank, addr)
		if err = vi.ConnectStart(addr, m.hello()); err == nil {
			err = m.connected(vi)
		}
		switch {
		case err == nil:
			m.greet(rank)
			return m.attend(m.ctx, func() bool { return rank != m.first() || m.links.State(rank) != Greeting })
		case !Again(err):
			return m.turnedAway(rank, addr, err)
		}
		if err := m.attendFor(lookAgain, func() bool { return false }); err != nil {
			return err
		}
	}
}

// connector returns the VI to connect with a rank, which is made once.
func (m *meeting) connector(rank int, connect time.Duration) (vi *vipl.VI, err error) {
	if m.vis[rank] == nil {
		m.vis[rank], err = m.links.Open(rank, connect)
	}
	return m.vis[rank], err
}

// greet begins to talk with a rank that is connected now.
func (m *meeting) greet(rank int) {
	m.links.Lock()
	defer m.links.Unlock()
	m.links.Greet(rank)
}

// busy is what a rank says to whom it cannot listen now.
const busy = "too many ask at once: ask again"

// turnedAway returns why the rank at addr cannot be reached. If it says that the
// job cannot come together, that is why.
func (m *meeting) turnedAway(rank int, addr ethertype.Addr, err error) error {
	var refused *vipl.ConnError
	if errors.As(err, &refused) && errors.Is(err, vipl.ErrReject) {
		if r, ok := ParseReport(refused.Detail, m.Size); ok {
			m.links.Lock()
			defer m.links.Unlock()
			if heard := m.Hear(r, rank); heard != nil {
				return heard
			}
		}
		if strings.HasPrefix(refused.Detail, m.otherVersion()) {
			err = errclass.With(ErrVersion, err)
		}
	}
	if addr.IsZero() { // the error has it
		return m.errorf("rank %d: %w", rank, err)
	}
	return m.errorf("rank %d at %v: %w", rank, addr, err)
}

// How long Meet asks for a rank, and then how long it hears the others, before
// it asks again: each time twice as long.
const (
	askFirst = 50 * time.Millisecond
	askMost  = 400 * time.Millisecond
)

// find returns the address of a rank as soon as that has one.
func (m *meeting) find(rank int) (addr ethertype.Addr, err error) {
	if m.space != nil {
		other, err := m.read(rank)
		return other.addr, err
	}
	m.waits.at(waitName, rank, ethertype.Addr{})
	for ask := askFirst; ; ask = min(2*ask, askMost) {
		ctx, cancel := m.nic.WithTimeout(m.ctx, ask)
		addr, err = m.nic.LookupAt(ctx, m.known(rank), m.Address(rank))
		cancel()
		if err == nil || !timeIsUp(err) || m.over() {
			return addr, err
		}
		if err := m.attendFor(ask, func() bool { return false }); err != nil {
			return addr, err
		}
	}
}

// known returns where a rank is whose job has met before, or the zero address.
func (m *meeting) known(rank int) (at ethertype.Addr) {
	if m.member != nil {
		at = m.member.Addr(rank)
	}
	return at
}

// lookAgain is after how long a rank is asked again that could not listen.
const lookAgain = 20 * time.Millisecond

// connected waits until the attempt to connect vi has an end.
func (m *meeting) connected(vi *vipl.VI) error {
	if err := m.attend(m.ctx, func() bool { return vi.State() != vipl.StateConnectPending }); err != nil {
		return err
	}
	return vi.ConnectDone()
}
