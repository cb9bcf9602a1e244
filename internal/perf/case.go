package perf

import (
	"fmt"
	"strings"
)

// The tests.
const (
	Latency   = "latency"   // one message there, one back
	Bandwidth = "bandwidth" // messages one way, several outstanding
	Rate      = "rate"      // the same with many small messages posted
	Read      = "read"      // RDMA reads, one after another: the time from the request until the data has arrived
	Write     = "write"     // RDMA writes, several outstanding
	LogP      = "logp"      // bursts of requests: the parameters of the LogP model

	Bidirectional = "bidirectional" // repeatedly one message in each direction at the same time
	Overhead      = "overhead"      // time of the call that sends a message to an idle half
	Barrier       = "barrier"       // barriers of both halves, one after another

	Primitives = "primitives" // Split-C's read, write, get, put and store of an int, one after another
	Bulk       = "bulk"       // its get, put and store of many bytes
)

// oneSided reports whether a test consists of reads or writes. Over VIs, the other half takes no
// part in them. In Split-C, it may have to serve them.
func oneSided(test string) bool { return test == Read || test == Write }

// measures reports whether a stack has a test. LogP needs requests that handlers or the runtime
// answer. Bidirectional and Overhead are tests of the VMMC paper. Barriers need ranks. Calls of
// remote procedures have only latency and bandwidth.
func measures(stack, test string) bool {
	switch {
	case oneSided(test):
		return stack == "vipl" || stack == "splitc"
	case test == LogP:
		return stack == "am2" || stack == "splitc"
	case test == Barrier:
		return stack == "mplite" || stack == "splitc"
	case test == Bidirectional || test == Overhead:
		return stack == "vmmc"
	case test == Primitives || test == Bulk:
		return stack == "splitc"
	}
	return stack != "vrpc" || test == Latency || test == Bandwidth
}

// timed reports whether a test measures the time of each message. The other tests measure messages
// per second.
func timed(test string) bool {
	return test == Latency || test == Read || test == Overhead || test == Barrier
}

// sized reports whether the messages of a test have a size that a plan chooses.
func sized(test string) bool { return test != Primitives && test != Barrier }

// How a half waits.
const (
	Spin  = "spin"  // polls the receive queue continuously
	Block = "block" // sleeps until the kernel wakes it
)

// Case names one measurement.
type Case struct {
	Stack       string `json:"stack"`
	Test        string `json:"test"`
	Reliability string `json:"reliability"` // "" where the stack has no levels
	Wait        string `json:"wait"`
	Link        string `json:"link"` // "" for stacks of the kernel
	Ways               // of the link "ring"
	Kind        string `json:"kind,omitempty"`    // am2: "short", "medium" or "bulk" messages; splitc: the operation, such as "get" or "get two-way"
	Credits     int    `json:"credits,omitempty"` // am2: the maximum number of requests in flight
	Mode        string `json:"mode,omitempty"`    // the test overhead: "sync" or "async"; vrpc: the transport of the calls; splitc: the layer
	MTU         int    `json:"mtu"`
	Size        int    `json:"size"` // payload bytes of a message
}

// String returns a readable name: "vipl latency 64 B, delivery, spin, ring, MTU 1500".
func (c Case) String() string {
	parts := []string{fmt.Sprintf("%s %s %d B", c.Stack, c.Test, c.Size)}
	if c.Test == Barrier {
		parts[0] = c.Stack + " " + c.Test
	}
	for _, s := range []string{c.Kind, c.Mode, c.Reliability, c.Wait, c.Link} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if c.Credits != 0 {
		parts = append(parts, fmt.Sprintf("%d credits", c.Credits))
	}
	if ways := c.Ways.String(); ways != "" {
		parts = append(parts, ways)
	}
	return fmt.Sprintf("%s, MTU %d", strings.Join(parts, ", "), c.MTU)
}

// Record is one finished measurement: one line of `bobnet perf --json`. Fields
// that do not apply to the test are 0.
type Record struct {
	Case
	Count       int     `json:"count"`       // messages or round trips measured
	P50         float64 `json:"p50_us"`      // median one-way time, or time of the call or barrier, in microseconds
	P99         float64 `json:"p99_us"`      //
	Min         float64 `json:"min_us"`      //
	Mbits       float64 `json:"mbit_s"`      // payload, 1e6 bits a second
	Rate        float64 `json:"msg_s"`       // messages a second
	Retransmits uint64  `json:"retransmits"` // frames sent again, sum of both halves
	Drops       uint64  `json:"drops"`       // frames or datagrams lost, sum of both halves
	LineNs      float64 `json:"line_ns"`     // median cache-line time before and after the samples, in nanoseconds
	CPU         float64 `json:"cpu_s_gb"`    // processor time of both halves, seconds per 1e9 bytes of payload; bandwidth tests only

	LogP *Signature `json:"logp,omitempty"` // nil except for the test logp
}
