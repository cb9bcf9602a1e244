// Package directory connects a process with its node's directory, which finds other
// processes and authenticates their users. Client asks the daemon of the node
// (vmmc/daemon). Segment works in the process itself, without a daemon.
//
// A daemon has these tasks:
//
//   - It matches exports and imports between nodes: Match, after Enter and Export have
//     registered the process and its exports.
//   - It proves users: Match returns a ticket that the importer shows to the exporter.
//     The exporter asks its own daemon for the ticket's user (Prove). The daemons
//     communicate with each other.
//   - It detects dead processes, and notifies the nodes that they communicated with:
//     OnDeath, Met.
//   - It may be restarted: the implementation repeats the registrations of a process at
//     the new daemon. No import depends on the daemon, and no send passes through it.
//
// The exporter applies policies and keeps the list of its importers. A directory knows
// only names.
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

// Found is the result of a search for a name.
type Found struct {
	Addr   ethertype.Addr  // where the exporter takes requests
	Ticket provider.Ticket // to show it
}

// Directory is the interface of a process to its node. It is safe for use by several
// goroutines. Except for Met, callers must not hold the process's lock. The directory
// calls the f of OnDeath and the answer of Prove without holding its own locks.
type Directory interface {
	// Enter registers the process under its number.
	Enter(self provider.Identity) error
	// Export and Unexport register and remove an export of the process. A word, if there
	// is one, is an additional name of the export.
	Export(id uint32, word string) error
	Unexport(id uint32, word string)
	// Match returns the process to ask for an export. It blocks until that process is
	// known, or ctx ends. That process lets importers wait for an export that does not
	// exist yet.
	Match(ctx context.Context, name Name) (Found, error)
	// Prove calls answer once, at once or later, with the user of ticket t, and whether
	// the user is proven. from is the process that has shown the ticket.
	Prove(t provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool))
	// Spent reports that a ticket from Match will no longer be shown.
	Spent(t provider.Ticket)
	// Met reports that the process communicates with a process of another node. That node
	// must be notified when this process dies. Met does not block, and may be called with
	// the process's lock held.
	Met(node ethertype.MAC)
	// OnDeath registers f to be called when a process is found dead.
	OnDeath(f func(addr ethertype.Addr, incarnation uint64))
	// Close withdraws the registrations of Enter and Export.
	Close()
}

// OnCard returns the directory for processes of a scope on the host of a card (*lanai.Card). Package lanai
// sets it.
var OnCard func(host any, scope string) Directory
