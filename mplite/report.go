package mplite

import "github.com/bobnet-go/bobnet/job"

// hear takes a report of rank by, and returns the error that it stands for; nil
// if this rank need not care.
func (w *world) hear(r job.Report, by int) error {
	switch {
	case r.Twice():
		err := &DuplicateError{Job: w.id.Name, Rank: r.Rank, First: r.First, Second: r.Second}
		w.duplicate(err)
		return err
	case r.Rank == w.rank:
		w.stats.Strays++
		return nil
	}
	q := w.peers[r.Rank]
	q.fail(r.Cause(by))
	return q.err
}

// duplicate ends the job for this rank, because two processes claim one rank of
// it, and tells all others.
func (w *world) duplicate(err *DuplicateError) {
	if w.fatal == nil {
		w.cfg.Logger.Warn("rank is there twice", "rank", err.Rank, "first", err.First, "second", err.Second)
		w.sayAll(w.id.ReportOf(err))
	}
	w.shutdown(err)
	w.notify()
}

// sayAll tells every rank that this one is connected with.
func (w *world) sayAll(r job.Report) {
	for _, p := range w.peers {
		if p != nil && p.state != peerAbsent && (p.rank != r.Rank || r.Twice()) {
			p.say(control{kind: kindFail, tag: int32(r.Rank), body: []byte(r.String())})
		}
	}
}
