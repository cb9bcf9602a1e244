package vipl

import (
	"context"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// The name service has two halves. Services have names that their programs give
// them: Advertise, Withdraw and Lookup, in names.go. Hosts have names that their
// administrator gives them: HostByName and HostByAddr look into the ethers file
// and then ask the segment, where every NIC answers for its host.

// NameConfig says how the name service knows hosts. Nil, and every zero field,
// mean the default.
type NameConfig struct {
	// HostName is what this NIC answers to; empty means the system's own. It is
	// cut at MaxHostName bytes.
	HostName string
	// Ethers is the path of a file in the format of ethers(5); empty means
	// DefaultEthers. A missing file is an empty one.
	Ethers string
}

// hostTable is what the NIC knows of hosts.
type hostTable struct {
	name   string
	ethers []ether
	shut   bool
}

// StartNames starts the name service, or starts it again with another
// configuration and the ethers file as it is now (VipNSInit). Open has done so
// with Config.Names. The error says what is wrong with the file; the service
// runs all the same, with the lines that can be understood.
func (n *NIC) StartNames(cfg *NameConfig) error {
	if cfg == nil {
		cfg = &NameConfig{}
	}
	name := cfg.HostName
	if name == "" {
		name, _ = os.Hostname() // without one, nobody finds it by name
	}
	list, err := readEthers(cfg.Ethers)
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.closed {
		return ErrClosed
	}
	n.hosts = hostTable{name: name[:min(len(name), MaxHostName)], ethers: list}
	return err
}

// StopNames stops the name service (VipNSShutdown): the names that this NIC
// advertises are withdrawn, questions for names are not answered, and Advertise,
// Lookup, HostByName and HostByAddr return ErrNameService until StartNames.
// Discover goes on, both ways.
func (n *NIC) StopNames() {
	n.eng.Lock()
	defer n.eng.Unlock()
	n.hosts.shut = true
	clear(n.names.own)
	for _, l := range n.names.pending {
		l.gate.Open(&n.eng)
	}
}

// namesUp returns an error if the name service does not run.
func (n *NIC) namesUp(op string) error {
	switch {
	case n.closed:
		return ErrClosed
	case n.hosts.shut:
		return opError(op, ErrNameService, "the name service was stopped: call StartNames")
	}
	return nil
}

// hostSettle is how long HostByName listens after the first answer, so that the
// order of several is the same each time.
const hostSettle = 100 * time.Millisecond

// HostByName returns the address of the host called name
// (VipNSGetHostByName). If several have that name, index picks one, from 0 on:
// first those in the ethers file, in its order, then those that answer on the
// segment, in the order of their addresses. From the file only the MAC address is
// known and the port is 0, which Echo takes for any NIC there; from the segment
// it is the NIC's own address, as ConnectPeer wants it. A VI or a listener there
// has the same MAC address and its own port.
//
// A name in the file takes no time. Otherwise it asks until an answer comes, ctx
// ends or, without a deadline, a second has passed. The error is ErrNameService
// when there is no such host or index.
func (n *NIC) HostByName(ctx context.Context, name string, index int) (ethertype.Addr, error) {
	const op = "look up host name"
	if name == "" || len(name) > MaxHostName || index < 0 {
		return ethertype.Addr{}, opError(op, ErrInvalidParameter, "want a name of 1..%d bytes and an index from 0 on, got %d bytes and %d", MaxHostName, len(name), index)
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := n.namesUp(op); err != nil {
		return ethertype.Addr{}, err
	}
	known := map[ethertype.MAC]bool{}
	for _, e := range n.hosts.ethers {
		if e.name != name {
			continue
		}
		if index == 0 {
			return ethertype.Addr{MAC: e.mac}, nil
		}
		index--
		known[e.mac] = true
	}
	q := inquiry{to: ethertype.Addr{MAC: ethertype.Broadcast}, host: name, listen: DiscoverTime, settle: hostSettle}
	if name == n.hosts.name {
		q.first = n.link.Now() // we have answered
	}
	list, err := n.inquire(ctx, q)
	if err != nil {
		return ethertype.Addr{}, err
	}
	if name == n.hosts.name {
		list = append(list, Station{Addr: n.addr})
		sortStations(list)
	}
	for _, s := range list {
		if known[s.Addr.MAC] {
			continue
		}
		if index == 0 {
			return s.Addr, nil
		}
		index--
	}
	return ethertype.Addr{}, opError(op, ErrNameService, "the ethers file and the segment of %s know no (further) host %q: is a Bobnet program running there?", n.info.Interface, name)
}

// HostByAddr returns the name of the host with the given address
// (VipNSGetHostByAddr). It is looked for in the ethers file by MAC address; the
// port does not matter there. Otherwise the NIC with that address is asked, any
// NIC of the interface if the port is 0, until it answers, ctx ends or, without a
// deadline, a second has passed. The error is ErrNameService when nobody knows.
func (n *NIC) HostByAddr(ctx context.Context, addr ethertype.Addr) (string, error) {
	const op = "look up host address"
	if addr.MAC.IsGroup() || addr.MAC == (ethertype.MAC{}) {
		return "", opError(op, ErrInvalidParameter, "%v is not the address of one host", addr)
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := n.namesUp(op); err != nil {
		return "", err
	}
	for _, e := range n.hosts.ethers {
		if e.mac == addr.MAC {
			return e.name, nil
		}
	}
	if addr.MAC == n.info.MAC {
		return n.hosts.name, nil
	}
	list, err := n.inquire(ctx, inquiry{to: addr, listen: DiscoverTime, settle: 1})
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if s.Addr.MAC == addr.MAC && s.HostName != "" {
			return s.HostName, nil
		}
	}
	return "", opError(op, ErrNameService, "the ethers file has no line for %v, and it does not answer on %s: is a Bobnet program running there?", addr.MAC, n.info.Interface)
}
