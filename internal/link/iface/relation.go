package iface

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// relation describes which other interfaces an interface is on, or is a port of.
type relation struct {
	name   string
	kind   string // of the interface: "macvlan", "bridge"; "" for a card
	port   string // kind of the interface that it is a port of: "bridge", "bond"
	master int    // index of that interface, 0 if none
	parent int    // index of the interface that it is on, 0 if none
	abroad bool   // the parent is in another namespace
}

// relations returns the relation of every interface, by index. It returns nil if the kernel does
// not answer.
func relations() map[int]relation {
	all := map[int]relation{}
	rib, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return all
	}
	msgs, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return all
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		if attrs, err := syscall.ParseNetlinkRouteAttr(m); err == nil {
			all[int(binary.NativeEndian.Uint32(m.Data[4:]))] = readRelation(attrs)
		}
	}
	return all
}

func readRelation(attrs []syscall.NetlinkRouteAttr) (r relation) {
	number := func(value []byte) int {
		if len(value) < 4 {
			return 0
		}
		return int(binary.NativeEndian.Uint32(value))
	}
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case unix.IFLA_IFNAME:
			r.name = unix.ByteSliceToString(a.Value)
		case unix.IFLA_MASTER:
			r.master = number(a.Value)
		case unix.IFLA_LINK:
			r.parent = number(a.Value)
		case unix.IFLA_LINK_NETNSID:
			r.abroad = true
		case unix.IFLA_LINKINFO:
			r.kind, r.port = readKinds(a.Value)
		}
	}
	return r
}

// readKinds parses the attributes within IFLA_LINKINFO.
func readKinds(b []byte) (kind, port string) {
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			break
		}
		switch value := b[unix.SizeofNlAttr:n]; binary.NativeEndian.Uint16(b[2:]) {
		case unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(value)
		case unix.IFLA_INFO_SLAVE_KIND:
			port = unix.ByteSliceToString(value)
		}
		b = b[min((n+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
	return kind, port
}

// bridge returns the name of the bridge that r is a port of, or "". Other masters, such as bonds,
// do not take the frames from sockets on their ports.
func (r relation) bridge(all map[int]relation) string {
	if r.port != "bridge" && r.port != "openvswitch" {
		return ""
	}
	return all[r.master].name
}

// macvlan describes which stations cannot be reached because interface index, or another one on it,
// is a macvlan; otherwise "".
func macvlan(index int, all map[int]relation) string {
	const apart = "the kernel passes no frames between a macvlan and the interface that it is on: have all stations of this host on macvlans of it"
	r := all[index]
	if r.kind == "macvlan" {
		on := "an interface of another namespace"
		if parent, ok := all[r.parent]; ok && !r.abroad {
			on = parent.name
		}
		return fmt.Sprintf("%s is a macvlan on %s, and stations at the latter are not reached: %s", r.name, on, apart)
	}
	for _, other := range all {
		if other.kind == "macvlan" && other.parent == index && !other.abroad {
			return fmt.Sprintf("%s is a macvlan on %s, and stations at the former are not reached: %s", other.name, r.name, apart)
		}
	}
	return ""
}

// Obstacle describes why a network interface of this namespace, by name, does not pass frames to
// all or some stations, with the remedy: it is down or has no carrier, is a port of a bridge, or is
// a macvlan or has one on it. The result is part of a sentence, or "" if no obstacle is known.
func Obstacle(name string) string {
	list, err := List()
	if err != nil {
		return ""
	}
	for _, i := range list {
		if i.Name == name {
			return i.obstacle()
		}
	}
	return ""
}

func (i Interface) obstacle() string {
	switch {
	case i.State == Down:
		return fmt.Sprintf("%s is down; switch it on: ip link set %s up", i.Name, i.Name)
	case i.Bridge != "":
		return fmt.Sprintf("%s is a port of the bridge %s, which takes the frames that come: use %s instead", i.Name, i.Bridge, i.Bridge)
	case i.State == NoCarrier:
		return fmt.Sprintf("%s has no carrier: check the cable, the switch's port or, of a veth, that the other end is up", i.Name)
	}
	return i.Macvlan
}
