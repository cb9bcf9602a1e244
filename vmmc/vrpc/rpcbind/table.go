package rpcbind

import (
	"slices"
	"strings"
	"sync"
)

// Bounds of what may be registered: a user other than root may have the share-th part, so that
// none can keep the others out, and all of it fits into the reply to DUMP.
const (
	maxEntries = 4096
	maxOctets  = 2 << 20 // of entries in that reply
	share      = 8
)

// table is what is registered.
type table struct {
	mu      sync.Mutex
	entries []Entry // in the order of registration
}

// set registers an entry and reports whether it is registered now.
func (t *table) set(n Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.index(n.Program, n.Version, n.Netid); old >= 0 {
		return t.entries[old].Addr == n.Addr
	}
	if !t.room(&n) {
		return false
	}
	t.entries = append(t.entries, n)
	return true
}

// room reports whether an entry may be added.
func (t *table) room(n *Entry) bool {
	own, octets, ownOctets := 1, n.octets(), n.octets()
	for i := range t.entries {
		size := t.entries[i].octets()
		octets += size
		if t.entries[i].Owner == n.Owner {
			own++
			ownOctets += size
		}
	}
	if len(t.entries) == maxEntries || octets > maxOctets {
		return false
	}
	return n.Owner == superuser || own <= maxEntries/share && ownOctets <= maxOctets/share
}

// octets returns how many an entry takes in a list.
func (n *Entry) octets() int {
	size := 4 + minEntry
	for _, text := range []string{n.Netid, n.Addr, n.Owner} {
		size += (len(text) + 3) &^ 3
	}
	return size
}

// unset removes what owner may remove, of all netids if netid is empty, and reports whether
// that was anything.
func (t *table) unset(prog, vers uint32, netid, owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.entries)
	t.entries = slices.DeleteFunc(t.entries, func(n Entry) bool {
		return n.Program == prog && n.Version == vers && (netid == "" || n.Netid == netid) &&
			(n.Owner == owner || owner == superuser)
	})
	return len(t.entries) < before
}

// find returns the address of a program for a netid: of the version, or, if there is none
// and exact is not set, of another one. It is empty if there is none.
func (t *table) find(prog, vers uint32, netid string, exact bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.index(prog, vers, netid); i >= 0 {
		return t.entries[i].Addr
	}
	for i := range t.entries {
		if n := &t.entries[i]; !exact && n.Program == prog && n.Netid == netid {
			return n.Addr
		}
	}
	return ""
}

func (t *table) index(prog, vers uint32, netid string) int {
	return slices.IndexFunc(t.entries, func(n Entry) bool {
		return n.Program == prog && n.Version == vers && n.Netid == netid
	})
}

// dump returns all entries.
func (t *table) dump() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.entries)
}

// endpoint returns what an entry's netid means.
func (n *Entry) endpoint() Endpoint {
	e := Endpoint{Addr: n.Addr, Netid: n.Netid, Semantics: semanticsOrderlyStream, Family: "loopback", Proto: "-"}
	if proto := strings.TrimSuffix(n.Netid, "6"); proto == "tcp" || proto == "udp" {
		e.Proto, e.Family = proto, "inet"+n.Netid[len(proto):]
		if proto == "udp" {
			e.Semantics = semanticsDatagram
		}
	}
	return e
}
