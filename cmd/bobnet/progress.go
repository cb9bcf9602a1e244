package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"golang.org/x/sys/unix"
)

// progressWidth is the length of a bar, in characters.
const progressWidth = 30

// plainInterval is the time between two lines of progress if w is not a terminal.
const plainInterval = 3 * time.Second

// progress displays the progress of a long task: a bar on a terminal, and otherwise a line every few
// seconds.
type progress struct {
	w        io.Writer
	terminal bool
	every    time.Duration // between plain lines
	last     time.Time     // when the last plain line was printed
	unit     string        // of the numbers in plain lines, after a space
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: lab.IsTerminal(w), every: plainInterval, last: time.Now()}
}

// step displays that done of total steps are complete, and describes the last one.
func (p *progress) step(done, total int, what ...any) {
	text := fmt.Sprint(what...)
	if p.terminal {
		full := progressWidth * done / max(total, 1)
		bar := strings.Repeat("#", full) + strings.Repeat(".", progressWidth-full)
		fmt.Fprintf(p.w, "\r\x1b[K[%s] %s", bar, text)
		return
	}
	if now := time.Now(); now.Sub(p.last) >= p.every {
		p.last = now
		fmt.Fprintf(p.w, "bobnet: %d of %d%s", done, total, p.unit)
		if text != "" {
			fmt.Fprintf(p.w, ": %s", text)
		}
		fmt.Fprintln(p.w)
	}
}

// sample implements perf.Progress.
func (p *progress) sample(done, total int, last perf.Case) { p.step(done, total, last) }

// end removes the bar.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// disturbedShare is the share of the processors' time from which other processes count as a
// disturbance of a measurement.
const disturbedShare = 0.1

// userHz is the unit of the times in /proc/stat, for every program, whatever the kernel's own
// clock: see proc(5) and sysconf(_SC_CLK_TCK).
const userHz = 100

// loadWatch measures which share of the machine's processors other processes use.
type loadWatch struct {
	start time.Time
	busy  time.Duration // of all processes when the watch began, and stolen by the hypervisor
	own   time.Duration // of this process and its children
	cpus  int
}

// watchLoad begins a watch. The zero loadWatch, where /proc/stat cannot be read, reports nothing.
func watchLoad() loadWatch {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return loadWatch{}
	}
	busy, cpus := parseStat(stat)
	return loadWatch{start: time.Now(), busy: busy, own: ownTime(), cpus: cpus}
}

// share returns the share of all processors' time since the watch began that went to other
// processes, and to other virtual machines of the host. Children count as this process's own when
// they have ended.
func (w loadWatch) share() float64 {
	now := watchLoad()
	if w.cpus == 0 || now.cpus == 0 {
		return 0
	}
	others := (now.busy - w.busy) - (now.own - w.own)
	return max(0, others.Seconds()/(now.start.Sub(w.start).Seconds()*float64(w.cpus)))
}

// report prints a line if other processes disturbed what ran since the watch began.
func (w loadWatch) report(out io.Writer) {
	if share := w.share(); share >= disturbedShare {
		fmt.Fprintf(out, "Disturbed: other processes used %.0f %% of the processors meanwhile. An idle machine gives better figures.\n", 100*share)
	}
}

// parseStat returns the time that all processors together spent in processes, and that the
// hypervisor gave to others (steal), and the number of processors: /proc/stat, see proc(5). Time in
// interrupts belongs to no process and is omitted.
func parseStat(stat []byte) (busy time.Duration, cpus int) {
	for line := range bytes.Lines(stat) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) > 8 && fields[0] == "cpu":
			for _, i := range []int{1, 2, 3, 8} { // user, nice, system, steal
				ticks, _ := strconv.ParseInt(fields[i], 10, 64)
				busy += time.Duration(ticks) * time.Second / userHz
			}
		case len(fields) > 0 && strings.HasPrefix(fields[0], "cpu"):
			cpus++
		}
	}
	return busy, cpus
}

// ownTime returns the processor time of this process and of its children that have ended.
func ownTime() (total time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var ru unix.Rusage
		if unix.Getrusage(who, &ru) == nil {
			total += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
	}
	return total
}
