package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
)

// application is a skeleton of an application.
type application interface {
	Run(r *skeleton.Rank) error
}

// viaSegment is the longest medium message, in bytes.
const viaSegment = 4096

// operations is a processor's rate of arithmetic operations, per second.
type operations float64

// take returns the duration of n operations.
func (rate operations) take(n int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * 1e9)
}

// rate is the rate of the Millennium's processors. nowRate is the rate of the NOW's processors.
func (m *viaModel) rate() operations    { return operations(m.clock / m.operation) }
func (m *viaModel) nowRate() operations { return m.rate() * operations(m.now) }

// alone is the link of a program of one rank: it only computes.
type alone struct {
	rate  operations
	spent time.Duration
}

func (*alone) Request(int, skeleton.Kind, int32, int) error {
	panic("paper: a rank that is alone sends a request")
}
func (*alone) Await() error { panic("paper: a rank that is alone waits") }
func (*alone) Poll() error  { return nil }
func (*alone) Segment() int { return viaSegment }

func (a *alone) Compute(operations int) error {
	a.spent += a.rate.take(operations)
	return nil
}

// serial returns how long an application computes on one processor.
func serial(rate operations, app application) (time.Duration, error) {
	a := &alone{rate: rate}
	err := app.Run(skeleton.New(a, 0, 1))
	return a.spent, err
}
