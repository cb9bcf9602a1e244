package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// State is what a program knows about another rank.
type State uint8

// The states of a rank, in the order in which it may go through them.
const (
	Absent   State = iota // not connected
	Greeting              // connected, and its Hello has not arrived yet
	Live                  // connected, and verified to be of this run of the job
	Dead                  // it has failed
	Left                  // it has left the job in order
)

// Links are a program's connections with the other ranks, with the operations that a job needs to
// start. The lock guards what the program shares between its goroutines. Open, Reset and Params are
// called without the lock, all other methods with it. No method is called with this process's own
// rank.
type Links interface {
	sync.Locker
	// Step waits until something has happened and handles it. It releases the lock
	// meanwhile. It hands requests for connections to Job.Requested, and the first
	// message over each connection to Job.Greeted. It also returns when an attempt to
	// connect has ended. Its error is that of ctx.
	Step(ctx context.Context) error
	// Open creates the VI that will be connected with a rank, with its receives posted. connect is
	// the longest duration of an attempt to connect.
	Open(rank int, connect time.Duration) (*vipl.VI, error)
	// Reset closes the VI of a rank, which is then Absent. The next Open allocates only the memory
	// for a Hello and a Report.
	Reset(rank int)
	// Params returns the program's values for a Hello.
	Params() [2]uint32
	// Greet sends the Hello over a newly connected VI. The rank is Greeting until its own Hello has
	// arrived, and then Live.
	Greet(rank int)
	// State returns the state of a rank.
	State(rank int) State
	// Fail makes a rank Dead because of cause, notifies the others, and returns the error of
	// operations with that rank.
	Fail(rank int, cause error) error
	// Tell sends r to every connected rank except the one that r is about.
	Tell(r Report)
	// End ends the job for this rank because of err, and notifies the others.
	End(err *DuplicateError)
	// Err returns the first failure of a rank or of the job, after which waiting for the rest is
	// useless, or nil.
	Err() error
	// Unacked returns the number of messages to connected ranks that are not acknowledged yet.
	Unacked() int
}

// Job is this rank's membership in a job. It finds the other ranks, verifies that they belong to
// the same run, and makes the program's Links connect with them.
type Job struct {
	Identity
	links    Links
	member   *Member   // the Member on which this program runs, or nil
	launcher *launcher // the PMI-1 launcher that has started this job, or nil
	space    space     // key-value space through which the ranks find each other; nil: broadcast discovery
	timeout  time.Duration
	nic      *vipl.NIC // nil before Meet
	log      *slog.Logger

	listener *vipl.Listener
	vis      map[int]*vipl.VI  // by rank
	said     map[int]bool      // by rank: its Hello has arrived
	known    map[int][2]uint32 // parameters of ranks that need not send a Hello
	asked    []*vipl.Request
	early    []*vipl.Request // requests for connections on first use that arrive before this rank has joined
	joined   bool
	refused  uint64
}

// New returns the membership of the rank that id identifies. It does nothing until Meet, which
// takes at most timeout. A job of one rank needs no Meet.
func New(id Identity, links Links, timeout time.Duration) *Job {
	_, id.tree = links.(*tree)
	return &Job{Identity: id, links: links, timeout: timeout, vis: map[int]*vipl.VI{}, said: map[int]bool{}}
}

// Close stops other ranks from finding this one. It closes no VI. It may be called twice, and
// without Meet.
func (j *Job) Close() {
	if j.member != nil {
		j.member.forget(j.Program)
	}
	if j.nic == nil {
		return
	}
	j.nic.Withdraw(j.Address(j.Rank))
	if j.listener != nil {
		j.listener.Close()
	}
}

// Refused returns the number of refused requests, which did not belong to the job. The caller must
// hold the lock of Links.
func (j *Job) Refused() uint64 { return j.refused }

// Said reports whether a rank's Hello has arrived. The caller must hold the lock of Links.
func (j *Job) Said(rank int) bool { return j.said[rank] }

// know records a rank's parameters before there is a connection with it. They come from the launcher's key-value space,
// or from a request with the nonce from there.
func (j *Job) know(rank int, params [2]uint32) {
	if j.known == nil {
		j.known = map[int][2]uint32{}
	}
	j.known[rank] = params
}

// hello returns this rank's encoded Hello.
func (j *Job) hello() []byte {
	var b [HelloSize]byte
	mine := j.Hello(j.links.Params())
	mine.Put(b[:])
	return b[:]
}

// errGarbled is the failure of a rank that sends an invalid message.
var errGarbled = errors.New("it sent a malformed message")

// first returns the rank that sends the nonce to this one: rank 0, or in a tree the rank above.
func (id *Identity) first() int {
	if id.tree && id.Rank > 0 {
		return above(id.Rank)
	}
	return 0
}

// Greeted processes the first message over the connection with a rank. It returns the Hello, or the
// error for which the program must fail the rank. The Hello of rank 0, or in a tree of the rank above, tells this rank which run of the
// job it is. The caller must hold the lock of Links.
func (j *Job) Greeted(rank int, body []byte) (Hello, error) {
	m := j.ParseHello(body)
	if rank == j.first() && j.Nonce == 0 {
		j.Nonce = m.Nonce
	}
	if err := j.Check(&m); err != nil {
		return m, err
	}
	if j.said[rank] || int(m.Rank) != rank || j.Nonce == 0 {
		return m, errGarbled
	}
	j.said[rank] = true
	return m, nil
}

// Hear processes a report of rank by, and returns the error that it stands for, or nil if it does
// not concern this rank. The caller must hold the lock of Links.
func (j *Job) Hear(r Report, by int) error {
	switch {
	case r.Twice():
		return j.duplicate(&DuplicateError{Job: j.Identity.Job, Rank: r.Rank, First: r.First, Second: r.Second})
	case r.Rank == j.Rank:
		return nil
	}
	return j.links.Fail(r.Rank, r.Cause(by))
}

// duplicate ends the job for this rank, because two processes claim one of its ranks.
func (j *Job) duplicate(err *DuplicateError) error {
	j.links.End(err)
	return err
}

// prefix returns the prefix of the program's error texts.
func (j *Job) prefix() string { return strings.ToLower(j.Program) }

// errorf returns an error of the program.
func (j *Job) errorf(format string, args ...any) error {
	return fmt.Errorf(j.prefix()+": init: "+format, args...)
}

// any reports whether another rank is in a state.
func (j *Job) any(state State) bool {
	for rank := range j.Size {
		if rank != j.Rank && j.links.State(rank) == state {
			return true
		}
	}
	return false
}
