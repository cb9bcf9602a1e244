// Package joining holds what package job offers to Bobnet's other packages with ranks, but not to users: a Job finds
// the ranks of a job, checks that they belong to the same run, and makes a package's Links connect with them.
package joining

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// Package job sets these functions. The arguments cfg and member are any because job imports this package. Each caller
// imports job, too.
var (
	// New returns a rank's membership in the job of that name, for a program that connects all ranks at the start. The
	// Job does nothing until Meet. A job of one rank needs no Meet.
	New func(p Program, job string, rank, size int) Job
	// On returns the membership of one more program, in the run of the job that the *job.Member belongs to. Its Meet
	// uses the member's NIC, and fails as soon as the member learns that a rank has failed. All ranks must call On. A
	// program name can be used once at a time: it is free again after Close. Close the Job before the member ends.
	On func(p Program, member any) (Job, error)

	// Complete fills in zero fields of the *job.Config from the environment or a launcher, or with their defaults. It
	// returns an error if a field is invalid.
	Complete func(cfg any) error
	// OpenNIC returns the NIC that the *job.Config names. If own is true, OpenNIC has opened the NIC, and the caller
	// must close it. ctx bounds only the call.
	OpenNIC func(ctx context.Context, cfg any) (nic *vipl.NIC, own bool, err error)
	// SayAlone reports on stderr that this process is a job of one rank, unless a launcher started it (job.FindPlace):
	// a user who has started several processes probably did not intend that. Only the first call in a process prints.
	SayAlone func(program string)
)

// Program describes a package with ranks.
type Program struct {
	Name    string // name in error texts
	Version uint32 // version of its message format, equal at all ranks
	Links   Links
	Timeout time.Duration // limit of Meet
}

// State is what a program knows about another rank.
type State uint8

// The states of a rank, in the order in which it may go through them.
const (
	Absent   State = iota // not connected
	Greeting              // connected, and its hello has not arrived yet
	Live                  // connected, and verified to be of this run of the job
	Dead                  // it has failed
	Left                  // it has left the job in order
)

// Links are a program's connections with the other ranks, with the operations that a job needs to start. The lock
// guards what the program shares between its goroutines. Open, Reset and Params are called without the lock, all other
// methods with it. No method is called with this process's own rank.
type Links interface {
	sync.Locker
	// Step waits until something has happened and handles it. It releases the lock meanwhile. It passes connection
	// requests to Job.Requested, and the first message over each connection to Job.Greeted. It also returns when an
	// attempt to connect has ended. Its error is that of ctx.
	Step(ctx context.Context) error
	// Open creates the VI that will be connected with a rank, with its receives posted. connect is the longest duration
	// of an attempt to connect.
	Open(rank int, connect time.Duration) (*vipl.VI, error)
	// Reset closes the VI of a rank, which is then Absent. The next Open allocates only the memory for a hello and a
	// Report.
	Reset(rank int)
	// Params returns the program's values for a hello.
	Params() [2]uint32
	// Greet sends Job.Hello over a newly connected VI. The rank is Greeting until its own hello has arrived, and then
	// Live.
	Greet(rank int)
	// State returns the state of a rank.
	State(rank int) State
	// Fail makes a rank Dead because of cause, notifies the others, and returns the error of operations with that rank.
	Fail(rank int, cause error) error
	// Tell sends r to every connected rank except the one that r is about.
	Tell(r Report)
	// End ends the job for this rank because of err, a *job.DuplicateError, and notifies the others.
	End(err error)
	// Err returns the first failure of a rank or of the job, after which waiting for the rest is useless, or nil.
	Err() error
	// Unacked returns the number of messages to connected ranks that are not acknowledged yet.
	Unacked() int
}

// HelloSize is the length of a hello, in bytes. A hello is a rank's description of itself: the private data of its
// connection requests, and the first message over each connection.
const HelloSize = 36

