// Package seedtest runs simulated tests under several seeds, and prints how to repeat a failed run.
package seedtest

import (
	"flag"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// Runner holds the flags of a test binary that select the seeds.
type Runner struct {
	dir   string
	one   *uint64
	many  *int
	short int
	real  bool
}

// Flags registers the flags NAME.seed and NAME.seeds of the tests in the folder of that name. The
// short form of a test (need.Full) runs one in short of its seeds. Call Flags in the initialization
// of a package variable, because flags are parsed before the first test.
func Flags(name string, short int) *Runner {
	return &Runner{
		dir:   name,
		one:   flag.Uint64(name+".seed", 0, "run the simulated tests under this seed only"),
		many:  flag.Int(name+".seeds", 0, "run the simulated tests under this many seeds"),
		short: short,
	}
}

// Real declares that goroutines of the tests run concurrently. Other tests are skipped under the
// race detector.
func (r *Runner) Real() *Runner {
	r.real = true
	return r
}

// Each calls run with the seeds from 1 on: def of them, or those that the flags select. The first
// error fails t.
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

// First returns the seed for a test that runs only once.
func (r *Runner) First() uint64 { return max(*r.one, 1) }
