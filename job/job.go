package job

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// membership implements joining.Job, which documents the exported methods.
type membership struct {
	Identity
	links    joining.Links
	member   *Member   // the Member on which this program runs, or nil
	launcher *launcher // the PMI-1 launcher that has started this job, or nil
	space    space     // key-value space through which the ranks find each other; nil: broadcast discovery
	timeout  time.Duration
	nic      *vipl.NIC // nil before Meet
	log      *slog.Logger

	listener *vipl.Listener
	vis      map[int]*vipl.VI  // by rank
	said     map[int]bool      // by rank: its hello has arrived
	known    map[int][2]uint32 // parameters of ranks that need not send a hello
	asked    []*vipl.Request
	early    []*vipl.Request // requests for connections on first use that arrive before this rank has joined
	joined   bool
	refused  uint64
}

// newMembership returns the membership of the rank that id identifies.
func newMembership(id Identity, links joining.Links, timeout time.Duration) *membership {
	_, id.tree = links.(*tree)
	return &membership{Identity: id, links: links, timeout: timeout, vis: map[int]*vipl.VI{}, said: map[int]bool{}}
}

// Close implements joining.Job.
func (j *membership) Close() {
	if j.member != nil {
		j.member.removeProgram(j.Program)
	}
	if j.nic == nil {
		return
	}
	j.nic.Withdraw(j.address(j.Rank))
	if j.listener != nil {
		j.listener.Close()
	}
}

// Refused implements joining.Job.
func (j *membership) Refused() uint64 { return j.refused }

// Said implements joining.Job.
func (j *membership) Said(rank int) bool { return j.said[rank] }

// know records a rank's parameters before there is a connection with it. They come from the launcher's key-value space,
// or from a request with the nonce from there.
func (j *membership) know(rank int, params [2]uint32) {
	if j.known == nil {
		j.known = map[int][2]uint32{}
	}
	j.known[rank] = params
}

// Hello implements joining.Job.
func (j *membership) Hello() []byte {
	var b [joining.HelloSize]byte
	mine := j.describe(j.links.Params())
	mine.put(b[:])
	return b[:]
}

// errGarbled is the failure of a rank that sends an invalid message.
var errGarbled = errors.New("it sent a malformed message")

// first returns the rank that sends the nonce to this one: rank 0, or in a tree the rank above.
func (id *Identity) first() int {
	if id.tree && id.Rank > 0 {
		return id.above(id.Rank)
	}
	return 0
}

// Greeted implements joining.Job. In a tree, the hello of the rank above tells this rank which run of the job it is.
func (j *membership) Greeted(rank int, body []byte) (params [2]uint32, err error) {
	m := j.parseHello(body)
	if rank == j.first() && j.Nonce == 0 {
		j.Nonce = m.Nonce
	}
	if err := j.check(&m); err != nil {
		return m.Params, err
	}
	if j.said[rank] || int(m.Rank) != rank || j.Nonce == 0 {
		return m.Params, errGarbled
	}
	j.said[rank] = true
	return m.Params, nil
}

// Hear implements joining.Job.
func (j *membership) Hear(r joining.Report, by int) error {
	switch {
	case r.Twice():
		return j.duplicate(&DuplicateError{Job: j.Identity.Job, Rank: r.Rank, First: r.First, Second: r.Second})
	case r.Rank == j.Rank:
		return nil
	}
	return j.links.Fail(r.Rank, causeOf(r, by))
}

// duplicate ends the job for this rank, because two processes claim one of its ranks.
func (j *membership) duplicate(err *DuplicateError) error {
	j.links.End(err)
	return err
}

// prefix returns the prefix of the program's error texts.
func (j *membership) prefix() string { return strings.ToLower(j.Program) }

// errorf returns an error of the program.
func (j *membership) errorf(format string, args ...any) error {
	return fmt.Errorf(j.prefix()+": init: "+format, args...)
}

// any reports whether another rank is in a state.
func (j *membership) any(state joining.State) bool {
	for rank := range j.Size {
		if rank != j.Rank && j.links.State(rank) == state {
			return true
		}
	}
	return false
}
