package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// Error classes for errors.Is.
var (
	// ErrRankFailed is the class of every RankError.
	ErrRankFailed = errclass.New(transport.ErrPeer, "rank failed")
	// ErrInit is wrapped by the error of a rank whose job does not start completely.
	ErrInit = errors.New("not all ranks joined")
	// ErrVersion is wrapped by the error of a rank whose job does not start completely because two
	// ranks are known to use different versions of the message format.
	ErrVersion = errors.New("ranks have different versions")
	// errReported is wrapped by the cause of a failure that another rank has reported.
	errReported = errors.New("reported dead")
)

// RankError means that an operation ended because a rank died: its process ended without leaving
// the job, it stopped answering, its connection broke, or it sent a malformed message. While the
// job starts, it may also mean a rank that never joined.
type RankError struct {
	Rank int // rank in the job
	Err  error
}

func (e *RankError) Error() string {
	return fmt.Sprintf("job: rank %d failed: %v", e.Rank, e.Err)
}

// Unwrap returns ErrRankFailed and the cause.
func (e *RankError) Unwrap() []error { return []error{ErrRankFailed, e.Err} }

// DuplicateError means that two processes claim one rank of a job: the job was started twice, or
// two jobs of the same name run on the segment. All ranks that have not completed the start of the
// job fail with it.
type DuplicateError struct {
	Job           string
	Rank          int
	First, Second ethertype.Addr // their listeners' addresses, or those that their requests come from
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("job: %v: two processes claim rank %d of job %q, at %v and at %v: give every run a name of its own by %s, and start each rank once",
		ErrInit, e.Rank, e.Job, e.First, e.Second, EnvJob)
}

// Unwrap returns ErrInit.
func (e *DuplicateError) Unwrap() error { return ErrInit }

// hearsay is a cause of failure that another rank has reported.
type hearsay struct {
	by  int
	why string
}

func (h *hearsay) Error() string { return fmt.Sprintf("%v by rank %d: %s", errReported, h.by, h.why) }
func (h *hearsay) Unwrap() error { return errReported }

// lastWords is a cause of failure that the failed rank has reported itself.
type lastWords string

func (w lastWords) Error() string { return string(w) }

// told reports whether a rank, the failed one or another, has reported the cause. Otherwise this
// rank has detected the failure.
func told(cause error) bool {
	var by *hearsay
	var own lastWords
	return errors.As(cause, &by) || errors.As(cause, &own)
}

// rankList formats ranks for people: the first few numbers, and how many more there are.
func rankList(ranks []int) string {
	const few = 8
	var text []string
	for _, rank := range ranks[:min(few, len(ranks))] {
		text = append(text, fmt.Sprint(rank))
	}
	if n := len(ranks) - few; n > 0 {
		text = append(text, fmt.Sprintf("and %d more", n))
	}
	return "rank " + strings.Join(text, ", ")
}
