package mplite

import "github.com/bobnet-go/bobnet/job"

// wireVersion changes whenever the format of a hello or a message does.
const wireVersion = 5

// program is what job's errors and names call this package.
const program = "MPLite"

// newJob returns w's membership in the job of a name, or in the run of the process's
// member. Without one rank 0 draws the run's nonce, and tells it to the others.
func newJob(w *world, name string) (*job.Job, error) {
	if m := w.cfg.Member; m != nil {
		return m.New(program, wireVersion, links{w}, w.cfg.Timeout)
	}
	id := job.Identity{Job: name, Rank: w.rank, Size: w.size, Program: program, Version: wireVersion}
	return job.New(id, links{w}, w.cfg.Timeout), nil
}

// hello returns what this rank says of itself: the payload bytes that its receive
// buffers take, and how many of these the peer may fill with data messages.
func (w *world) hello() (b [job.HelloSize]byte) {
	mine := w.job.Hello(w.params())
	mine.Put(b[:])
	return b
}

func (w *world) params() [2]uint32 { return [2]uint32{uint32(w.cfg.EagerSize), uint32(w.cfg.Credits)} }
