package lanai

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
)

// version is that of memos, bells and pages of processes, which a program and the process that has the card share.
// Raise it when their meaning changes.
const version = 1

// memo is what a program and the process that has its card say to each other, as a line of JSON
// (share.Line). Data and requests do not go this way.
type memo struct {
	Do          string
	Port        uint16        `json:",omitempty"` // of the program's process
	Bit         int           `json:",omitempty"` // of bells, for the process
	Seq         uint32        `json:",omitempty"` // of a question
	MAC         ethertype.MAC // of another process, or of a node
	Other       uint16        `json:",omitempty"` // port of the other process
	Process     uint32        `json:",omitempty"` // number of a process
	Incarnation uint64        `json:",omitempty"`
	Node        int           `json:",omitempty"`
	Line        uint64        `json:",omitempty"` // of the node
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
	Full        bool   `json:",omitempty"` // Error says that there is no room
	Version     int    `json:",omitempty"` // of a hello
	Error       string `json:",omitempty"` // of an answer: why it is no

	fds []int
}

// What a program asks for. The card answers these, in their order, by the same word.
const (
	doHello = "hello" // the page of bells
	doJoin  = "join"  // a process is there; the answer has its page
	doAlloc = "alloc" // memory; the answer has it
	doShut  = "shut"  // nothing is to be written to frames any more
	doEnter = "enter" // the process is to be known by its number
	doWord  = "word"  // a word names the process

	doUnname = "unname" // all names of the process end, which has perhaps ended before
)

// What a program says without an answer, or with one that comes later.
const (
	doLeave  = "leave"  // the process is gone
	doFree   = "free"   // memory is not used any more
	doGrant  = "grant"  // an importer may write to memory
	doSay    = "say"    // to another process; the card says "heard"
	doFind   = "find"   // who has a name? the card says "found"
	doUnfind = "unfind" // nobody wants to know any more
	doWhose  = "whose"  // whose is a process? the card says "theirs"
	doUnword = "unword"
	doTook   = "took" // the process has taken in so many of what the card has said of others; of no process: lines
)

// What the card says by itself.
const (
	doLine    = "line"    // the number of the line to a node; what hung on those before has ended
	doHeard   = "heard"   // a message of another process
	doNote    = "note"    // a notification
	doRefused = "refused" // a write has been refused
	doFound   = "found"
	doTheirs  = "theirs"
	doEnd     = "end" // which the program says to itself: the connection has ended
)
