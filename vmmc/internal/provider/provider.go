// Package provider is the interface between vmmc and the layer that transfers its data:
// virtual interfaces (package via), or the control program of a card.
//
// Above the interface are the proxy space, the order of a message's parts, the queue of
// notifications, policies, and the API for programs. Below are connections, registered
// memory, credits and the wire. A provider guarantees the following, and package
// providertest checks it:
//
//   - Protection. A Write changes only the memory of the Grant that its Region refers to,
//     whatever the other process does. After Up.Released that peer's writes no longer
//     change this memory.
//   - Order. The writes to one peer, in whatever Regions, become visible in the order of
//     Post; of one Write, the last aligned word last and the others in any order. Aligned words of
//     4 and 8 bytes are never torn.
//   - A notification is reported once, after the data of its Write and of all earlier
//     Writes are in memory. If the receiver has no room, the notification waits at the
//     sender. The receiver frees room by Handled.
//   - Every operation ends, if necessary with ErrPeer.
//
// # Locks
//
// A process calls its Provider with the process's lock held, except for Wait and Ring. The
// Provider calls Up with this lock held, from Turn and from other calls of the process.
// Some events occur outside such calls: a card's interrupt, or a completion while the
// program computes. The provider announces them by the Kick that it was opened with, from
// any goroutine and without holding a lock of its own. The process then calls Turn under
// its lock, at once or when the lock is released. Turn never blocks.
package provider

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Causes of failed operations. Errors wrap these.
var (
	ErrPeer     = errors.New("the other process has ended or does not answer")
	ErrRefused  = errors.New("the connection was refused permanently") // in addition to ErrPeer
	ErrRevoked  = errors.New("the buffer is no longer exported")
	ErrReleased = errors.New("the import has been given up")
	ErrFull     = errors.New("too many sends in progress")
	ErrClosed   = errors.New("closed")
	ErrNoRoom   = errors.New("lanai: a page table is full") // of proxy pages, or of pages that may be written
	ErrMemory   = errors.New("lanai: the card does not reach the memory")
)

// Identity is the identity under which other processes know a process.
type Identity struct {
	Addr        ethertype.Addr // where it accepts requests; its node is Addr.MAC
	Process     uint32         // its number, as the process itself states
	Incarnation uint64         // new with every start
}

// TicketSize is the size of a Ticket.
const TicketSize = 16

// Ticket is shown by an importer to an exporter. With it the daemon of the exporter's
// node finds the importer's user. The zero Ticket proves nothing.
type Ticket [TicketSize]byte

// MaxWord is the maximum length, in bytes, of a word that names an export.
const MaxWord = 128

// Reason is why a process refuses to grant an import.
type Reason uint8

// The reasons.
const (
	ReasonPolicy   Reason = 1 + iota // the export's policy does not allow it
	ReasonRevoked                    // it was unexported before the answer
	ReasonResource                   // no room for another
	ReasonUnproven                   // the policy allows users, and who the asker's is was not proven
	ReasonUnknown                    // the word was withdrawn, or the request is invalid
)

// Ask is a request for an import. The importing process fills the first group of fields.
// The provider fills the second group, and then calls Up.Answered.
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

// Region is the provider's state of an import: the destination of its writes.
type Region struct {
	Size  uint64
	Owner Identity
	ID    uint32 // of the export
	Err   error  // why it is no longer usable
	Ask   *Ask   // the Ask that it answers
	Busy  int    // writes in progress

	Link any // the provider's own
	Slot uint32
	Addr uint64
	Key  uint32
	// The data that were written since the owner last redirected the import: see
	// Redirect.
	Lo, Hi uint64
	Count  uint32
}

// Request is another process's Ask, as the exporter sees it. The exporter answers it by
// Allow or Deny, at any time.
type Request struct {
	From   Identity
	ID     uint32
	Word   string
	Ticket Ticket

	Link any // the provider's own
	Seq  uint32
	Gone bool // withdrawn: no answer is needed
}

// Grant is the exporter's state of an import.
type Grant struct {
	To     Identity
	Export any // the process's own

	Link   any // the provider's own
	Slot   uint32
	Mem    []byte // where writes go
	Before []byte // where they went before the last Redirect
}

