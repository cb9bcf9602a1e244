package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// What callers may want to tell apart.
var (
	// ErrRankFailed is the class of every RankError.
	ErrRankFailed = errclass.New(transport.ErrPeer, "rank failed")
	// ErrInit is wrapped by what a rank returns whose job does not come together.
	ErrInit = errors.New("job did not come together")
	// ErrVersion is wrapped by what a rank returns whose job does not come together because
	// the formats of messages of two ranks have different versions, as far as it has heard.
	ErrVersion = errors.New("ranks have different versions")
	// errReported is wrapped by the cause of a death that another rank has told of.
	errReported = errors.New("it is reported dead")
)

// RankError says that an operation ended because a rank died: its process ended
// without leaving the job, it stopped answering, the connection to it broke, or it
// sent what no rank may. While the job comes together, it may also be one that never
// came.
type RankError struct {
	Rank int // in the job
	Err  error
}

func (e *RankError) Error() string {
	return fmt.Sprintf("job: rank %d failed: %v", e.Rank, e.Err)
}

// Unwrap returns ErrRankFailed and the cause.
func (e *RankError) Unwrap() []error { return []error{ErrRankFailed, e.Err} }

// DuplicateError says that two processes claim one rank of a job: it was started
// twice, or two jobs of one name run on the segment. All ranks end with it that the
// job has not brought together yet.
type DuplicateError struct {
	Job           string
	Rank          int
	First, Second ethertype.Addr // where they listen, or ask from
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("job: %v: two processes claim rank %d of job %q, at %v and at %v: give every run a name of its own by %s, and start each rank once",
		ErrInit, e.Rank, e.Job, e.First, e.Second, EnvJob)
}

// Unwrap returns ErrInit.
func (e *DuplicateError) Unwrap() error { return ErrInit }

// hearsay is the cause of death that another rank has told.
type hearsay struct {
	by  int
	why string
}

func (h *hearsay) Error() string { return fmt.Sprintf("%v by rank %d: %s", errReported, h.by, h.why) }
func (h *hearsay) Unwrap() error { return errReported }

// rankList writes ranks for people, the first few by number.
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
