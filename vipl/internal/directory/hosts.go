package directory

import (
	"context"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// The name service has two halves. Programs give names to services: Advertise, Withdraw and Lookup,
// in names.go. Administrators give names to hosts: HostByName and HostByAddr search the ethers file
// and then query the segment, where every NIC answers for its host.

// hostTable is the NIC's table of hosts.
type hostTable struct {
	Hosts
	shut bool
}

// Hosts is the configuration of Start: the host name that the NIC answers to, and the lines of the
// ethers file.
type Hosts struct {
	name   string
	ethers []ether
}

// ReadHosts reads the ethers file at path, or DefaultEthers if path is empty. An empty name means
// the system's host name. An error describes what is wrong with the file; the other lines are still
// valid. It takes no lock.
func ReadHosts(name, path string) (Hosts, error) {
	if name == "" {
		name, _ = os.Hostname() // without a name, the host cannot be found by name
	}
	list, err := readEthers(path)
	return Hosts{name: name[:min(len(name), MaxHostName)], ethers: list}, err
}

// StartHosts starts or restarts the name service.
func (d *Directory) StartHosts(h Hosts) { d.hosts = hostTable{Hosts: h} }

// Stop stops the name service: it withdraws the NIC's advertised names, and stops answering queries
// for names. Lookups return ErrNameService until StartHosts.
func (d *Directory) Stop() {
	d.hosts.shut = true
	clear(d.names.own)
	for _, l := range d.names.pending {
		l.gate.Open(d.eng)
	}
}

// hostAfterFirst is how long HostByName waits for more answers after the first one, so that the
// order of several is always the same.
const hostAfterFirst = 100 * time.Millisecond

// HostByName returns the address of the host called name. If several hosts have that name, index
// selects one, from 0: first those in the ethers file, then those that answer on the segment, in
// the order of their addresses.
func (d *Directory) HostByName(ctx context.Context, name string, index int) (ethertype.Addr, error) {
	const op = "look up host name"
	if name == "" || len(name) > MaxHostName || index < 0 {
		return ethertype.Addr{}, code.Error(op, code.ErrArgument, "want a name of 1..%d bytes and an index from 0 on, got %d bytes and %d", MaxHostName, len(name), index)
	}
	if err := d.up(op); err != nil {
		return ethertype.Addr{}, err
	}
	known := map[ethertype.MAC]bool{}
	for _, e := range d.hosts.ethers {
		if e.name != name {
			continue
		}
		if index == 0 {
			return ethertype.Addr{MAC: e.mac}, nil
		}
		index--
		known[e.mac] = true
	}
	q := inquiry{to: ethertype.Addr{MAC: ethertype.Broadcast}, host: name, listen: DiscoverTime, afterFirst: hostAfterFirst}
	if name == d.hosts.name {
		q.first = d.nic.Now() // this host has answered
	}
	list, err := d.inquire(ctx, q)
	if err != nil {
		return ethertype.Addr{}, err
	}
	if name == d.hosts.name {
		list = append(list, Station{Addr: d.self.Addr})
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
	return ethertype.Addr{}, d.silence(op, code.ErrNameService, "the ethers file and the segment of %s know no (further) host %q: is a Bobnet program running there?", d.self.Interface, name)
}

// HostByAddr returns the name of the host with the given address. The ethers file takes precedence.
// Otherwise it queries the NIC with that address, or any NIC of the interface if the port is 0.
func (d *Directory) HostByAddr(ctx context.Context, addr ethertype.Addr) (string, error) {
	const op = "look up host address"
	if addr.MAC.IsGroup() || addr.MAC == (ethertype.MAC{}) {
		return "", code.Error(op, code.ErrArgument, "%v is not the address of one host", addr)
	}
	if err := d.up(op); err != nil {
		return "", err
	}
	for _, e := range d.hosts.ethers {
		if e.mac == addr.MAC {
			return e.name, nil
		}
	}
	if addr.MAC == d.self.Addr.MAC {
		return d.hosts.name, nil
	}
	list, err := d.inquire(ctx, inquiry{to: addr, listen: DiscoverTime, afterFirst: 1})
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if s.Addr.MAC == addr.MAC && s.HostName != "" {
			return s.HostName, nil
		}
	}
	return "", d.silence(op, code.ErrNameService, "the ethers file has no line for %v, and it does not answer on %s: is a Bobnet program running there?", addr.MAC, d.self.Interface)
}
