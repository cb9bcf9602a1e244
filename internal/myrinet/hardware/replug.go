package hardware

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Unplug disconnects a port whose interface has disappeared. Its link must be closed, and Drive
// must have returned. As when a cable is pulled out, packets in transit through the port are lost,
// and packets for it are dropped. Replug connects the port again.
func (s *LiveSwitch) Unplug(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.port[port]; p != nil {
		p.leave(true)
		_ = s.settle(p) // its link is closed
		s.wakeOthers(p)
	}
}

// Replug gives a port a new link, for example because its interface was deleted and created again
// under the same name. Call it after Unplug and before Drive. The switch owns the link. On an error
// the port does not change.
func (s *LiveSwitch) Replug(port int, link transport.Link) error {
	info := link.Info()
	if err := checkLink(&info); err != nil {
		return fmt.Errorf("port %d of switch %s: %w", port, s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if port < 0 || port >= len(s.port) || s.port[port] == nil {
		return fmt.Errorf("myrinet: switch %s has no cable at port %d: Replug is for ports that NewLiveSwitch was given a link for", s.name, port)
	}
	p, self := s.port[port], ethertype.Addr{MAC: info.MAC, Port: info.Ports.Lo}
	for i, q := range s.port {
		if q != nil && q != p && q.self == self {
			return fmt.Errorf("myrinet: ports %d and %d of switch %s have the same address %v: give each an interface of its own", i, port, s.name, self)
		}
	}
	p.leave(true) // Unplug may not have been called
	p.plug(link)
	p.helloAt, p.helloed = 0, 0
	return nil
}
