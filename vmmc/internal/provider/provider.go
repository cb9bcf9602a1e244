// Package provider is the seam between vmmc and what moves its data: virtual interfaces
// (package via), or the control program of a card.
//
// Above the seam lie the proxy space, the order of a message's parts, the queue of
// notifications, policies, and what a program sees. Below lie connections, registered
// memory, credits and the wire. A provider promises what follows, and package providertest
// asks it to keep that:
//
//   - Protection. A Write lands in the memory of the Grant that its Region stands for and
//     nowhere else, whatever the other process does. After Up.Released nothing of that
//     peer lands there.
//   - Order. The writes to one peer, in whatever Regions, become visible in the order of
//     Post; of one Write, the last aligned word last and the others in any order. Aligned words of
//     4 and 8 bytes are never torn.
//   - A notification is told once, after the data of its Write and of all before it are in
//     memory. Beyond what the receiver has room for it waits at the sender: the receiver
//     gives room back by Handled.
//   - Every operation ends, if need be with ErrPeer.
//
// # Locks
//
// A Provider is called with the lock of its process held, and calls Up with it held, from
// within its calls as well as from Turn; Wait and Ring are called without it. What the
// provider does by itself (a card's interrupt, a completion while the program computes) it
// announces by calling the Kick that it was opened with, from any goroutine and without any
// lock of its own: the process then calls Turn under its lock, at once or when the lock is
// given up. Turn never blocks.
package provider

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// What operations end with. Errors wrap these.
var (
	ErrPeer     = errors.New("the other process has ended or does not answer")
	ErrRefused  = errors.New("the connection was refused permanently") // beside ErrPeer
	ErrRevoked  = errors.New("the buffer is no longer exported")
	ErrReleased = errors.New("the import has been given up")
	ErrFull     = errors.New("too many sends in progress")
	ErrClosed   = errors.New("closed")
	ErrNoRoom   = errors.New("lanai: a page table is full") // of proxy pages, or of pages that may be written
	ErrMemory   = errors.New("lanai: the card does not reach the memory")
)

// Identity is a process as others know it.
type Identity struct {
	Addr        ethertype.Addr // where it takes requests: its node is Addr.MAC
	Process     uint32         // its number, as it says itself
	Incarnation uint64         // new with every start
}

// TicketSize is the size of a Ticket.
const TicketSize = 16

// Ticket is what a process shows an exporter, for the daemon of the exporter's node to
// say who it is of. The zero Ticket proves nothing.
type Ticket [TicketSize]byte

// MaxWord is the longest word, in bytes, that an export may be named by.
const MaxWord = 128

// Reason is why a process refuses to grant an import.
type Reason uint8

// The reasons.
const (
	ReasonPolicy   Reason = 1 + iota // the export's policy does not allow it
	ReasonRevoked                    // it was unexported before the answer
	ReasonResource                   // no room for another
	ReasonUnproven                   // the policy allows users, and who the asker's is was not proven
	ReasonUnknown                    // of a word that was withdrawn, or a request that makes no sense
)

// Ask is a request for an import. The process that asks fills the first group; the
// provider tells by Up.Answered that it has filled the second.
type Ask struct {
	ID     uint32 // of the export
	Word   string // names it instead, if not empty
	Ticket Ticket
	Import any // the process's own

	Region *Region
	Why    Reason // the refusal, if it was one
	Err    error

	Link any // the provider's own
	Seq  uint32
}

// Region is an import as the provider has it: where its writes land.
type Region struct {
	Size  uint64
	Owner Identity
	ID    uint32 // of the export
	Err   error  // why it is of no use any more
	Ask   *Ask   // that it answers
	Busy  int    // writes under way

	Link any // the provider's own
	Slot uint32
	Addr uint64
	Key  uint32
	// What has been written since the owner has last moved it elsewhere: see Redirect.
	Lo, Hi uint64
	Count  uint32
}

// Request is another process's Ask, as the exporter sees it. It is answered by Allow or
// Deny, at any time.
type Request struct {
	From   Identity
	ID     uint32
	Word   string
	Ticket Ticket

	Link any // the provider's own
	Seq  uint32
	Gone bool // withdrawn: no answer is wanted
}

// Grant is an import as the exporter has it.
type Grant struct {
	To     Identity
	Export any // the process's own

	Link   any // the provider's own
	Slot   uint32
	Mem    []byte // where writes go
	Before []byte // where they went before the last Redirect
}

// Write is one write. The provider copies what it needs of it, so it may be on the stack.
type Write struct {
	Region *Region
	Offset uint64   // in the region
	Data   [][]byte // gathered in this order
	Skip   int      // bytes of Data to leave out at the beginning
	Size   int      // bytes to write behind them
	Copy   bool     // the data is copied before Post returns; it has CopyMax bytes at the most
	Later  bool     // the engine's next turn sends it
	Await  bool     // the program waits for its end
	More   bool     // it goes on with a message that has begun, for which there is always room
	Notify bool     // the exporter is notified
	Token  any      // what Up.Done is told, if not nil
}

// Gather copies the bytes to write to the beginning of mem, and returns that part of mem.
func (w *Write) Gather(mem []byte) []byte {
	mem, n, skip := mem[:w.Size], 0, w.Skip
	for _, b := range w.Data {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		n += copy(mem[n:], b[skip:])
		skip = 0
	}
	return mem[:n]
}

// CopyMax is the most bytes of a Write with Copy.
const CopyMax = 256

