package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
)

// version is the version of the memos, bells and pages that a program and the card's process share.
// Increase it when their meaning changes.
const version = 1

// memo is a message between a program and the process that owns its card, a line of JSON
// (share.Line). Data and requests do not use memos.
type memo struct {
	Do          string
	Port        uint16        `json:",omitempty"` // of the program's process
	Bit         int           `json:",omitempty"` // of bells, for the process
	Seq         uint32        `json:",omitempty"` // of a question
	MAC         ethertype.MAC // of another process or of a node
	Other       uint16        `json:",omitempty"` // port of the other process
	Process     uint32        `json:",omitempty"` // number of a process
	Incarnation uint64        `json:",omitempty"`
	Node        int           `json:",omitempty"`
	Line        uint64        `json:",omitempty"` // to the node
	Body        []byte        `json:",omitempty"`
	First       uint32        `json:",omitempty"` // of frames
	Pages       uint32        `json:",omitempty"`
	At          uint64        `json:",omitempty"` // virtual address of memory
	Size        int           `json:",omitempty"`
	Scope       string        `json:",omitempty"`
	Word        string        `json:",omitempty"`
	Name        directory.Name
	UID         uint32 `json:",omitempty"`
	Proven      bool   `json:",omitempty"`
	Drop        bool   `json:",omitempty"`
	Full        bool   `json:",omitempty"` // Error means that there is no room
	Version     int    `json:",omitempty"` // of a hello
	Error       string `json:",omitempty"` // reason of a refusal

	fds []int
}

// Requests from a program. The card responds to them in order, with the same Do.
const (
	doHello = "hello" // requests the page of bells
	doJoin  = "join"  // adds a process; the response carries its page
	doAlloc = "alloc" // allocates memory; the response carries it
	doShut  = "shut"  // revokes frames
	doEnter = "enter" // registers the process's number
	doWord  = "word"  // adds a name of the process

	doUnname = "unname" // removes all names of the process, which may already have ended
)

// Messages from a program that have no response, or a later one.
const (
	doLeave  = "leave"  // the process has ended
	doFree   = "free"   // frees memory
	doGrant  = "grant"  // lets an importer write to memory
	doSay    = "say"    // a message to another process, which receives doHeard
	doFind   = "find"   // looks up a name; the response is doFound
	doUnfind = "unfind" // cancels a doFind
	doWhose  = "whose"  // requests the user of a process; the response is doTheirs
	doUnword = "unword"
	doTook   = "took" // the process has handled Size messages; without a process: the program has read Size doLine messages
)

// Messages from the card.
const (
	doLine    = "line"    // the number of the line to a node; earlier lines have ended
	doHeard   = "heard"   // a message from another process
	doNote    = "note"    // a notification
	doRefused = "refused" // a write was refused
	doFound   = "found"
	doTheirs  = "theirs"
	doEnd     = "end" // internal to the program: the connection has ended
)