// Write is one write. The provider copies the parts of the struct that it needs, so a
// Write may be on the stack.
type Write struct {
	Region *Region
	Offset uint64   // in the region
	Data   [][]byte // gathered in this order
	Skip   int      // bytes of Data to leave out at the beginning
	Size   int      // bytes to write after the skipped ones
	Copy   bool     // the data, at most CopyMax bytes, is copied before Post returns
	Later  bool     // the engine's next turn sends it
	Await  bool     // the program waits for its end
	More   bool     // it continues a message that has begun: there is always room for it
	Notify bool     // the exporter is notified
	Token  any      // argument of Up.Done, which is called if Token is not nil
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

// CopyMax is the maximum number of bytes of a Write with Copy.
const CopyMax = 256

// Up is the process, as its provider sees it.
type Up interface {
	// Asked reports that another process asks for an import.
	Asked(r *Request)
	// Withdrawn reports that r needs no answer any more.
	Withdrawn(r *Request)
	// Answered reports that a has its Region, or Err.
	Answered(a *Ask)
	// Lost reports that r.Err is set. The writes in progress have ended, or end by
	// themselves.
	Lost(r *Region)
	// Released reports that the importer's writes no longer change the grant's memory.
	Released(g *Grant)
	// Redirected reports that the importer will write to the new memory after Moved. Since the
	// previous redirection it has written count messages to the bytes from lo to hi of the old
	// memory.
	Redirected(g *Grant, lo, hi uint64, count uint32)
	// Done reports that the Write with the token is in memory, or has failed.
	Done(token any, err error)
	// Notified reports that a notification for the export of g has arrived.
	Notified(g *Grant)
}

// Provider moves the data of one process.
type Provider interface {
	// Self returns the process's own identity.
	Self() Identity
	// Now returns the clock, in nanoseconds; Virtual reports whether it is a simulator's.
	Now() int64
	Virtual() bool
	// Apart reports whether another process drives the network, as on a card that it serves.
	Apart() bool
	// WithTimeout returns a context that ends after a time on that clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)

	// Ask asks the process at an address for an import.
	Ask(to ethertype.Addr, a *Ask)
	// Forget withdraws an Ask that has not been answered.
	Forget(a *Ask)
	// Release releases an import. Writes in progress complete first, or fail.
	Release(r *Region)
	// Allow lets the asker write to mem.
	Allow(r *Request, mem []byte, export any) (*Grant, error)
	// Deny refuses a request.
	Deny(r *Request, why Reason)
	// Revoke revokes a grant; Up.Released reports the end. With at once set, it revokes
	// the memory without asking the importer, whose later writes then end its connection.
	Revoke(g *Grant, atOnce bool)
	// Redirect makes the importer write to mem, which is as long as the old memory.
	// Up.Redirected reports that the importer knows mem. The importer's writes then wait
	// for Moved.
	Redirect(g *Grant, mem []byte) error
	// Moved ends a Redirect, and the importer's writes continue. The data that this grant
	// and all others of the export have written to the old memory must have been copied.
	Moved(g *Grant)

	// Reaches returns an error that wraps ErrMemory if mem cannot be made writable for other
	// processes.
	Reaches(mem []byte) error
	// AllocMem returns memory that Reaches accepts, and FreeMem frees it. The caller may hold the lock,
	// but need not.
	AllocMem(n int) ([]byte, error)
	FreeMem(mem []byte)

	// Post posts a write. It fails with the Region's Err, or ErrFull unless Write.More.
	Post(w *Write) error
	// Handled frees the room of a notification.
	Handled(g *Grant)

	// Turn handles the announced events.
	Turn()
	// Poll drives the engine once, without the lock.
	Poll()
	// Seen returns a number for Wait, with the lock held.
	Seen() uint32
	// Wait blocks until something has changed since the call of Seen, with the lock held,
	// that returned seen. It may also return without a reason. It drives the engine. It
	// ends with the context's error, and returns nil when d has passed, unless d is 0. It
	// is called without the lock.
	Wait(ctx context.Context, d time.Duration, seen uint32) error
	// Ring makes all goroutines in Wait return and check again.
	Ring()
	// Failed returns the reason why no more data can arrive, for example that the interface
	// is gone, or nil.
	Failed() error

	// Dead ends everything that depends on a process that another component has found
	// dead.
	Dead(addr ethertype.Addr, incarnation uint64)
	// Peers describes each connection, for display.
	Peers() []Peer
	// Counters returns the provider's counters.
	Counters() Counters
	// Busy reports whether posted writes, or notifications that wait for room, are not known
	// to have arrived. Those that can no longer arrive do not count.
	Busy() bool
	// Close ends everything, including the writes that Busy reports: all regions are lost, and
	// all grants are released.
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
	Sends       int           // maximum writes in progress to one process
	Kick        func()
}

// OnCard adds a process to the host of a card (*lanai.Card). Its error wraps hardware.ErrSRAM if the card
// has no room for the process. It calls up from the first Turn on. Package lanai sets OnCard, so that its
// documentation need not show what only package vmmc calls.
var OnCard func(host any, cfg ProcessConfig, up Up) (Provider, error)
