package lanai

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// version is that of notes, bells and pages of endpoints, which a program and the process that has the card share.
// Raise it when their meaning changes.
const version = 1

// note is a message between a program and the process that has its card, as a line of JSON
// (share.Line). Messages of endpoints do not use it.
type note struct {
	Do      string
	Port    uint16        `json:",omitempty"` // of the program; of what the card says, with its life
	Life    uint32        `json:",omitempty"`
	ID      uint32        `json:",omitempty"` // of an endpoint
	Bit     int           `json:",omitempty"` // of bells, for an endpoint
	Size    int           `json:",omitempty"`
	Name    string        `json:",omitempty"`
	What    topic         `json:",omitempty"` // of what drivers say, as what follows
	MAC     ethertype.MAC // of the other program, or of the card
	Other   uint16        `json:",omitempty"` // port of the other program
	Conn    uint32        `json:",omitempty"`
	Body    []byte        `json:",omitempty"`
	Why     wire.Reason   `json:",omitempty"`
	Version int           `json:",omitempty"` // of a hello
	Error   string        `json:",omitempty"` // of an answer: why it is no

	fds []int
}

// Requests of a program. The card answers the first four, in order, by the same word.
const (
	doHello  = "hello"  // the page of bells
	doJoin   = "join"   // a program has started
	doOpen   = "open"   // an endpoint; the answer has its memory
	doName   = "name"   // a program has a name
	doLeave  = "leave"  // a program has ended, with its endpoints
	doForget = "forget" // the endpoint is
	doUnname = "unname"
	doAsk    = "ask"  // who has a name?
	doSay    = "say"  // to another driver
	doTook   = "took" // the program has handled so many of the sayings that it has heard
)

// Messages that the card sends by itself.
const (
	doHeard = "heard" // another driver has said something
	doSaid  = "said"  // a saying has arrived, or failed for a reason
	doFound = "found" // somebody has a name
)

// The page of bells.
const (
	callsAt   = 0    // rung by the program for the card
	newsAt    = 2048 // rung by the card
	bellsSize = newsAt + shared.BellSize
)
