// Package agent gets packet sockets from the node's agent (`bobnet agent`), for programs without
// CAP_NET_RAW.
//
// A program connects to the agent's Unix socket, by which the agent learns the program's user. The
// program receives packet sockets, whose filter is locked to its ports, and the sockets that hold
// the claim on these ports. Both then belong to the program: frames do not pass through the agent,
// and the ports become free when the program ends. The connection stays open, so that the agent can
// ask for the state of the link. If the agent ends, the program connects to the next one, and shows
// it the sockets.
//
// A program that needs no sockets, or has them, can connect by Tell, so that the agent can ask for
// the state of the whole program.
//
// The kernel checks what a program sends by such sockets, by the sockets' mark: docs/security.md
// describes the checks and their limits. The server is in package internal/nodeagent. It uses the
// parts of this package that both sides share: messages, and creating and checking sockets.
package agent

import (
	"errors"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// EnvPath is the environment variable with the path of the agent's socket; DefaultPath is the
// default. If the variable is set and empty, no agent is used.
const (
	EnvPath     = "BOBNET_AGENT"
	DefaultPath = "/run/bobnet/agent.sock"
)

// Path returns the path of the agent's socket, or "" if no agent is used.
func Path() string {
	if path, set := os.LookupEnv(EnvPath); set {
		return path
	}
	return DefaultPath
}

// Version is the version of the messages, which must be the same on both sides.
const Version = 3

// MaxAnswer is the maximum size of an answer, MaxText of an answer to Metrics or Dump, and
// MaxRequest of all other messages, in bytes.
const (
	MaxAnswer  = 1 << 20
	MaxText    = 256 << 10
	MaxRequest = 4 << 10
)

// Request is a program's request.
type Request struct {
	Version   int
	Interface string // its name
	Index     int    // its index and MAC in the program's network namespace
	MAC       string
	EtherType ethernet.EtherType
	Ports     transport.PortRange // zero means the first free block
	Long      bool                // including long frames
	Near      bool                // including the sockets for the ports within the host
	// Held reports that the program already holds Ports, by sockets that accompany the request: a
	// packet socket, and those of the claim.
	Held bool
	// Tells reports that the program wants to be asked and needs no sockets. All fields but Version
	// are then zero.
	Tells bool
}

// mac returns the station's MAC, or zero if it is invalid.
func (r *Request) mac() ethertype.MAC {
	mac, _ := ethertype.ParseMAC(r.MAC)
	return mac
}

// Reply is the agent's answer to a request. It is accompanied by the packet sockets, then the
// sockets that hold the claim on Ports, then Near sockets by which other programs of the host find
// this one.
type Reply struct {
	Refusal Refusal `json:",omitempty"`
	Error   string  `json:",omitempty"`
	Ports   transport.PortRange
	Long    bool
	Near    int `json:",omitempty"`
	// Device is Guard.Device. If it is empty, the kernel does not check what the sockets send.
	Device string `json:",omitempty"`
}

// sockets returns the number of packet sockets with the reply: one to send and one to receive. If
// the kernel does not check what is sent, there are two more for long frames.
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

// Refusal is the reason why there are no sockets.
type Refusal string

// The refusals.
const (
	Denied    Refusal = "denied"    // the policy excludes this user or request
	Taken     Refusal = "taken"     // another program has the ports
	Elsewhere Refusal = "elsewhere" // the interface is another one to the agent, or none
	Invalid   Refusal = "invalid"   // the request is malformed
	Busy      Refusal = "busy"      // too many requests
	Failed    Refusal = "failed"    // the agent failed
)

// ErrRefused is wrapped by the errors of Open if an agent refuses the request.
var ErrRefused = errors.New("transport: the agent gives no sockets")

// Question is the agent's question to a program. The answer has up to Limit bytes, and is empty if
// the program cannot answer.
type Question struct{ What string }

// Limit is the maximum size of the answer in bytes.
func (q Question) Limit() int {
	if q.What == Metrics || q.What == Dump {
		return MaxText
	}
	return MaxAnswer
}

// The agent's questions: a Snapshot of a link with the agent's sockets; the Metrics of a program
// that Tells, in the format of package metrics; or a Dump as readable text.
const (
	Snapshot = "snapshot"
	Metrics  = "metrics"
	Dump     = "dump"
)
