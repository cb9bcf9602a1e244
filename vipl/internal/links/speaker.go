package links

import (
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Speaker decides which NIC of a host answers a question that goes to all NICs of its interface, so
// that the sender gets one answer and not one from each. The first NIC that is asked binds a name in
// the abstract name space, and holds it until it closes. The kernel frees the name when the process
// ends, however it ends.
type Speaker struct {
	fd    int
	name  unix.SockaddrUnix
	holds bool
	again int64 // time before which it does not try to bind
}

// speakEvery is the least time between two attempts to get the name, in ns.
const speakEvery = int64(1e6)

// Init prepares the speaker of a NIC on the link that info describes. Call it in the network
// namespace of the link.
func (s *Speaker) Init(info *transport.Info) (err error) {
	s.name.Name = fmt.Sprintf("@bobnet-speaker/%s/%04x/%d/%t", cmp.Or(info.Interface, info.MAC.String()), uint16(info.EtherType), info.BasePort, info.SameHost)
	s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return err
}

// Speaks reports whether this NIC is the one that answers, at a time in ns.
func (s *Speaker) Speaks(now int64) bool {
	if !s.holds && now >= s.again {
		s.holds, s.again = unix.Bind(s.fd, &s.name) == nil, now+speakEvery
	}
	return s.holds
}

// Release leaves the name to another NIC of the host.
func (s *Speaker) Release() {
	unix.Close(s.fd)
	s.fd, s.holds = -1, false
}
