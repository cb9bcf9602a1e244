package afpacket

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// minEtherType is the first value of a frame's type field that is not a length.
const minEtherType = 0x0600

// Station is an address on a segment: an interface, an EtherType, and ports.
type Station struct {
	iface.Interface
	EtherType ethernet.EtherType
	*Claim
	// Given are packet sockets that another process has opened, with the station's filter locked,
	// for a process without the permission to open them. nil means that this process opens them.
	// Socket returns them.
	Given []int
	// Device is the interface name that sends by a given socket need in the address if its type is
	// SOCK_PACKET. It is empty for SOCK_RAW.
	Device string
}

// MaxDevice is the maximum length of Station.Device in bytes.
const MaxDevice = 13

// Socket returns a packet socket that is not bound. It has no filter, unless it was given: then it
// has the station's, permanently.
func (s *Station) Socket() (fd int, err error) {
	if s.Given == nil {
		return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	if len(s.Given) == 0 {
		return -1, unix.ENFILE
	}
	fd = s.Given[0]
	s.Given = s.Given[1:]
	return fd, nil
}

// Attach sets the filter of one of the station's sockets. The filter of a given socket does not
// change.
func (s *Station) Attach(fd int, which Which) error {
	if s.Given != nil {
		return nil
	}
	prog, err := s.Filter(which)
	if err == nil {
		err = Attach(fd, prog)
	}
	return s.OpenError("attach filter", err)
}

// NewStation finds the interface, as iface.Find does, and claims the ports, as ClaimPorts does. A
// zero typ means ethertype.Default. The caller must call Release when the link is closed.
func NewStation(name string, typ ethernet.EtherType, ports transport.PortRange) (*Station, error) {
	typ, err := CheckEtherType(typ)
	if err != nil {
		return nil, err
	}
	ifi, err := iface.Find(name)
	if err != nil {
		return nil, err
	}
	claim, err := ClaimPorts(ifi.Index, ifi.Name, typ, ports)
	if err != nil {
		return nil, err
	}
	return &Station{Interface: ifi, EtherType: typ, Claim: claim}, nil
}

// CheckEtherType returns typ, or ethertype.Default for 0. It refuses a value that is a length.
func CheckEtherType(typ ethernet.EtherType) (ethernet.EtherType, error) {
	if typ == 0 {
		return ethertype.Default, nil
	}
	if typ < minEtherType {
		return 0, fmt.Errorf("transport: EtherType %#04x: %w: values below %#04x are lengths; take %#04x or 0x88b6 (IEEE local experimental)",
			uint16(typ), unix.EINVAL, minEtherType, uint16(ethertype.Default))
	}
	return typ, nil
}

// Filter returns the filter for the station's frames.
func (s *Station) Filter(which Which) ([]bpf.RawInstruction, error) {
	return Filter(s.EtherType, s.Ports, which)
}

// Info describes a link at s. The caller adds Slots.
func (s *Station) Info(driver string) transport.Info {
	return transport.Info{
		Driver:    driver,
		Interface: s.Name,
		MAC:       s.MAC,
		EtherType: s.EtherType,
		Ports:     s.Ports,
		MTU:       s.MTU,
	}
}

// CheckType refuses a bound socket whose interface is not Ethernet, such as a radio monitor: its
// frames have another header.
func (s *Station) CheckType(hatype uint16) error {
	if hatype == unix.ARPHRD_ETHER {
		return nil
	}
	return fmt.Errorf("%w: %v is not Ethernet (hardware type %d); name another (see: ip link)",
		transport.ErrInterface, s.Interface, hatype)
}
