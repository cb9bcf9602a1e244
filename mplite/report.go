package mplite

import "github.com/bobnet-go/bobnet/job"

// duplicate ends the job for this rank, because two processes claim one rank of
// it, and tells all others.
func (w *world) duplicate(err *DuplicateError) {
	if w.fatal == nil {
		w.cfg.Logger.Warn("rank is there twice", "rank", err.Rank, "first", err.First, "second", err.Second)
		w.sayAll(w.job.ReportOf(err))
	}
	w.shutdown(err)
}

// sayAll tells every rank that this one is connected with.
func (w *world) sayAll(r job.Report) {
	for _, p := range w.peers {
		if p != nil && p.state != peerAbsent && (p.rank != r.Rank || r.Twice()) {
			p.say(control{kind: kindFail, tag: int32(r.Rank), body: []byte(r.String())})
		}
	}
}