// Job is a rank's membership in a job.
type Job interface {
	// Meet connects this rank with all others through nic. Connection requests go to cq, and Links.Step passes them to
	// Requested. After three seconds Meet logs the ranks that it waits for, and why, to log; nil means slog.Default().
	// Call it once, without the lock of Links.
	//
	// When its timeout expires, it fails with an error that names missing ranks. Looking for those takes about a fifth
	// of a second more. It fails at once with ctx's error if ctx ends, with a job.RankError and its reason if another
	// rank dies or leaves, and with a job.DuplicateError if two processes claim one rank. A rank that fails notifies the
	// others of the reason, which takes about a second at most.
	Meet(ctx context.Context, nic *vipl.NIC, cq *vipl.CQ, log *slog.Logger) error
	// Close stops other ranks from finding this one. It closes no VI. It may be called twice, and without Meet.
	Close()
	// Done reports the orderly end of the rank to the launcher, if a launcher with PMI-1 has started this job. Such a
	// launcher ends the whole job if a process exits without this report. Done may be called twice.
	Done()
	// Abort makes the launcher end all processes of the job with pmi.ExitCode(code), if a launcher with PMI-1 has
	// started it. Ranks that detect the failure by themselves do not need this. The launcher also ends ranks that do not
	// respond, and returns the code to the program that started the job.
	Abort(code int)

	// Hello returns this rank's hello.
	Hello() []byte
	// ReportOf returns the report that this rank sends when it ends because of err. It forwards a received report with
	// its original text.
	ReportOf(err error) Report

	// The caller of the following methods must hold the lock of Links.

	// Requested admits or refuses a connection request.
	Requested(req *vipl.Request)
	// Greeted processes the first message over the connection with a rank. It returns the values of the rank's program,
	// or the error for which this program must fail the rank. The hello of rank 0 tells this rank which run of the job
	// it is.
	Greeted(rank int, hello []byte) (params [2]uint32, err error)
	// Said reports whether a rank's hello has arrived.
	Said(rank int) bool
	// Hear processes a report of rank by, and returns the error that it stands for, or nil if it does not concern this
	// rank.
	Hear(r Report, by int) error
	// Refused returns the number of refused requests, which did not belong to the job.
	Refused() uint64
	// AwaitAcks waits until the other ranks have acknowledged this rank's messages, after all of them have said goodbye.
	// The last message between two ranks cannot be confirmed: a rank ends after it has received everything, and if its
	// last acknowledgement is lost, no one repeats it. So AwaitAcks returns without an error if no acknowledgement has
	// arrived for three seconds, in which unacknowledged messages have been sent about nine more times. It fails with
	// ctx's error, or that of Links.Step.
	AwaitAcks(ctx context.Context) error

	// The following methods are for a program on a member (On). The lock of Links may be held.

	// OnUse lets the program connect to other ranks by Dial, in place of Meet. The member calls kick, without a lock,
	// when Next returns something, also while the program computes.
	OnUse(kick func())
	// Next returns the next event of the member.
	Next() (ev Event, ok bool)
	// Station returns where the member of another rank listens, and the values of its program.
	Station(rank int) (addr ethertype.Addr, params [2]uint32)
	// Dial starts to connect vi with the program of another rank, and returns at once; see VI.ConnectDone.
	Dial(vi *vipl.VI, rank int) error
	// Failed makes the member report to all ranks that one has failed.
	Failed(rank int, cause error)
	// Say makes the member report to all ranks that this one fails, and why.
	Say(why string)
	// Leave makes the member tell all ranks that this one leaves. An Event follows when all living ranks leave.
	Leave()
}

// Event is an event for a program that connects on first use: a rank's connection request, the failure of a rank, or
// that all ranks leave.
type Event struct {
	Rank    int           // -1: all ranks leave
	Request *vipl.Request // nil if Rank has failed
	Params  [2]uint32     // values of the program of the requesting rank
	Err     error         // the *job.RankError
}
