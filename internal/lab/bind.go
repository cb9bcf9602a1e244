package lab

import (
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Processors returns the numbers of the processors that this process may run on.
func Processors() (all []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for cpu := range len(set) * bits.UintSize {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// Bind returns a processor for each of n ranks of this host. Ranks of one job compute at the same
// time, so no two get the same.
func Bind(n int) ([]int, error) {
	all, err := Processors()
	if err != nil {
		return nil, err
	}
	if n > len(all) {
		return nil, fmt.Errorf("%d ranks, each bound to a processor of its own: this process may run on %d of them: ask for fewer ranks, or do not bind them", n, len(all))
	}
	return all[:n], nil
}

// BindThread has the calling thread, and what it starts, run on one processor only.
func BindThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("sched_setaffinity, processor %d: %w", cpu, err)
	}
	return nil
}
