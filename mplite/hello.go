package mplite

import "github.com/bobnet-go/bobnet/job"

// wireVersion changes whenever the format of a hello or a message does.
const wireVersion = 4

// identity says which rank of which job this is. Rank 0 draws the nonce, and tells
// it to the others.
func identity(name string, rank, size int) job.Identity {
	return job.Identity{Name: name, Rank: rank, Size: size, Program: "MPLite", Version: wireVersion}
}

// hello returns what this rank says of itself: the payload bytes that its receive
// buffers take, and how many of these the peer may fill with data messages.
func (w *world) hello() (b [job.HelloSize]byte) {
	mine := w.id.Hello([2]uint32{uint32(w.cfg.EagerSize), uint32(w.cfg.Credits)})
	mine.Put(b[:])
	return b
}
