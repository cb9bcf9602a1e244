package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"golang.org/x/sys/unix"
)

// Stack is a method of transferring messages between the halves. Implementations keep no state
// between connections.
type Stack interface {
	// Cases returns the variants of test that the plan asks of the stack, by reliability level,
	// kind of wait and link. It omits cases whose size the stack does not support.
	Cases(p *Plan, test string, mtu, size int) []Case

	// Open creates one end of a connection for samples of c. Both halves call it at the same time,
	// and exchange their addresses by Half.Exchange.
	Open(ctx context.Context, h *Half, c Case) (Conn, error)
}

// Conn is one end of a connection, set up for one Case. Calls come in pairs, one on each half:
// PingPong with Echo, Stream with Sink. All of them return an error when ctx ends. Only one
// goroutine may use a Conn.
type Conn interface {
	// PingPong sends a message and waits for the answer, len(rtt) times, and stores the nanoseconds
	// of each round trip in rtt.
	PingPong(ctx context.Context, rtt []int64) error
	// Echo answers n messages.
	Echo(ctx context.Context, n int) error
	// Stream sends n messages with several in flight. It returns when the other half has received
	// the last message, and returns how many messages have arrived at both halves.
	Stream(ctx context.Context, n int) (arrived int, err error)
	// Sink receives what Stream sends.
	Sink(ctx context.Context, n int) error
	// Counters returns this half's counters since Open.
	Counters() Counters
	Close() error
}

// Counters are the event counts of a half during a sample.
type Counters struct {
	Retransmits uint64        `json:"retransmits"`
	Drops       uint64        `json:"drops"`
	CPU         time.Duration `json:"cpu_ns"` // processor time of the process during the messages; set by the half, not by a Conn
}

func (c *Counters) add(o Counters) {
	c.Retransmits += o.Retransmits
	c.Drops += o.Drops
	c.CPU += o.CPU
}

// processorTime returns the processor time that this process has used, in user and kernel mode. It includes the
// kernel's work on frames that the process has sent, as far as that runs within its system calls.
func processorTime() time.Duration {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// stacks is the table of all stacks, in the order of the output. A new stack needs an entry here
// and nowhere else.
var stacks = []struct {
	name  string
	stack Stack
}{
	{"line", sharedStack{"line", Latency}},
	{"handoff", sharedStack{"handoff", Bandwidth}},
	{"raw", rawStack{}},
	{"vipl", viplStack{}},
	{"mplite", mpliteStack{}},
	{"am2", amStack{}},
	{"vmmc", vmmcStack{}},
	{"vrpc", vrpcStack{}},
	{"splitc", splitStack{}},
	{"stream", streamStack{}},
	{"tcp", tcpStack{}},
	{"udp", udpStack{}},
	{ucxName, ucxStack{}},
}

// ErrPlan is wrapped by every error about an invalid plan.
var ErrPlan = errors.New("cannot be measured")

// errLost ends a sample in which a frame was lost that the stack does not retransmit.
var errLost = errors.New("a frame was lost, and this stack does not retransmit")

// Stacks returns the names of the stacks, in the order of the output.
func Stacks() []string {
	names := make([]string, len(stacks))
	for i, s := range stacks {
		names[i] = s.name
	}
	return names
}

// ownStacks returns the names of the stacks that need no IP address.
func ownStacks() []string {
	return slices.DeleteFunc(Stacks(), func(name string) bool { return slices.Contains([]string{"tcp", "udp", "vrpc", ucxName}, name) })
}

func stackByName(name string) (Stack, error) {
	for _, s := range stacks {
		if s.name == name {
			return s.stack, nil
		}
	}
	return nil, fmt.Errorf("perf: stack %q %w: want some of %v", name, ErrPlan, Stacks())
}

// stackOrder returns the position of a stack in the output.
func stackOrder(name string) int {
	return slices.Index(Stacks(), name)
}

// outstanding returns how many messages of a size a bandwidth or rate test keeps in flight. The
// number of its buffers is the same. The messages have about 4 MiB together; of small messages
// there are enough to fill frames.
func outstanding(size int) int {
	const memory = 4 << 20
	return min(max(memory/max(size, 1), 4), 1024)
}

// sortCases sorts cases in the order of the output.
func sortCases(cases []Case) {
	sort.SliceStable(cases, func(i, j int) bool {
		a, b := cases[i], cases[j]
		if a.MTU != b.MTU {
			return a.MTU < b.MTU
		}
		if a.Test != b.Test {
			return testOrder(a.Test) < testOrder(b.Test)
		}
		if a.Size != b.Size {
			return a.Size < b.Size
		}
		return stackOrder(a.Stack) < stackOrder(b.Stack)
	})
}

func testOrder(test string) int { return slices.Index(Tests, test) }

// barriers makes len(rtt) barriers, and records the nanoseconds of each. Both halves call it.
func barriers(ctx context.Context, now func() int64, barrier func(context.Context) error, rtt []int64) error {
	last := now()
	for i := range rtt {
		if err := barrier(ctx); err != nil {
			return err
		}
		t := now()
		rtt[i] = t - last
		last = t
	}
	return nil
}