// Up is the process, as its provider sees it.
type Up interface {
	// Asked: another process asks for an import.
	Asked(r *Request)
	// Withdrawn: r wants no answer any more.
	Withdrawn(r *Request)
	// Answered: a has its Region, or Err.
	Answered(a *Ask)
	// Lost: r.Err is set. The writes under way have ended, or end by themselves.
	Lost(r *Region)
	// Released: nothing of the importer lands in the grant's memory any more.
	Released(g *Grant)
	// Redirected: the importer's writes go to the new memory, as soon as Moved lets them; before,
	// since the last time, count messages went to what is between lo and hi of the old one.
	Redirected(g *Grant, lo, hi uint64, count uint32)
	// Done: the Write with the token is in memory, or failed.
	Done(token any, err error)
	// Notified: a notification for the export of g has come.
	Notified(g *Grant)
}

// Provider moves the data of one process.
type Provider interface {
	// Self returns the process's own identity.
	Self() Identity
	// Now returns the clock, in nanoseconds; Virtual reports whether it is a simulator's.
	Now() int64
	Virtual() bool
	// WithTimeout returns a context that ends by that clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)

	// Ask asks the process at an address for an import.
	Ask(to ethertype.Addr, a *Ask)
	// Forget withdraws an Ask that has not been answered.
	Forget(a *Ask)
	// Release gives an import up. Writes under way are done first, or fail.
	Release(r *Region)
	// Allow lets the asker write to mem.
	Allow(r *Request, mem []byte, export any) (*Grant, error)
	// Deny refuses.
	Deny(r *Request, why Reason)
	// Revoke takes a grant back; Up.Released tells when that is done. At once takes the
	// memory away without asking the importer, whose writes then fail with its connection.
	Revoke(g *Grant, atOnce bool)
	// Redirect has the importer's writes go to mem, which is as long as before;
	// Up.Redirected tells when it knows, and its writes wait for Moved.
	Redirect(g *Grant, mem []byte) error
	// Moved ends a Redirect: what went to the old memory has been copied, of this grant and
	// of all others of the export, and the importer's writes go on.
	Moved(g *Grant)

	// Reaches returns an error that wraps ErrMemory if others could not be let write to mem.
	Reaches(mem []byte) error
	// AllocMem returns memory that Reaches takes, and FreeMem gives it back. The lock may be held, or not.
	AllocMem(n int) ([]byte, error)
	FreeMem(mem []byte)

	// Post posts a write. It fails with the Region's Err, or ErrFull unless Write.More.
	Post(w *Write) error
	// Handled gives back the room of a notification.
	Handled(g *Grant)

	// Turn sees to what has come.
	Turn()
	// Poll drives the engine once, without the lock.
	Poll()
	// Seen returns a number for Wait, with the lock held.
	Seen() uint32
	// Wait blocks until something has changed since the lock was held and Seen returned
	// seen; or for no reason. It drives the engine. It ends with the context's error, and
	// returns nil when d has passed, unless d is 0. It is called without the lock.
	Wait(ctx context.Context, d time.Duration, seen uint32) error
	// Ring has all who wait look again.
	Ring()
	// Failed returns why nothing comes any more, such as that the interface is gone; or nil.
	Failed() error

	// Dead ends what concerns a process that somebody else has found dead.
	Dead(addr ethertype.Addr, incarnation uint64)
	// Peers returns what a person may want to know of each connection.
	Peers() []Peer
	// Counters returns what has been refused and done.
	Counters() Counters
	// Busy reports whether something was posted that is not known to have arrived: writes, and
	// notifications that wait for room. What will not arrive any more does not count.
	Busy() bool
	// Close ends everything, what Busy counts, too: all regions are lost, all grants released.
	Close()
}

// Peer is a connection, for snapshots.
type Peer struct {
	Identity
	State    string
	Asks     int // without an answer
	Regions  int // that it has granted
	Grants   int // granted to it
	UnderWay int `metric:"bobnet_vmmc_writes_under_way" help:"Posted writes that are not confirmed to be in the other process's memory."`
	Waiting  int // writes and messages that wait for room
	Credits  int // notifications that may be sent
	Err      error
}

// Counters count since the start.
type Counters struct {
	Writes      uint64 // writes posted
	Bytes       uint64 `metric:"bobnet_vmmc_written_bytes_total" help:"Bytes of posted writes." text:"bytes"`
	Copied      uint64 `metric:"bobnet_vmmc_copied_writes_total" help:"Posted writes whose data were copied because they are short." text:"copied writes"`
	Notes       uint64 `metric:"bobnet_vmmc_notifications_sent_total" help:"Notifications sent." text:"notifications sent"`
	NotesWaited uint64 `metric:"bobnet_vmmc_notification_stalls_total" help:"Notifications that had to wait for room at the receiver." text:"of them waited for room"`
	Strangers   uint64 `metric:"bobnet_vmmc_refused_total" reason:"stranger" help:"by a peer: an invalid connection request" text:"strangers"`
	Violations  uint64 `metric:"bobnet_vmmc_refused_total" reason:"violation" help:"by a peer: a protocol violation, which ended the connection" text:"violations"`
	Broken      uint64 `metric:"bobnet_vmmc_broken_connections_total" help:"Connections with other processes that ended with an error." text:"broken connections"`
}

// ProcessConfig describes a process that joins the host of a card.
type ProcessConfig struct {
	Process     uint32
	PeerTimeout time.Duration // 0 means the host's
	Connections int           // at most
	Sends       int           // writes that may be under way to one process
	Kick        func()
}

// OnCard adds a process to the host of a card (*lanai.Card). Its error wraps hardware.ErrSRAM if the card
// has no room for the process. It calls up from the first Turn on. Package lanai sets OnCard, so that its
// documentation need not show what only package vmmc calls.
var OnCard func(host any, cfg ProcessConfig, up Up) (Provider, error)
