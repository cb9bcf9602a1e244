package vipl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/directory"
)

// MaxName is the length of the longest name that the name service carries, in bytes.
const MaxName = directory.MaxName

// NameConfig configures the name service. Nil and zero fields mean the defaults.
type NameConfig struct {
	// HostName is the name of this host; empty means the system's. It is truncated to 64 bytes.
	HostName string
	// Ethers is the path of a file in the format of ethers(5); empty means /etc/ethers. A missing
	// file counts as an empty one.
	Ethers string
}

// StartNames starts the name service, or restarts it with another configuration and the current
// contents of the ethers file (VipNSInit). Open does so with Config.Names. An error describes what
// is wrong with the file; the service still runs, with the valid lines.
func (n *NIC) StartNames(cfg *NameConfig) error {
	if cfg == nil {
		cfg = &NameConfig{}
	}
	hosts, err := directory.ReadHosts(cfg.HostName, cfg.Ethers)
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.m.Closed {
		return ErrClosed
	}
	n.m.Dir.StartHosts(hosts)
	return err
}

// StopNames stops the name service (VipNSShutdown). It withdraws the names that this NIC
// advertises, and the NIC no longer answers queries for names. Advertise, Lookup, HostByName and
// HostByAddr return ErrNameService until StartNames. Discover still works, in both directions.
func (n *NIC) StopNames() {
	n.eng.Lock()
	defer n.eng.Unlock()
	n.m.Dir.Stop()
}

// Advertise publishes addr, an address of this NIC, under a name that other programs on the
// segment can look up, until Withdraw or Close. The name must be new on this NIC. The caller
// must choose a name that is unique on the segment.
func (n *NIC) Advertise(name string, addr ethertype.Addr) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Advertise(name, addr)
}

// Withdraw undoes Advertise. It ignores unknown names.
func (n *NIC) Withdraw(name string) {
	n.eng.Lock()
	defer n.eng.Unlock()
	n.m.Dir.Withdraw(name)
}

// Lookup broadcasts a query for a name (VipNSGetHostByName) and returns the first answer. It
// repeats the query until ctx ends or, without a deadline, for DefaultConnectTimeout. If no
// answer arrives in this time, the error is ErrNameService, and also context.Canceled if ctx
// was cancelled. If the link has failed, Lookup returns ErrLink at once.
func (n *NIC) Lookup(ctx context.Context, name string) (ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Lookup(ctx, ethertype.Addr{}, name, DefaultConnectTimeout)
}

// LookupAt is like Lookup, but asks only the NIC with the address at, which may have any port. No other
// NIC receives the query. The zero address stands for the whole segment.
func (n *NIC) LookupAt(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Lookup(ctx, at, name, DefaultConnectTimeout)
}

// LookupAll broadcasts a query for a name, as Lookup does, and returns the addresses of all other
// NICs that answer, sorted, at most 16. Names should be unique on a segment, and LookupAll can
// check that. It repeats the query, because frames may be lost, until ctx ends or for 50 ms without
// a deadline. No answer is not an error. The result does not include names that this NIC
// advertises.
//
// If ctx is cancelled, the error is both ErrTimeout and the context's error, and the answers so far
// are returned with it.
func (n *NIC) LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.LookupAll(ctx, name)
}

// HostByName returns the address of the host called name (VipNSGetHostByName). If several hosts
// have that name, index selects one, from 0. Hosts in the ethers file come first, in the order of
// the file. Hosts that answer on the segment follow, in the order of their addresses. An address
// from the file has port 0, because the file has only MAC addresses; Echo accepts port 0 for any
// NIC of that interface. An address from the segment is that of the NIC itself, as ConnectPeer
// requires. A VI or a listener of that NIC has the same MAC address and its own port.
//
// A name in the file is found at once. For other names HostByName sends queries until it has an
// answer, ctx ends or, without a deadline, a second has passed. The error is ErrNameService if
// there is no such host or index.
func (n *NIC) HostByName(ctx context.Context, name string, index int) (ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.HostByName(ctx, name, index)
}

// HostByAddr returns the name of the host with the given address (VipNSGetHostByAddr). It first
// searches the ethers file for the MAC address and ignores the port. Otherwise it queries the NIC
// with that address, or any NIC of the interface if the port is 0, until it has an answer, ctx ends
// or, without a deadline, a second has passed. The error is ErrNameService if the name is unknown.
func (n *NIC) HostByAddr(ctx context.Context, addr ethertype.Addr) (string, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.HostByAddr(ctx, addr)
}

// Station describes a NIC on the segment, as reported by the NIC itself.
type Station struct {
	Addr        ethertype.Addr      // NIC.Addr
	Ports       transport.PortRange // of its VIs and listeners
	HostName    string
	Driver      string // of its link
	MTU         int    // of its interface
	Incarnation uint64 // random, new with every Open
}

// Discover finds the NICs on the segment (VipQuerySystemManagementInfo with VIP_SMI_AUTODISCOVERY).
// It broadcasts several queries, because frames may be lost, until ctx ends or for one second
// without a deadline. It returns the NICs that have answered, in the order of their addresses,
// without this NIC. At most 4096 are returned; further answers are counted as dropped with the
// reason "unknown".
//
// If ctx is cancelled, the error is both ErrTimeout and the context's error, and the stations found
// so far are returned with it. If no NIC could answer because this NIC's interface is down or gone,
// the error also wraps transport.ErrLinkDown or transport.ErrGone.
func (n *NIC) Discover(ctx context.Context) ([]Station, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	found, err := n.m.Dir.Discover(ctx)
	if found == nil {
		return nil, err
	}
	list := make([]Station, len(found))
	for i, s := range found {
		list[i] = Station(s)
	}
	return list, err
}

// Echo sends one frame with size bytes of payload, at least 8, to a NIC and returns the round-trip
// time of the echo. If the port of to is 0, any NIC of that interface may answer. Echo sends the
// frame once. It waits until ctx ends, or for one second without a deadline.
func (n *NIC) Echo(ctx context.Context, to ethertype.Addr, size int) (time.Duration, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	took, err := n.m.Dir.Echo(ctx, to, size)
	if hint := n.hint(to.MAC); errors.Is(err, ErrTimeout) && hint != "" {
		err = fmt.Errorf("%w%s", err, hint)
	}
	return took, err
}
