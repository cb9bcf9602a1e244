package progress

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// migrate moves the calling thread to another processor than the one it is on.
//
// The kernel wakes a thread where its frame was sent, and Go moves goroutines to
// threads that it wakes. So both ends of a connection may come to share a processor
// while another one is idle. As each yields to the other when it waits, the kernel's
// load balancing does not act for 4 to 8 ms, in which a stream has a third of its rate.
//
// migrate removes the processor from the thread's affinity mask, which moves the thread
// at once, and then restores the mask. On a large machine it chooses among the processors
// of the same package, because memory of another package is slower. A thread that may run
// on one processor only does not move, nor does any where the system refuses the calls.
func migrate() {
	runtime.LockOSThread() // until it may run anywhere again
	defer runtime.UnlockOSThread()
	var mine unix.CPUSet
	if unix.SchedGetaffinity(0, &mine) != nil {
		return
	}
	here, ok := processor()
	if !ok {
		return
	}
	others := mine
	others.Clear(here)
	if others.Count() > 1 {
		nearby(here, &others)
	}
	if others.Count() > 0 && unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &mine)
	}
}

// nearby removes from set the processors of other packages than that of processor cpu,
// if the system tells which those are.
func nearby(cpu int, set *unix.CPUSet) {
	list, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/package_cpus_list", cpu))
	if err != nil {
		return
	}
	near, ok := parseCPUs(strings.TrimSpace(string(list)))
	if !ok {
		return
	}
	for i := range len(set) * bits.UintSize {
		if !near.IsSet(i) {
			set.Clear(i)
		}
	}
}

// parseCPUs reads a list of processors as the kernel writes it, such as "0-3,8".
func parseCPUs(list string) (set unix.CPUSet, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		low, high, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if span && err == nil {
			last, err = strconv.Atoi(high)
		}
		if err != nil {
			return set, false
		}
		for i := first; i <= last; i++ {
			set.Set(i) // ignores numbers beyond its size
		}
	}
	return set, true
}
