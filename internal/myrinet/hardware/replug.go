package hardware

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// Unplug says that the link of a port is closed, and Drive of it has returned, because the
// interface below has gone for good. What was under way by the port is lost, and what comes for
// it is dropped, as when a cable is pulled out. Replug gives the port another one.
func (s *LiveSwitch) Unplug(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.port[port]; p != nil {
		p.leave(true)
		_ = s.settle(p) // its link is closed
		s.wakeOthers(p)
	}
}

// Replug gives a port that has had a cable another link: who deletes an interface and makes
// one of the same name has made another one. It comes after Unplug, and Drive after it; the
// link is the switch's from now on. On an error the port is as it was.
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
