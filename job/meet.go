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
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// How the ranks find each other and connect. Each rank listens, advertises its listener's address
// as job/<name>/<rank>, connects to every lower rank in ascending order, and then accepts the
// higher ones. Rank 0 accepts at once, so the others follow one after the other, each a handshake
// behind its predecessor, and no cycle of ranks can wait for each other. A rank listens before it
// can be found, so no request finds a closed port; requests wait in a queue.
//
// Rank 0 chooses a nonce and sends it to each rank in its first message, before that rank connects
// to others or accepts them. So requests from another run of a job of the same name are refused.
// See admit.go and twice.go.
//
// If a launcher has a key-value space, ranks publish their addresses there, and rank 0 the nonce.
// Then no rank uses broadcasts or waits for its turn. See launcher.go and atonce.go.
//
// A Member connects only along the edges of a tree (tree.go). The rank above takes the role of rank
// 0, and Meet ends when each rank knows the addresses of all others.
//
// While a rank waits, it handles messages of connected ranks. If one of them dies, or reports the
// failure of another one, Meet ends and names the failed rank. A rank that ends for its own reason
// reports it to the others; see lastwords.go.

// meeting is a rank's part in Meet.
type meeting struct {
	*membership
	cq  *vipl.CQ        // of the VIs
	ctx context.Context // ends at the timeout
	end int64           // the timeout on the NIC's clock

	postponed []*vipl.Request         // requests from ranks in accepting
	accepting []int                   // ranks whose request has been accepted, and which are not connected yet
	accepted  map[ethertype.Addr]bool // addresses whose requests have been accepted before
	undialed  []int                   // lower ranks still to be asked, if this rank asks several at once
	dialed    []int                   // ranks that are being asked
	dialAt    int64                   // earliest time to ask more ranks
	checked   map[uint32]int64        // when claimants of a rank were last searched
	refusal   error                   // of the last refused request
	waits     wait
	announced bool
}

// Meet implements joining.Job.
func (j *membership) Meet(parent context.Context, nic *vipl.NIC, cq *vipl.CQ, log *slog.Logger) error {
	j.nic, j.log = nic, logqueue.New(log).Logger()
	if j.member == nil {
		j.launcher, j.space = spaceOf(&j.Identity)
	}
	if err := j.listen(cq); err != nil {
		return j.errorf("%w", err)
	}
	ctx, cancel := j.nic.WithTimeout(parent, j.timeout)
	defer cancel()
	began := j.nic.Now()
	m := &meeting{membership: j, cq: cq, ctx: ctx, end: began + int64(j.timeout), checked: map[uint32]int64{}, accepted: map[ethertype.Addr]bool{}}
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
		m.turnAway(m.ReportOf(cmp.Or(m.links.Err(), err)), func(*hello) {})
		return err
	}
	m.leave(err)
	return err
}

// listen listens, and advertises the listener's address.
func (j *membership) listen(cq *vipl.CQ) (err error) {
	if j.listener, err = j.nic.Listen(0); err != nil {
		return err
	}
	if err := j.listener.Bind(cq); err != nil {
		return err
	}
	if j.Rank == 0 && j.Nonce == 0 {
		j.Nonce = newNonce()
	}
	return j.nic.Advertise(j.address(j.Rank), j.listener.Addr())
}

// lower returns the ranks that this one asks for a connection, in ascending order.
func (m *meeting) lower() (ranks []int) {
	if m.tree && m.Rank > 0 {
		return []int{m.above(m.Rank)}
	}
	for rank := range m.Rank {
		ranks = append(ranks, rank)
	}
	return ranks
}

