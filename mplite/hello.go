package mplite

import "github.com/bobnet-go/bobnet/job"

// wireVersion changes whenever the format of a hello or a message does.
const wireVersion = 5

// newJob returns w's membership in the job of a name. Rank 0 draws its nonce, and
// tells it to the others.
func newJob(w *world, name string) *job.Job {
	id := job.Identity{Name: name, Rank: w.rank, Size: w.size, Program: "MPLite", Version: wireVersion}
	return job.New(id, links{w}, w.cfg.Timeout)
}

// hello returns what this rank says of itself: the payload bytes that its receive
// buffers take, and how many of these the peer may fill with data messages.
func (w *world) hello() (b [job.HelloSize]byte) {
	mine := w.job.Hello(w.params())
	mine.Put(b[:])
	return b
}

func (w *world) params() [2]uint32 { return [2]uint32{uint32(w.cfg.EagerSize), uint32(w.cfg.Credits)} }
