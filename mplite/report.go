package mplite

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// report is what ranks tell each other of why a job ends: in a message over a
// connection, and in the refusal of one. It travels as printable text:
//
//	fail RANK WHY
//	twice RANK ADDRESS ADDRESS
type report struct {
	rank          int
	why           string         // of a rank that has failed
	first, second ethertype.Addr // of two processes that both claim rank, else zero
}

// reportMax is the longest report, in bytes.
const reportMax = 224

func (r report) twice() bool { return r.second != ethertype.Addr{} }

func (r report) String() string {
	if r.twice() {
		return fmt.Sprintf("twice %d %v %v", r.rank, r.first, r.second)
	}
	text := fmt.Sprintf("fail %d %s", r.rank, r.why)
	return text[:min(len(text), reportMax)]
}

// parseReport reads what a rank of a job of size ranks says, which may be
// anything.
func parseReport(text string, size int) (r report, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	number, rest, _ := strings.Cut(rest, " ")
	rank, err := strconv.Atoi(number)
	if err != nil || rank < 0 || rank >= size || len(text) > reportMax {
		return report{}, false
	}
	r.rank = rank
	switch kind {
	case "fail":
		r.why = printable(rest)
		return r, true
	case "twice":
		first, second, _ := strings.Cut(rest, " ")
		var err1, err2 error
		r.first, err1 = ethertype.ParseAddr(first)
		r.second, err2 = ethertype.ParseAddr(second)
		return r, err1 == nil && err2 == nil && r.twice()
	}
	return report{}, false
}

// printable makes text from another rank safe to show.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text)
}

// hearsay is the cause of death that another rank has told.
type hearsay struct {
	by  int
	why string
}

func (h *hearsay) Error() string { return fmt.Sprintf("%v by rank %d: %s", errReported, h.by, h.why) }
func (h *hearsay) Unwrap() error { return errReported }

// reportOf returns what to tell the others of err, because of which this rank
// ends. What it has been told itself is passed on in the words of who saw it.
func (w *world) reportOf(err error) report {
	var twice *DuplicateError
	var failed *RankError
	var told *hearsay
	switch {
	case errors.As(err, &twice):
		return report{rank: twice.Rank, first: twice.First, second: twice.Second}
	case errors.As(err, &told) && errors.As(err, &failed):
		return report{rank: failed.Rank, why: told.why}
	case errors.As(err, &failed):
		return report{rank: failed.Rank, why: failed.Err.Error()}
	}
	return report{rank: w.rank, why: "it gave up: " + strings.TrimPrefix(err.Error(), "mplite: ")}
}

// hear takes a report of rank by, and returns the error that it stands for; nil
// if this rank need not care.
func (w *world) hear(r report, by int) error {
	switch {
	case r.twice():
		err := &DuplicateError{Job: w.job, Rank: r.rank, First: r.first, Second: r.second}
		w.duplicate(err)
		return err
	case r.rank == w.rank:
		w.stats.Strays++
		return nil
	}
	q := w.peers[r.rank]
	if by == r.rank {
		q.fail(errors.New(r.why))
	} else {
		q.fail(&hearsay{by: by, why: r.why})
	}
	return q.err
}

// duplicate ends the job for this rank, because two processes claim one rank of
// it, and tells all others.
func (w *world) duplicate(err *DuplicateError) {
	if w.fatal == nil {
		w.cfg.Logger.Warn("rank is there twice", "rank", err.Rank, "first", err.First, "second", err.Second)
		w.sayAll(w.reportOf(err))
	}
	w.shutdown(err)
	w.notify()
}

// sayAll tells every rank that this one is connected with.
func (w *world) sayAll(r report) {
	for _, p := range w.peers {
		if p != nil && p.state != peerAbsent && (p.rank != r.rank || r.twice()) {
			p.say(control{kind: kindFail, tag: int32(r.rank), body: []byte(r.String())})
		}
	}
}
