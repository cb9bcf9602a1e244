// Package agent gets packet sockets from the node's agent (`bobnet agent`), for programs
// without CAP_NET_RAW.
//
// A program asks over a Unix socket, which tells the agent whose it is, and gets packet
// sockets, whose filter is locked to its ports, and what holds the claim on these ports. From
// then on both are the program's: frames do not pass the agent, and the ports are free when
// the program ends. The connection stays, so that the agent may ask how the link is. If
// the agent ends, the program connects to the next one, and shows what it holds.
//
// A program that wants no sockets, or has them, may connect by Tell to be asked how it is as a
// whole.
//
// What a program may send by such sockets is judged by the kernel, by their mark: docs/security.md
// says what is and what is not. The server is of package internal/agent, and uses what this
// package has for both sides: messages, and the making and checking of sockets.
package agent

import (
	"errors"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// EnvPath is the environment variable that has the path of the agent's socket; DefaultPath
// is that path where it is not set. Set and empty, it means that no agent is to be asked.
const (
	EnvPath     = "BOBNET_AGENT"
	DefaultPath = "/run/bobnet/agent.sock"
)

// Path returns the path of the agent's socket, "" if none is to be asked.
func Path() string {
	if path, set := os.LookupEnv(EnvPath); set {
		return path
	}
	return DefaultPath
}

// Version is that of the messages. Both sides have the same.
const Version = 3

// MaxAnswer is the most bytes that an answer may have, MaxText that of one to Metrics or Dump,
// and MaxRequest the most of all other messages.
const (
	MaxAnswer  = 1 << 20
	MaxText    = 256 << 10
	MaxRequest = 4 << 10
)

// Request is what a program asks for.
type Request struct {
	Version   int
	Interface string // its name
	Index     int    // and index, and MAC: those of the program's network namespace
	MAC       string
	EtherType ethernet.EtherType
	Ports     transport.PortRange // zero: the first free block
	Long      bool                // long frames, too
	Near      bool                // the sockets of the ports within the host, too
	// Held says that the program holds Ports, by sockets that come with the request: a
	// packet socket, and those that hold the claim.
	Held bool
	// Tells says that the program wants to be asked, and no sockets; all but Version is zero.
	Tells bool
}

// mac returns the station's MAC; zero if it is none.
func (r *Request) mac() ethertype.MAC {
	mac, _ := ethertype.ParseMAC(r.MAC)
	return mac
}

// Reply is the agent's answer to a request. The packet sockets come with it, then the sockets
// that hold the claim on Ports, then Near sockets by which the program is found within the host.
type Reply struct {
	Refusal Refusal `json:",omitempty"`
	Error   string  `json:",omitempty"`
	Ports   transport.PortRange
	Long    bool
	Near    int `json:",omitempty"`
	// Device is Guard.Device. Empty: the kernel does not judge what the sockets send.
	Device string `json:",omitempty"`
}

// sockets returns how many packet sockets come with the reply: one to send, one to receive,
// and, if the kernel does not judge what is sent, two more for long frames.
func (r *Reply) sockets() int {
	if r.Device != "" {
		return guardedSockets
	}
	return linkSockets
}

const (
	guardedSockets = 2
	linkSockets    = 4
)

// Refusal says why there are no sockets.
type Refusal string

// The refusals.
const (
	Denied    Refusal = "denied"    // the policy does not let this user in, or not so far
	Taken     Refusal = "taken"     // another has the ports
	Elsewhere Refusal = "elsewhere" // the interface is another one to the agent, or none
	Invalid   Refusal = "invalid"   // the request makes no sense
	Busy      Refusal = "busy"      // too many requests
	Failed    Refusal = "failed"    // the agent cannot
)

// ErrRefused is wrapped by the errors of Open if there is an agent that gives no sockets.
var ErrRefused = errors.New("transport: the agent gives no sockets")

// Question is what the agent asks a program. The answer is as many bytes as the program likes,
// up to Limit; none if it cannot answer that.
type Question struct{ What string }

// Limit is the most octets that the answer may have.
func (q Question) Limit() int {
	if q.What == Metrics || q.What == Dump {
		return MaxText
	}
	return MaxAnswer
}

// What the agent asks: of a link that has its sockets a Snapshot, and of a program that Tells
// its Metrics, in the form of package metrics, or a Dump, for people.
const (
	Snapshot = "snapshot"
	Metrics  = "metrics"
	Dump     = "dump"
)
