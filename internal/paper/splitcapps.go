package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
)

// application is a skeleton of an application.
type application interface {
	Run(r *skeleton.Rank) error
}

// What an arithmetic operation of an application takes, and what a store does in memory
// that processes share: assumptions, as the paper has no numbers.
const (
	operationCycles = 4
	sharedStore     = 400 * time.Nanosecond
	sharedRate      = 100e6 // octets per second
	viaSegment      = 4096  // octets of a medium message
)

// arithmetic is how long so many operations take on a processor of that clock.
func arithmetic(operations int, clock float64) time.Duration {
	return time.Duration(float64(operations) * operationCycles / clock * 1e9)
}

// alone is the link of a program of one rank: it only computes.
type alone struct {
	clock float64
	spent time.Duration
}

func (*alone) Request(int, skeleton.Kind, int32, int) error {
	panic("paper: a rank that is alone sends a request")
}
func (*alone) Await() error { panic("paper: a rank that is alone waits") }
func (*alone) Poll() error  { return nil }
func (*alone) Segment() int { return viaSegment }

func (a *alone) Compute(operations int) error {
	a.spent += arithmetic(operations, a.clock)
	return nil
}

// serial is how long an application computes on one processor.
func serial(clock float64, app application) (time.Duration, error) {
	a := &alone{clock: clock}
	err := app.Run(skeleton.New(a, 0, 1))
	return a.spent, err
}
