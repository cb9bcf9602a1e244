// Package optional has the interfaces that links of Bobnet's own implement beside transport.Link
// and that its own packages look for: the host's other stations, its processes, descriptors to
// watch, and places to wait at in the simulator.
package optional

import "github.com/bobnet-go/bobnet/transport"

// Local is implemented by links that also reach the stations of their own host, which an Ethernet
// interface does not. Such stations have the link's own MAC address and other ports or, for two
// endpoints of one link, ports of its own range.
//
// Frames between them need no encryption, are not lost unless a queue overflows, and may be longer
// than Info().MTU.
type Local interface {
	transport.Link

	// LocalMTU returns the MTU towards stations with the link's own MAC
	// address; it is at least Info().MTU.
	LocalMTU() int

	// LocalSlots returns how many frames of maximum length can be in flight to one of these
	// stations before some are dropped.
	LocalSlots() int

	// OnDeparture makes the link call f when a station of this host has left: its process has
	// ended, its link was closed, or it wrote invalid data to shared memory. f receives the
	// station's ports and the reason, and runs within Recv. The caller sets it once, before the
	// first Recv.
	OnDeparture(f func(ports transport.PortRange, why error))
}

// Witness is implemented by links that know which processes of their host are alive.
type Witness interface {
	transport.Link

	// Lives reports whether the process at a port of this host is alive, as far as the kernel has
	// informed the link: it shares memory with the link, and has not ended. It may be stopped, or
	// not scheduled. Any goroutine may call Lives.
	Lives(port uint16) bool
}

// MemoryReader is implemented by links that can read the memory of other processes of their host.
type MemoryReader interface {
	transport.Link

	// ReadMemory copies len(dst) bytes from address from of the process at a port of this host to dst,
	// and after that the word at address mark, which it returns. dst must not be empty. After an error
	// dst is undefined. The link knows from the kernel which process has the port. It fails unless
	// that process is of this process's user and the kernel permits the access. Any goroutine may
	// call it.
	ReadMemory(port uint16, dst []byte, from, mark uint64) (word uint64, err error)
}

// Lender is implemented by links that can lend the receiver the memory of a frame's sender, in place of a copy
// (transport.Frame.Mark).
type Lender interface {
	transport.Link

	// Copied reports that the caller has copied n bytes of a frame of this host out of its view in ns nanoseconds.
	// from and to are the frame's ports. The link lends frames if that is faster. Only the caller of Recv may call it.
	Copied(from, to uint16, n int, ns int64)
}

// Sharer is implemented by links that share memory with other processes of their host.
type Sharer interface {
	transport.Link

	// ShareTrouble returns why this process last failed to create or map shared memory, or nil: its
	// limits are reached, or the host has no memory left. Frames between the two processes are then
	// dropped. Any goroutine may call it.
	ShareTrouble() error
}

// ShareTrouble calls link's ShareTrouble if it, or a link that it wraps, has one.
func ShareTrouble(link transport.Link) error {
	if s, ok := transport.As[Sharer](link); ok {
		return s.ShareTrouble()
	}
	return nil
}

// Nearby is implemented by links that receive through memory shared with other processes of their
// host, perhaps among other ways.
type Nearby interface {
	transport.Link

	// Nearby reports whether the latest frames came through shared memory. Only the caller of Recv
	// may call it.
	Nearby() bool
}

// Watcher is implemented by links whose Wait can also end because of a descriptor of the caller.
type Watcher interface {
	transport.Link

	// Watch makes Wait end, from its next call on, when fd is readable. The caller must then read
	// fd, because otherwise every Wait ends at once. A negative fd ends the watch. Close does not
	// close fd.
	Watch(fd int)
}