// meet connects in the order that the comment above describes.
func (m *meeting) meet() error {
	if m.space != nil {
		return m.meetAtOnce()
	}
	if m.Rank == 0 {
		m.announce()
	}
	if m.Rank == 0 && m.member == nil { // the rank of a member is known to be unique
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
	return m.attend(m.ctx, func() bool { return !m.any(joining.Greeting) })
}

// attend handles events until done. It fails if ctx ends, or if the job can no longer start. If the
// wait takes long, it logs which ranks are missing.
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

// lookAt returns when attend has work without an event.
func (m *meeting) lookAt() (at int64) {
	at = never
	if !m.waits.said {
		at = m.waits.sayAt
	}
	if m.member != nil {
		at = min(at, m.nic.Now()+int64(memberLook))
	}
	if t, ok := m.links.(*tree); ok {
		at = min(at, t.passHeld(m.nic.Now()))
	}
	return at
}

// failure returns why the job can no longer start, or nil. It forwards failures that the member
// knows, before the others take this rank's end for the cause.
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

// attendFor is attend for at most a while; the end of that time is not a failure.
func (m *meeting) attendFor(while time.Duration, done func() bool) error {
	ctx, cancel := m.nic.WithTimeout(m.ctx, while)
	defer cancel()
	if err := m.attend(ctx, done); err != nil && (!timeIsUp(err) || m.over()) {
		return err
	}
	return nil
}

// over reports whether the timeout has expired.
func (m *meeting) over() bool { return m.ctx.Err() != nil || m.nic.Now() >= m.end }

// dial connects to a lower rank. From rank 0 it also waits for the nonce.
func (m *meeting) dial(rank int) error {
	vi, err := m.connector(rank, time.Duration(m.end-m.nic.Now())) // the rank may itself be waiting for others
	if err != nil {
		return m.errorf("%w", err)
	}
	for {
		addr, err := m.find(rank)
		if err != nil {
			return m.errorf("rank %d: %w", rank, err)
		}
		m.announce()
		m.waits.at(waitAnswer, rank, addr)
		if err = vi.ConnectStart(addr, m.Hello()); err == nil {
			err = m.connected(vi)
		}
		switch {
		case err == nil:
			m.greet(rank)
			return m.attend(m.ctx, func() bool { return rank != m.first() || m.links.State(rank) != joining.Greeting })
		case !refusal.Passing(err):
			return m.turnedAway(rank, addr, err)
		}
		if err := m.attendFor(lookAgain, func() bool { return false }); err != nil {
			return err
		}
	}
}

// connector returns the VI to connect with a rank, and creates it if necessary.
func (m *meeting) connector(rank int, connect time.Duration) (vi *vipl.VI, err error) {
	if m.vis[rank] == nil {
		m.vis[rank], err = m.links.Open(rank, connect)
	}
	return m.vis[rank], err
}

// greet starts the conversation with a newly connected rank.
func (m *meeting) greet(rank int) {
	m.links.Lock()
	defer m.links.Unlock()
	m.links.Greet(rank)
}

// turnedAway returns the error if the rank at addr cannot be reached. If that rank reports why the
// job cannot start, this is the error.
func (m *meeting) turnedAway(rank int, addr ethertype.Addr, err error) error {
	var refused *vipl.ConnError
	if errors.As(err, &refused) && errors.Is(err, vipl.ErrReject) {
		if r, ok := joining.ParseReport(refused.Detail, m.Size); ok {
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
	if addr.IsZero() { // the error contains the address
		return m.errorf("rank %d: %w", rank, err)
	}
	return m.errorf("rank %d at %v: %w", rank, addr, err)
}

// announce tells the ranks that are to be below this one in the tree where it is, once. Each of them would ask otherwise,
// and all ranks receive each such question. A rank announces itself when it knows the rank above, so that not all
// announce themselves at the same instant.
func (m *meeting) announce() {
	if m.tree && !m.announced && m.fanOut()*m.Rank+1 < m.Size {
		seam.AnnounceName(m.nic, m.address(m.Rank))
	}
	m.announced = true
}

// listenFor is about how long a rank waits for the announcement of the one above before it asks.
const listenFor = 2 * time.Millisecond

// lookUp asks for a rank, which may announce itself.
func (m *meeting) lookUp(ctx context.Context, rank int, quiet time.Duration) (ethertype.Addr, error) {
	if m.tree {
		return seam.AwaitName(ctx, m.nic, m.address(rank), quiet)
	}
	return m.nic.LookupAt(ctx, m.known(rank), m.address(rank))
}

// How long Meet looks up a rank, and then how long it handles events before the next look-up;
// doubles each time.
const (
	askFirst = 50 * time.Millisecond
	askMost  = 400 * time.Millisecond
)

// find returns the address of a rank as soon as it is known.
func (m *meeting) find(rank int) (addr ethertype.Addr, err error) {
	if m.space != nil {
		other, err := m.read(rank)
		return other.addr, err
	}
	m.waits.at(waitName, rank, ethertype.Addr{})
	quiet := listenFor
	for ask := askFirst; ; ask, quiet = min(2*ask, askMost), 0 {
		ctx, cancel := m.nic.WithTimeout(m.ctx, ask)
		addr, err = m.lookUp(ctx, rank, quiet)
		cancel()
		if err == nil || !timeIsUp(err) || m.over() {
			return addr, err
		}
		if err := m.attendFor(ask, func() bool { return false }); err != nil {
			return addr, err
		}
	}
}

// known returns a rank's address if the member knows it, or the zero address.
func (m *meeting) known(rank int) (at ethertype.Addr) {
	if m.member != nil {
		at = m.member.Addr(rank)
	}
	return at
}

// lookAgain is the pause before a busy rank is asked again.
const lookAgain = 20 * time.Millisecond

// connected waits until the attempt to connect vi has ended.
func (m *meeting) connected(vi *vipl.VI) error {
	if err := m.attend(m.ctx, func() bool { return vi.State() != vipl.StateConnectPending }); err != nil {
		return err
	}
	return vi.ConnectDone()
}
