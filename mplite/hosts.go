package mplite

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
)

// findHosts determines which ranks share a host, after all ranks have joined: ranks share a host if
// their NICs have the same MAC address. Each rank has one NIC, so all ranks get the same result.
func (w *world) findHosts() {
	macs := make([]ethertype.MAC, w.size) // zero if unknown
	var order []int32
	for rank := range macs {
		if mac, ok := w.macOf(rank); ok {
			macs[rank] = mac
			order = append(order, int32(rank))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(bytes.Compare(macs[a][:], macs[b][:]), cmp.Compare(a, b))
	})
	w.hosts = identity(w.size)
	shared := false
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; macs[a] == macs[b] {
			if !shared {
				w.hosts, shared = slices.Clone(w.hosts), true
			}
			w.hosts[b] = w.hosts[a]
		}
	}
}

// macOf returns the address of a rank's NIC. It is unknown without a NIC, and for a rank that has died
// since it joined: no collective that involves such a rank can succeed.
func (w *world) macOf(rank int) (mac ethertype.MAC, ok bool) {
	switch {
	case w.nic == nil:
		return mac, false
	case rank == w.rank:
		return w.nic.Addr().MAC, true
	case w.onUse:
		at, _ := w.job.Station(rank)
		return at.MAC, !at.IsZero()
	}
	p := w.peers.At(rank)
	if p.VI == nil {
		return mac, false
	}
	at := p.VI.Remote()
	return at.MAC, !at.IsZero()
}

// SplitShared creates a communicator of the ranks of c on this rank's host, ordered by key and then
// by their rank in c (MPI_Comm_split_type with MPI_COMM_TYPE_SHARED). It is collective. Two ranks are
// on one host if their NICs have the same MAC address: these ranks communicate through shared memory.
// Ranks in different namespaces, or on different interfaces of one machine, are on different hosts.
func (c *Comm) SplitShared(ctx context.Context, key int) (*Comm, error) {
	mine := c.w.hosts[c.group[c.rank]]
	// Of c, because ranks may know different hosts of a rank that has died.
	first := slices.IndexFunc(c.group, func(g int32) bool { return c.w.hosts[g] == mine })
	return c.within(callSplitShared).Split(ctx, first, key)
}
