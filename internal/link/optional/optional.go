// Package optional has the interfaces that links of Bobnet's own implement beside transport.Link
// and that its own packages look for: the host's other stations, its processes, descriptors to
// watch, and places to wait at in the simulator.
package optional

import "github.com/bobnet-go/bobnet/transport"

// Local is implemented by links that also reach the stations of their own
// host, which an Ethernet interface does not: it never hands a frame back.
// Such stations have the link's own MAC address and other ports, or, for two
// endpoints of one link, ports of its own range.
//
// Frames between them need no protection, are not lost unless a queue
// overflows, and may be longer than Info().MTU.
type Local interface {
	transport.Link

	// LocalMTU returns the MTU towards stations with the link's own MAC
	// address; it is at least Info().MTU.
	LocalMTU() int

	// LocalSlots returns how many of the longest frames to one of these
	// stations may be under way before some are dropped.
	LocalSlots() int

	// OnDeparture makes the link call f when it learns that a station of this
	// host is gone: its process has ended, its link was closed, or what it
	// wrote to shared memory is not valid. f gets the station's ports and
	// the reason, and runs within Recv. It is set once, before the first Recv.
	OnDeparture(f func(ports transport.PortRange, why error))
}

// Witness is implemented by links that know which processes of their host live.
type Witness interface {
	transport.Link

	// Lives reports whether the process at a port of this host lives, as far as the kernel has
	// told the link: it shares memory with the link, and has not ended. It may be stopped, or
	// have no processor. Any goroutine may call Lives.
	Lives(port uint16) bool
}

// Sharer is implemented by links that share memory with other processes of their host.
type Sharer interface {
	transport.Link

	// ShareTrouble returns why this process could not make or take memory when it last tried
	// to share some with another one, or nil: its limits are reached, or the host has none
	// left. Frames between the two are dropped then. Any goroutine may call it.
	ShareTrouble() error
}

// ShareTrouble calls link's ShareTrouble if it, or a link that it wraps, has one.
func ShareTrouble(link transport.Link) error {
	if s, ok := transport.As[Sharer](link); ok {
		return s.ShareTrouble()
	}
	return nil
}

// Watcher is implemented by links whose Wait can end because of a descriptor of the
// caller's, too.
type Watcher interface {
	transport.Link

	// Watch makes Wait end, from its next call on, when fd can be read. The caller
	// then reads it, because otherwise every Wait ends at once. A negative fd ends the
	// watch. Close does not close fd.
	Watch(fd int)
}
