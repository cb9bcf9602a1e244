package doctor

import "fmt"

// What is enough, in bytes.
const (
	enoughMemlock = 64 << 20
	enoughRmem    = 4 << 20
	goodRmem      = 8 << 20
)

func judgeMemory(f *Facts) []Finding {
	all := []Finding{judgeMemlock(f)}
	if f.Host.Share != nil {
		all = append(all, Finding{Level: Fail, Check: "shared memory", Found: f.Host.Share.Error(), Means: "programs of this host do not reach each other",
			Fix: "ulimit -a   # shows the limits of this shell\nfree -m"})
	}
	if f.NIC.Tried && f.NIC.Err == nil {
		all = append(all, judgeRing(f))
	}
	return append(all, judgeBuffers(f))
}

func judgeMemlock(f *Facts) Finding {
	limit := f.Host.Memlock
	found := Finding{Check: "locked memory", Found: size(limit)}
	switch {
	case limit == Unlimited:
		found.Found = "no limit"
	case f.Rights.IPCLock:
		found.Found += ", which CAP_IPC_LOCK passes"
	case limit < enoughMemlock:
		found.Level, found.Fix = Note, "ulimit -l unlimited\nsudo systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity"
		found.Means = "more can be registered, but is not locked: the system may page it out, and a message waits for it"
	}
	return found
}

// judgeRing looks at the receive queue of the NIC that was opened.
func judgeRing(f *Facts) Finding {
	found := Finding{Check: "receive queue", Found: fmt.Sprintf("%d frames of %d bytes", f.NIC.Slots, f.NIC.MTU)}
	switch {
	case f.NIC.Slots == 0:
		found.Found = "as many frames as fit the socket's buffer"
	case f.NIC.Slots < 32:
		found.Level = Warn
		found.Means = "a burst of a few senders overflows it, and frames are sent again"
		found.Fix = setMTU(f.Interfaces.Chosen.Name, jumboMTU)
	}
	return found
}

// smallBuffers says who needs large ones: the default driver, ring, receives
// into memory of its own.
var smallBuffers = fmt.Sprintf("below %s the drivers udp and packet lose bursts, and ring carries no frames beyond the MTU; nothing else needs them", size(enoughRmem))

func judgeBuffers(f *Facts) Finding {
	h := &f.Host
	found := Finding{Check: "socket buffers", Found: fmt.Sprintf("up to %s to receive, %s to send", size(uint64(h.RmemMax)), size(uint64(h.WmemMax)))}
	switch {
	case f.Rights.NetAdmin && h.RmemMax == 0:
		found.Found = "without limit: CAP_NET_ADMIN is effective"
	case f.Rights.NetAdmin:
		found.Found += ", which CAP_NET_ADMIN passes"
	case h.RmemMax == 0:
		found.Level, found.Found = Note, "the limits cannot be seen from here"
		found.Means = smallBuffers
		found.Fix = "sysctl net.core.rmem_max net.core.wmem_max   # shows them, outside of the container"
	case h.RmemMax < enoughRmem || h.WmemMax < enoughRmem:
		found.Level = Note
		found.Means = smallBuffers
		found.Fix = fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", goodRmem, goodRmem)
	}
	return found
}

// judgeCPU compares processors with what spins on them: a wait on a NIC does,
// the NIC that a program is about to open included. NICs of this host that are
// behind other interfaces cannot be told from those of other hosts.
func judgeCPU(f *Facts) []Finding {
	h := &f.Host
	cores := float64(h.Affinity)
	found := Finding{Check: "processors", Found: fmt.Sprintf("%d of %d may be used, Go uses %d", h.Affinity, h.CPUs, h.GOMAXPROCS)}
	if h.Quota > 0 {
		found.Found += fmt.Sprintf(", for %.1f processors' time", h.Quota)
		cores = min(cores, h.Quota)
	}
	spinners := 1 + f.Segment.Local
	if spinners > 1 {
		found.Found += fmt.Sprintf("; %d NICs on %s may spin: %d of other programs, and the next program's", spinners, f.Interfaces.Chosen.Name, f.Segment.Local)
	}
	all := fmt.Sprintf("taskset -c 0-%d PROGRAM", h.CPUs-1)
	switch {
	case h.Quota > 0 && h.Quota < float64(h.Affinity):
		found.Level = Warn
		found.Means = "a program that spins uses up its time and is then stopped for tens of milliseconds"
		found.Fix = fmt.Sprintf("docker update --cpus %d CONTAINER\nsudo systemctl set-property UNIT CPUQuota=", h.Affinity)
	case cores < 2:
		found.Level = Warn
		found.Means = "what waits and what works share a processor: waits do not spin, and each message pays for a switch"
		if found.Fix = all; h.CPUs < 2 {
			found.Fix = "lscpu --all --extended   # shows those that are offline\nsudo chcpu --enable CPU   # if there is one"
		}
	case float64(spinners) > cores:
		found.Level = Warn
		found.Means = "they cannot all spin: waits yield to each other, then block, and messages take tens of microseconds instead of a few"
		if found.Fix = all; h.Affinity >= h.CPUs {
			found.Fix = "sudo ss --packet --processes   # shows whose they are: stop one, or have it block, by vipl.Config{Spin: -1}"
		}
	case h.GOMAXPROCS < 2:
		found.Level = Warn
		found.Means = "the service goroutine and a spinning one take turns"
		found.Fix = "export GOMAXPROCS=" + fmt.Sprint(h.Affinity)
	}
	load := Finding{Check: "load", Found: fmt.Sprintf("%.1f threads runnable on %.4g processors", h.Load, cores)}
	if h.Load > cores+0.5 {
		load.Level = Warn
		load.Means = "waits yield to the others instead of spinning: messages take tens of microseconds instead of a few"
		load.Fix = "top -H   # shows which"
	}
	return []Finding{found, load}
}

// size prints bytes as people do.
func size(n uint64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
