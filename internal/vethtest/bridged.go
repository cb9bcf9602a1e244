package vethtest

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

// ports are the interfaces of the bridge that joins the sides of a bridged Pair.
var ports = [2]string{"port0", "port1"}

// NewBridged creates a pair in which a veth connects each side to a bridge. The interfaces of the
// sides have the given MTU, those of the bridge the MTU between:
//
//	[ bob0 02:..:0a ] ---- [ port0  bridge  port1 ] ---- [ bob0 02:..:0b ]
func NewBridged(t testing.TB, mtu, between int) *Pair {
	t.Helper()
	p := new(Pair)
	p.namespaces(t)
	namespace(t, &p.hub, &p.hubLink)
	if err := p.bridge(mtu, between); err != nil {
		t.Fatalf("vethtest: %v", err)
	}
	return p
}

// SetBetween changes the MTU of the bridge's interface to a side.
func (p *Pair) SetBetween(side, mtu int) error {
	link, err := p.hubLink.LinkByName(ports[side])
	if err != nil {
		return err
	}
	return p.hubLink.LinkSetMTU(link, mtu)
}

// Isolate makes the bridge drop all frames between the sides.
func (p *Pair) Isolate() error {
	for _, name := range ports {
		link, err := p.hubLink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := p.hubLink.LinkSetIsolated(link, true); err != nil {
			return err
		}
	}
	return nil
}

// bridge makes the bridge and both veth pairs.
func (p *Pair) bridge(mtu, between int) error {
	attrs, snooping := netlink.NewLinkAttrs(), false
	attrs.Name = "hub"
	hub := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := p.hubLink.LinkAdd(hub); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	for side := range ports {
		if err := p.addPort(side, hub, mtu, between); err != nil {
			return err
		}
	}
	if err := p.hubLink.LinkSetUp(hub); err != nil {
		return err
	}
	for side, port := range ports {
		if err := Carrier(p.nl[side], Name); err != nil {
			return err
		}
		if err := Carrier(p.hubLink, port); err != nil { // until then the bridge drops arriving frames
			return err
		}
	}
	return nil
}

// addPort joins a side to the bridge.
func (p *Pair) addPort(side int, hub netlink.Link, mtu, between int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = ports[side], between
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: Name, PeerHardwareAddr: MACs[side].HardwareAddr(),
		PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(p.ns[side])}
	if err := p.hubLink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add %s: %w", ports[side], err)
	}
	port, err := p.hubLink.LinkByName(ports[side])
	if err != nil {
		return err
	}
	if err := p.hubLink.LinkSetMaster(port, hub); err != nil {
		return err
	}
	if err := p.hubLink.LinkSetUp(port); err != nil {
		return err
	}
	return p.SetUp(side, true)
}

// InBridge runs f on a thread in the namespace of the bridge, as In does.
func (p *Pair) InBridge(f func() error) error { return inNamespace(p.hub, f) }

// Ports returns the names of the bridge's interfaces.
func Ports() [2]string { return ports }
