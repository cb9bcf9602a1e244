// Package directory is where a process plugs into its node: who finds other processes, and
// who says whose they are. Client asks the daemon of the node (vmmc/daemon); Segment, which
// works in the process itself, is what there is where no daemon runs.
//
// What a daemon does and where:
//
//   - It matches exports and imports between nodes: Match, after Enter and Export have
//     told it what there is.
//   - It proves users: Match returns a ticket that the importer shows the exporter, which
//     has its own daemon say by Prove whose that is. The daemons talk to each other.
//   - It notices dead processes, and tells the nodes that they had to do with: OnDeath, Met.
//   - It may be restarted: what a process has told it the implementation tells the new one
//     by itself. No import depends on it; no send passes it.
//
// The exporter judges policies and keeps its importers; a directory knows names only.
package directory

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Name names an export: SBL's triple.
type Name struct {
	Node    ethertype.MAC // zero: whichever node has the process
	Process uint32
	ID      uint32
	Word    string // names it instead of all that, if not empty
}

// Found is what a name stands for.
type Found struct {
	Addr   ethertype.Addr  // where the exporter takes requests
	Ticket provider.Ticket // to show it
}

// Directory is what a process asks of its node. It is safe for use by several goroutines.
// Except for Met it is not called with the process's lock held, and it calls OnDeath's f
// and Prove's answer without locks of its own.
type Directory interface {
	// Enter makes the process known under its number.
	Enter(self provider.Identity) error
	// Export and Unexport tell of the process's exports. A word, if there is one, is an
	// additional name of the export.
	Export(id uint32, word string) error
	Unexport(id uint32, word string)
	// Match returns where an export is to be asked for. It blocks until its process is
	// known, or ctx ends; the process itself has those wait whose export it does not have
	// yet.
	Match(ctx context.Context, name Name) (Found, error)
	// Prove has answer called, at once or later and once, with the user whose ticket t is
	// and whether that is proven. from is who has shown it.
	Prove(t provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool))
	// Spent tells that a ticket of Match's will not be shown any more.
	Spent(t provider.Ticket)
	// Met tells that the process has to do with one of another node, which is to hear of
	// its death. It does not block, and may be called with the process's lock held.
	Met(node ethertype.MAC)
	// OnDeath has f called when a process is found dead.
	OnDeath(f func(addr ethertype.Addr, incarnation uint64))
	// Close withdraws what Enter and Export have made known.
	Close()
}

// OnCard returns the directory for processes of a scope on the host of a card (*lanai.Card). Package lanai
// sets it.
var OnCard func(host any, scope string) Directory
