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

// migrate takes the calling thread to another processor than the one it is on.
//
// The kernel wakes a thread where its frame was sent, and Go moves goroutines to
// threads that it wakes. So both ends of a connection may come to share a processor
// while another one is idle, and as each makes way for the other when it waits, the
// kernel sees nothing wrong for 4 to 8 ms, in which a stream has a third of its rate.
//
// The way there is to forbid the thread the processor, which moves it at once, and
// to allow it again. Of the processors of a large machine, those of the same package
// come into question: further away its memory would be far. A thread that may run on
// one only stays, as does everybody where the system forbids the calls.
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

// nearby takes out of set what is not in the package of processor cpu, if the system
// tells which those are.
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
			set.Set(i) // which passes over what it has no room for
		}
	}
	return set, true
}
