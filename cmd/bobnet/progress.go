package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
)

// progressWidth is the length of a bar, in characters.
const progressWidth = 30

// progress is a line on a terminal that says how far something is. On
// anything else it says nothing.
type progress struct {
	w  io.Writer
	on bool
}

func newProgress(w io.Writer) *progress { return &progress{w: w, on: lab.IsTerminal(w)} }

// step shows that done of total are done, and what.
func (p *progress) step(done, total int, what ...any) {
	if !p.on {
		return
	}
	full := progressWidth * done / max(total, 1)
	bar := strings.Repeat("#", full) + strings.Repeat(".", progressWidth-full)
	fmt.Fprintf(p.w, "\r\x1b[K[%s] %s", bar, fmt.Sprint(what...))
}

// sample is a perf.Progress.
func (p *progress) sample(done, total int, last perf.Case) { p.step(done, total, last) }

// end removes the line.
func (p *progress) end() {
	if p.on {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
