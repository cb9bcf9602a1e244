package lanai

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/shared"
)

// version is the version of notes, bells and pages of endpoints, which a program shares with the process that has
// the card. Raise it when their meaning changes.
const version = 1

// note is a message between a program and the process that has its card, as a line of JSON
// (share.Line). Messages of endpoints do not use it.
type note struct {
	Do      string
	Port    uint16        `json:",omitempty"` // port of the program; in a note about a control message, with the program's life
	Life    uint32        `json:",omitempty"`
	ID      uint32        `json:",omitempty"` // number of an endpoint
	Bit     int           `json:",omitempty"` // the endpoint's bit in the page of bells
	Size    int           `json:",omitempty"`
	Name    string        `json:",omitempty"`
	What    topic         `json:",omitempty"` // topic of a control message; the next fields belong to that message
	MAC     ethertype.MAC // address of the other program, or of the card
	Other   uint16        `json:",omitempty"` // port of the other program
	Conn    uint32        `json:",omitempty"`
	Body    []byte        `json:",omitempty"`
	Why     wire.Reason   `json:",omitempty"`
	Version int           `json:",omitempty"` // in a hello
	Error   string        `json:",omitempty"` // in a response: the reason why the request was refused

	fds []int
}

// Requests from a program. The card responds to the first four, in order, with the same Do.
const (
	doHello  = "hello"  // requests the page of bells
	doJoin   = "join"   // a program has started
	doOpen   = "open"   // opens an endpoint; the response carries the endpoint's memory
	doName   = "name"   // a program has a name
	doLeave  = "leave"  // a program has ended, with its endpoints
	doForget = "forget" // an endpoint has ended
	doUnname = "unname"
	doAsk    = "ask"  // looks up a name
	doSay    = "say"  // sends a control message to another driver
	doTook   = "took" // the program has handled Size received control messages
)

// Unsolicited messages from the card.
const (
	doHeard = "heard" // a control message for the program has arrived
	doSaid  = "said"  // the outcome of a doSay: Why is 0 if the control message has arrived
	doFound = "found" // a name was found
)

// The page of bells.
const (
	callsAt   = 0    // rung by the program for the card
	newsAt    = 2048 // rung by the card
	bellsSize = newsAt + shared.BellSize
)
