package doctor

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// files are those that the kernel shows under / in /proc and /sys.
type files struct{ fs.FS }

// read returns the text of a file, "" if it cannot be read.
func (f files) read(name string) string {
	file, err := f.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	// Not fs.ReadFile, which begins with as many bytes as the file says it has:
	// those of /proc/sys say none, and give no more than the first call asks for.
	text, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// cpus returns how many processors are online, 0 if that cannot be told.
func (f files) cpus() (n int) {
	for part := range strings.SplitSeq(f.read("sys/devices/system/cpu/online"), ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(lo)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(hi)
		}
		if err != nil || last < first {
			return 0
		}
		n += last - first + 1
	}
	return n
}

// quota returns how many processors' worth of time the control group of this
// process and those above it grant, 0 for no limit.
func (f files) quota() float64 {
	least := 0.0
	keep := func(q float64) {
		if q > 0 && (least == 0 || q < least) {
			least = q
		}
	}
	for line := range strings.Lines(f.read("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			switch {
			case fields[0] == "0": // version 2
				keep(f.ratio(path.Join("sys/fs/cgroup", dir, "cpu.max")))
			case strings.Contains(","+fields[1]+",", ",cpu,"):
				keep(f.legacyRatio(path.Join("sys/fs/cgroup/cpu", dir)))
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// ratio reads "QUOTA PERIOD" or "max PERIOD".
func (f files) ratio(name string) float64 {
	var quota, period float64
	if n, _ := fmt.Sscan(f.read(name), &quota, &period); n != 2 || period <= 0 {
		return 0
	}
	return quota / period
}

// legacyRatio does for a directory of control groups of version 1.
func (f files) legacyRatio(dir string) float64 {
	var quota, period float64
	fmt.Sscan(f.read(path.Join(dir, "cpu.cfs_quota_us")), &quota)
	fmt.Sscan(f.read(path.Join(dir, "cpu.cfs_period_us")), &period)
	if quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}
