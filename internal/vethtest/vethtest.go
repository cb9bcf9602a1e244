// Package vethtest creates network namespaces joined by veth pairs within the test process, for
// tests of real links.
package vethtest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Name is the name of the interface in both namespaces.
const Name = "bob0"

// MACs of the interfaces.
var MACs = [2]ethertype.MAC{{2, 0, 0, 0, 0, 0xa}, {2, 0, 0, 0, 0, 0xb}}

// Pair is two fresh network namespaces, each with one end of a veth:
//
//	[ namespace 0: bob0 02:..:0a ] ---- [ namespace 1: bob0 02:..:0b ]
type Pair struct {
	ns [2]netns.NsHandle
	nl [2]*netlink.Handle
	// The bridge's namespace, in a bridged pair.
	hub     netns.NsHandle
	hubLink *netlink.Handle
}

// New creates a pair with the given MTU and removes it when the test ends. It skips the test only
// if the process may not create namespaces.
func New(t testing.TB, mtu int) *Pair {
	t.Helper()
	return NewWithQueues(t, mtu, 1)
}

// NewWithQueues creates a pair whose interfaces have the given number of queues in each direction.
func NewWithQueues(t testing.TB, mtu, queues int) *Pair {
	t.Helper()
	p := new(Pair)
	p.namespaces(t)
	if err := p.join(mtu, queues); err != nil {
		t.Fatalf("vethtest: %v", err)
	}
	return p
}

// namespaces makes a namespace for each side.
func (p *Pair) namespaces(t testing.TB) {
	t.Helper()
	for i := range p.ns {
		namespace(t, &p.ns[i], &p.nl[i])
	}
}

// namespace makes a namespace and a handle to its interfaces, which are closed when
// the test ends.
func namespace(t testing.TB, ns *netns.NsHandle, nl **netlink.Handle) {
	t.Helper()
	err := makeNamespace(ns, nl)
	if errors.Is(err, unix.EPERM) {
		need.Skip(t, "CAP_SYS_ADMIN and CAP_NET_ADMIN to make network namespaces; run as root or under: unshare --map-root-user --net")
	} else if err != nil {
		t.Fatalf("vethtest: namespace: %v", err)
	}
	t.Cleanup(func() {
		(*nl).Close()
		ns.Close()
	})
}

// makeNamespace creates a namespace. The thread that enters it is never used again, because threads
// started from it would be in the namespace, too.
func makeNamespace(ns *netns.NsHandle, nl **netlink.Handle) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		if *ns, err = netns.New(); err == nil {
			*nl, err = netlink.NewHandleAt(*ns)
		}
		done <- err
	}()
	return <-done
}

// join makes the veth, switches both ends on and waits for the carrier.
func (p *Pair) join(mtu, queues int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = Name, mtu, MACs[0].HardwareAddr()
	attrs.NumTxQueues, attrs.NumRxQueues = queues, queues
	veth := &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         Name,
		PeerHardwareAddr: MACs[1].HardwareAddr(),
		PeerMTU:          uint32(mtu),
		PeerNumTxQueues:  uint32(queues),
		PeerNumRxQueues:  uint32(queues),
		PeerNamespace:    netlink.NsFd(p.ns[1]),
	}
	if err := p.nl[0].LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth with MTU %d: %w", mtu, err)
	}
	for side := range p.nl {
		if err := p.SetUp(side, true); err != nil {
			return err
		}
	}
	for side := range p.nl {
		if err := Carrier(p.nl[side], Name); err != nil {
			return err
		}
	}
	return nil
}

// SetUp switches the interface of a side on or off.
func (p *Pair) SetUp(side int, up bool) error {
	link, err := p.nl[side].LinkByName(Name)
	if err != nil {
		return err
	}
	if up {
		return p.nl[side].LinkSetUp(link)
	}
	return p.nl[side].LinkSetDown(link)
}

// SetMTU changes the MTU of a side.
func (p *Pair) SetMTU(side, mtu int) error {
	link, err := p.nl[side].LinkByName(Name)
	if err != nil {
		return err
	}
	return p.nl[side].LinkSetMTU(link, mtu)
}

// SetMAC changes the hardware address of a side.
func (p *Pair) SetMAC(side int, mac ethertype.MAC) error {
	link, err := p.nl[side].LinkByName(Name)
	if err != nil {
		return err
	}
	return p.nl[side].LinkSetHardwareAddr(link, mac.HardwareAddr())
}

// Delete removes the veth.
func (p *Pair) Delete() error {
	link, err := p.nl[0].LinkByName(Name)
	if err != nil {
		return err
	}
	return p.nl[0].LinkDel(link)
}

// MoveAway moves the interface of a side to another network namespace and, if back is set, back
// again. The interface then has its old index, unless another interface has got that meanwhile.
func (p *Pair) MoveAway(t testing.TB, side int, back bool) {
	t.Helper()
	var ns netns.NsHandle
	var nl *netlink.Handle
	namespace(t, &ns, &nl)
	link, err := p.nl[side].LinkByName(Name)
	if err == nil {
		err = p.nl[side].LinkSetNsFd(link, int(ns))
	}
	if err == nil && back {
		if link, err = nl.LinkByName(Name); err == nil {
			err = nl.LinkSetNsFd(link, int(p.ns[side]))
		}
		if err == nil {
			err = p.SetUp(side, true)
		}
	}
	if err != nil {
		t.Fatalf("vethtest: move %s of side %d away: %v", Name, side, err)
	}
}

// Join replaces a veth that Delete has removed by a new one with the same names and MACs.
func (p *Pair) Join(mtu int) error { return p.join(mtu, 1) }

// Carrier waits until the kernel has noticed that both ends of a veth pair are up, which it does in
// the background. Before, the pair carries nothing.
func Carrier(h *netlink.Handle, name string) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return fmt.Errorf("%s has no carrier after 10 s", name)
}

// In runs f on a thread in the namespace of side, so that sockets that f opens
// belong there, and returns when f has. f must not end the test (Fatal).
func (p *Pair) In(side int, f func() error) error { return inNamespace(p.ns[side], f) }

// inNamespace runs f on a thread in a namespace.
func inNamespace(ns netns.NsHandle, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- fmt.Errorf("enter namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
