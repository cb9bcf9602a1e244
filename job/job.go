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

// State says what a program knows of another rank.
type State uint8

// The states of a rank, in the order in which it may go through them.
const (
	Absent   State = iota // not connected
	Greeting              // connected, and it has not said who it is yet
	Live                  // connected, and of this run of the job
	Dead                  // it has failed
	Left                  // it has ended in order
)

// Links is a program's connections with the other ranks, as far as a job needs them
// to come together. The lock guards what the program shares between its goroutines.
// Open, Reset and Params are called without the lock, all others with it. Ranks are
// other ones than this.
type Links interface {
	sync.Locker
	// Step waits until something has happened and handles it. It releases the lock
	// meanwhile. It hands requests for connections to Job.Requested, and the first
	// message over each connection to Job.Greeted. It also returns when an attempt to
	// connect has ended. Its error is that of ctx.
	Step(ctx context.Context) error
	// Open makes the VI that is to be connected with a rank, with its receives
	// posted. An attempt to connect may take as long as connect.
	Open(rank int, connect time.Duration) (*vipl.VI, error)
	// Reset closes the VI of a rank, which is then Absent. The next Open takes as
	// little memory as a Hello and a Report need.
	Reset(rank int)
	// Params returns what the program tells of itself in a Hello.
	Params() [2]uint32
	// Greet sends the Hello over a VI that is connected now. The rank is Live when
	// its own has come, and until then Greeting.
	Greet(rank int)
	// State returns what is known of a rank.
	State(rank int) State
	// Fail makes a rank Dead because of cause, tells the others, and returns the
	// error that operations with it end with.
	Fail(rank int, cause error) error
	// Tell sends r to every rank that is connected, other than the one it is about.
	Tell(r Report)
	// End ends the job for this rank because of err, of which it tells the others.
	End(err *DuplicateError)
	// Err returns what makes waiting for the rest of the job useless, or nil: the
	// first failure of a rank, or of the job.
	Err() error
	// Unacked returns how many messages to ranks that are connected are not acknowledged
	// yet.
	Unacked() int
}

// Job is this rank's membership in a job: it finds the other ranks, proves that they
// are of the same run, and has the program's Links connect with them.
type Job struct {
	Identity
	links    Links
	member   *Member   // whose run it is, or nil
	launcher *launcher // that has started this job and speaks PMI-1, or nil
	space    space     // by which the ranks find each other; nil: they ask the segment
	timeout  time.Duration
	nic      *vipl.NIC // nil before Meet
	log      *slog.Logger

	listener *vipl.Listener
	vis      []*vipl.VI        // by rank, nil where there is none
	said     []bool            // by rank: its Hello has come
	known    map[int][2]uint32 // what ranks would tell in Hellos, of those that need not say it
	asked    []*vipl.Request
	joined   bool
	refused  uint64
}

// New returns the membership of the rank that id names. It does nothing until Meet,
// which takes timeout at the most. A job of one rank needs no Meet.
func New(id Identity, links Links, timeout time.Duration) *Job {
	return &Job{Identity: id, links: links, timeout: timeout, vis: make([]*vipl.VI, id.Size), said: make([]bool, id.Size)}
}

// Close lets nobody find this rank any more. It closes no VI. It may be called twice,
// and without Meet.
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

// Refused returns how many requests for connections were turned away, because they
// did not belong to the job. The lock of Links is held.
func (j *Job) Refused() uint64 { return j.refused }

// Said reports whether a rank's Hello has come. The lock of Links is held.
func (j *Job) Said(rank int) bool { return j.said[rank] }

// know takes note of what a rank tells of itself before there is a connection with it: by the
// launcher's key-value space, or in a request that has the nonce from there.
func (j *Job) know(rank int, params [2]uint32) {
	if j.known == nil {
		j.known = map[int][2]uint32{}
	}
	j.known[rank] = params
}

// hello returns what this rank says of itself.
func (j *Job) hello() []byte {
	var b [HelloSize]byte
	mine := j.Hello(j.links.Params())
	mine.Put(b[:])
	return b[:]
}

// errGarbled is why a rank fails that sends what no rank does.
var errGarbled = errors.New("it sent a message that is not one")

// Greeted takes the first message over the connection with a rank and returns what
// it says, or what is wrong with it, for which the program fails the rank. Rank 0
// tells this one which run of the job it is. The lock of Links is held.
func (j *Job) Greeted(rank int, body []byte) (Hello, error) {
	m := j.ParseHello(body)
	if rank == 0 && j.Nonce == 0 {
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

// Hear takes a report of rank by, and returns the error that it stands for; nil
// if this rank need not care. The lock of Links is held.
func (j *Job) Hear(r Report, by int) error {
	switch {
	case r.Twice():
		return j.duplicate(&DuplicateError{Job: j.Identity.Job, Rank: r.Rank, First: r.First, Second: r.Second})
	case r.Rank == j.Rank:
		return nil
	}
	return j.links.Fail(r.Rank, r.Cause(by))
}

// duplicate ends the job for this rank, because two processes claim one rank of it.
func (j *Job) duplicate(err *DuplicateError) error {
	j.links.End(err)
	return err
}

// prefix begins the error texts of the program.
func (j *Job) prefix() string { return strings.ToLower(j.Program) }

// errorf makes an error of the program.
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
