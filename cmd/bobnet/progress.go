package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
)

// progressWidth is the length of a bar, in characters.
const progressWidth = 30

// plainInterval is the time between two lines of progress where w is no terminal.
const plainInterval = 3 * time.Second

// progress shows how far a long task is: a bar that is redrawn on a terminal, and
// a line every few seconds elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	every    time.Duration // between plain lines
	last     time.Time     // when the last plain line was printed
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: lab.IsTerminal(w), every: plainInterval, last: time.Now()}
}

// step shows that done of total steps are done, and what the last one was.
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
		fmt.Fprintf(p.w, "bobnet: %d of %d", done, total)
		if text != "" {
			fmt.Fprintf(p.w, ": %s", text)
		}
		fmt.Fprintln(p.w)
	}
}

// sample is a perf.Progress.
func (p *progress) sample(done, total int, last perf.Case) { p.step(done, total, last) }

// end removes the bar.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
