package links

import (
	"cmp"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Speaker decides which NIC of a host answers a query to all NICs of its interface, so that the sender
// gets one answer instead of one from each. The first NIC that receives a query binds a name, and
// holds it until it closes. The kernel frees the name when the process ends, however it ends.
//
// Any user can take a name in the abstract name space and answer nothing. So a NIC of root binds a
// file under /run instead, and the others are silent while a process has it bound.
type Speaker struct {
	fd    int
	name  runsocket.Name
	root  bool
	holds bool
	quiet bool  // a NIC of root answers
	again int64 // earliest time of the next attempt to bind, or of the next check for root's NIC
}

// speakEvery is the shortest interval between two attempts to bind the name. yieldEvery is the shortest
// interval between two checks for a NIC of root, by a NIC that has the name. Both are in ns.
const (
	speakEvery = int64(1e6)
	yieldEvery = int64(1e9)
)

// Init initializes the speaker of a NIC on the link that info describes. Call it in the network
// namespace of the link.
func (s *Speaker) Init(info *transport.Info) (err error) {
	s.name = runsocket.NameOf(fmt.Sprintf("@bobnet-speaker/%s/%04x/%d/%t", cmp.Or(info.Interface, info.MAC.String()), uint16(info.EtherType), info.BasePort, info.SameHost))
	s.root = os.Geteuid() == 0
	s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return err
}

// Speaks reports whether this NIC is the one that answers, at a time in ns.
func (s *Speaker) Speaks(now int64) bool {
	if s.root && s.holds || now < s.again {
		return s.holds && !s.quiet
	}
	s.again = now + speakEvery
	if !s.holds {
		s.holds = s.claim()
	}
	if s.holds && !s.root {
		s.quiet, s.again = s.name.Alive(), now+yieldEvery
	}
	return s.holds && !s.quiet
}

// claim tries to bind the name. A root process that cannot create the file uses the abstract name.
func (s *Speaker) claim() bool {
	if s.root {
		err := s.name.TryFile(s.fd)
		if err == nil || err == unix.EADDRINUSE || err == unix.EWOULDBLOCK {
			return err == nil
		}
		s.root = false
	}
	return unix.Bind(s.fd, &unix.SockaddrUnix{Name: s.name.Abstract}) == nil
}

// Release leaves the name to another NIC of the host.
func (s *Speaker) Release() {
	unix.Close(s.fd)
	if s.root && s.holds {
		s.name.Clean()
	}
	s.fd, s.holds = -1, false
}
