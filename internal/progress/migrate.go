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

// migrate moves the calling thread to another processor.
//
// The kernel wakes a thread on the processor that sent its frame, and Go moves goroutines to
// threads that it wakes. Both ends of a connection can therefore share a processor while another
// one is idle. Each end yields to the other when it waits, so the kernel's load balancer does not
// act for 4 to 8 ms, during which a stream has a third of its throughput.
//
// migrate removes the processor from the thread's affinity mask, which moves the thread at once,
// and then restores the mask. On a large machine it stays within the processor package, because
// memory of other packages is slower. It does nothing if the thread may use only one processor, or
// if the system refuses the calls.
func migrate() {
	runtime.LockOSThread() // until the mask is restored
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

// nearby removes the processors of other packages than cpu's from set, if the system reports the
// packages.
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

// parseCPUs parses a list of processors in the kernel's format, such as "0-3,8".
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
			set.Set(i) // ignores numbers beyond the size of the set
		}
	}
	return set, true
}
