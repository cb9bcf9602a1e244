package endpoint_test

import "testing"

// allocsPerRun is testing.AllocsPerRun, which counts what the whole process allocates: also
// goroutines that end after earlier tests, and the runtime. It counts five times at most, and
// returns the least: what a run itself allocates is in each count.
func allocsPerRun(runs int, run func()) float64 {
	least := testing.AllocsPerRun(runs, run)
	for range 4 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, run))
	}
	return least
}
