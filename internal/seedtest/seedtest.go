// Package seedtest runs simulated tests under one seed after another, and says how
// to run again the one that failed.
package seedtest

import (
	"flag"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// Runner has the flags of a test binary that choose seeds.
type Runner struct {
	dir   string
	one   *uint64
	many  *int
	short int
	real  bool
}

// Flags registers the flags NAME.seed and NAME.seeds of the tests in the folder
// of that name. The short form of a test (need.Full) runs one in so many of its seeds.
// Flags is for a package's variable: flags are read before the first test.
func Flags(name string, short int) *Runner {
	return &Runner{
		dir:   name,
		one:   flag.Uint64(name+".seed", 0, "run the simulated tests under this seed only"),
		many:  flag.Int(name+".seeds", 0, "run the simulated tests under this many seeds"),
		short: short,
	}
}

// Real says that the tests have goroutines that run at the same time. Others are left out under
// the race detector.
func (r *Runner) Real() *Runner {
	r.real = true
	return r
}

// Each calls run under the seeds from 1 on, def of them or as the flags say.
// The first error fails t.
func (r *Runner) Each(t *testing.T, def int, run func(seed uint64) error) {
	t.Helper()
	if !r.real {
		need.Simulated(t)
	}
	first, n := r.First(), def
	switch {
	case *r.one != 0:
		n = 1
	case *r.many != 0:
		n = *r.many
	case !need.Full():
		n = max(def/r.short, 1)
	}
	for seed := first; seed < first+uint64(n); seed++ {
		if err := run(seed); err != nil {
			t.Fatalf("%v\nreplay: go test ./%s -run '%s$' -%s.seed=%d", err, r.dir, t.Name(), r.dir, seed)
		}
	}
}

// First returns the seed to run under if there is but one run.
func (r *Runner) First() uint64 { return max(*r.one, 1) }
