package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// errMissing is the failure of a rank that has not joined.
var errMissing = errors.New("it did not join in time")

// timeIsUp reports whether err means that the timeout of Meet has expired. A rank that does not
// answer a connection request, or that has died, has its own error.
func timeIsUp(err error) bool {
	var refused *vipl.ConnError
	return !errors.As(err, &refused) && !errors.Is(err, ErrRankFailed) && (errors.Is(err, vipl.ErrNameService) || errors.Is(err, vipl.ErrTimeout) || errors.Is(err, context.DeadlineExceeded))
}

// How long Meet looks for missing ranks when the timeout has expired, in all and for each; it looks
// only for the first few.
const (
	lookForAll = 200 * time.Millisecond
	lookForOne = 50 * time.Millisecond
)

// missing returns Meet's error when the timeout has expired. It is also an ErrVersion if the last
// refusal was because of the version.
func (m *meeting) missing(took time.Duration, cause error) error {
	err := m.absence(took, cause)
	if errors.Is(m.refusal, ErrVersion) {
		return errclass.With(ErrVersion, err)
	}
	return err
}

// absence describes which ranks are missing and possibly why. It looks them up once more to
// distinguish ranks that are not on the segment from ranks that wait themselves.
func (m *meeting) absence(took time.Duration, cause error) error {
	var silent []int
	rest := m.unconnected()
	for end := m.nic.Now() + int64(lookForAll); len(rest) > 0 && m.nic.Now() < end; rest = rest[1:] {
		ctx, cancel := m.nic.WithTimeout(context.Background(), lookForOne)
		if _, err := m.nic.LookupAt(ctx, m.known(rest[0]), m.address(rest[0])); err != nil {
			silent = append(silent, rest[0])
		}
		cancel()
	}
	clues := m.clues()
	m.blame(append(silent, m.unconnected()...), fmt.Errorf("%w%s", errMissing, clues))
	why := m.because(cause)
	if len(silent) == 0 {
		return m.errorf("%w: %s of job %q did not connect within %v%s: %s", ErrInit, rankList(m.unconnected()), m.Identity.Job, took, clues, why)
	}
	more := clues
	if len(rest) > 0 {
		more += fmt.Sprintf("; %d more have not connected", len(rest))
	}
	return m.errorf("%w: %s of job %q did not appear within %v: check that it runs, on this segment, with the same %s and key%s (%s) %s",
		ErrInit, rankList(silent), m.Identity.Job, took, EnvJob, more, why, tryDoctor)
}

// because returns the text of cause without the parts that absence writes itself.
func (m *meeting) because(cause error) string {
	text := strings.TrimPrefix(cause.Error(), m.prefix()+": init: ")
	text = strings.TrimPrefix(text, ErrInit.Error()+": ")
	return strings.ReplaceAll(text, " "+tryDoctor, "")
}

// blame reports the first of ranks as the cause of this rank's end. Otherwise the others would
// blame this rank.
func (m *meeting) blame(ranks []int, why error) {
	m.links.Lock()
	defer m.links.Unlock()
	if len(ranks) > 0 {
		m.links.Fail(ranks[0], why)
	}
}

// unconnected returns the ranks that have no verified connection with this one.
func (m *meeting) unconnected() (ranks []int) {
	for rank := range m.Size {
		if rank != m.Rank && m.links.State(rank) != joining.Live {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
