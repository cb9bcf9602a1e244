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

// NameConfig says how the name service knows hosts. Nil, and every zero field,
// mean the default.
type NameConfig struct {
	// HostName is what this NIC answers to; empty means the system's own. It is
	// cut at 64 bytes.
	HostName string
	// Ethers is the path of a file in the format of ethers(5); empty means
	// /etc/ethers. A missing file is an empty one.
	Ethers string
}

// StartNames starts the name service, or starts it again with another
// configuration and the ethers file as it is now (VipNSInit). Open has done so
// with Config.Names. The error says what is wrong with the file; the service
// runs all the same, with the lines that can be understood.
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

// StopNames stops the name service (VipNSShutdown): the names that this NIC
// advertises are withdrawn, questions for names are not answered, and Advertise,
// Lookup, HostByName and HostByAddr return ErrNameService until StartNames.
// Discover goes on, both ways.
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

// Withdraw undoes Advertise; an unknown name does nothing.
func (n *NIC) Withdraw(name string) {
	n.eng.Lock()
	defer n.eng.Unlock()
	n.m.Dir.Withdraw(name)
}

// Lookup broadcasts a query for a name (VipNSGetHostByName) and returns the first answer. It
// repeats the query until ctx ends or, without a deadline, for DefaultConnectTimeout. Then
// the error is ErrNameService, and also context.Canceled if ctx was cancelled. If the
// link has failed, it returns ErrLink at once.
func (n *NIC) Lookup(ctx context.Context, name string) (ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Lookup(ctx, ethertype.Addr{}, name, DefaultConnectTimeout)
}

// LookupAt is Lookup for a name that only the NIC with the address at, any of its ports, may have: it asks
// that one, and nobody else hears of it. The zero address stands for the whole segment.
func (n *NIC) LookupAt(ctx context.Context, at ethertype.Addr, name string) (ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.Lookup(ctx, at, name, DefaultConnectTimeout)
}

// LookupAll asks the segment for a name, as Lookup does, and returns the addresses
// of all other NICs that answer to it, in order, 16 at the most: names are
// to be unique there, and this finds out whether one is. It asks several times,
// because frames are lost, until ctx ends or for 50 ms without a deadline.
// No answer is no error. What this NIC advertises itself is not among the answers.
//
// The error is ErrTimeout and the context's when ctx was cancelled; what was found
// until then is returned with it.
func (n *NIC) LookupAll(ctx context.Context, name string) ([]ethertype.Addr, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.LookupAll(ctx, name)
}

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
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.HostByName(ctx, name, index)
}

// HostByAddr returns the name of the host with the given address
// (VipNSGetHostByAddr). It is looked for in the ethers file by MAC address; the
// port does not matter there. Otherwise the NIC with that address is asked, any
// NIC of the interface if the port is 0, until it answers, ctx ends or, without a
// deadline, a second has passed. The error is ErrNameService when nobody knows.
func (n *NIC) HostByAddr(ctx context.Context, addr ethertype.Addr) (string, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	return n.m.Dir.HostByAddr(ctx, addr)
}

// Station is a NIC on the segment as it describes itself.
type Station struct {
	Addr        ethertype.Addr      // NIC.Addr
	Ports       transport.PortRange // of its VIs and listeners
	HostName    string
	Driver      string // of its link
	MTU         int    // of its interface
	Incarnation uint64 // random, new with every Open
}

// Discover finds the NICs on the segment (VipQuerySystemManagementInfo with
// VIP_SMI_AUTODISCOVERY): it asks all several times, because frames are lost,
// until ctx ends or for one second without a deadline, and returns who has
// answered, in the order of their addresses. This NIC is not among them. At most
// 4096 are returned; answers beyond are counted as dropped, reason "unknown".
//
// The error is ErrTimeout and the context's when ctx was cancelled; the stations
// found until then are returned with it. If nobody could answer because the NIC's
// interface is down or gone, the error also wraps transport.ErrLinkDown or transport.ErrGone.
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

// Echo sends one frame with size bytes of payload, at least 8, to a NIC and
// waits for it to come back: is it there, and how far away? The port of to
// may be 0 for any NIC of that interface. It returns the round-trip time. The
// frame is sent once; ctx or else a second bounds the wait.
func (n *NIC) Echo(ctx context.Context, to ethertype.Addr, size int) (time.Duration, error) {
	n.eng.Lock()
	defer n.eng.Unlock()
	took, err := n.m.Dir.Echo(ctx, to, size)
	if hint := n.hint(to.MAC); errors.Is(err, ErrTimeout) && hint != "" {
		err = fmt.Errorf("%w%s", err, hint)
	}
	return took, err
}
