package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Level says how bad a finding is.
type Level int

// The levels, from good to bad.
const (
	OK   Level = iota // as it should be
	Note              // works; could be better, or is good to know
	Warn              // works, with a price that a user will notice
	Fail              // does not work
)

var levelNames = [...]string{"ok", "note", "warn", "fail"}

// String returns the level's name.
func (l Level) String() string { return levelNames[l] }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one thing that was looked at.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`           // what was looked at, a word or two
	Found string `json:"found"`           // how it is
	Means string `json:"means,omitempty"` // what follows from it
	Fix   string `json:"fix,omitempty"`   // what changes it, or shows more: a command, or several, one per line
	Paths []Path `json:"paths,omitempty"` // between hosts, in order
}

// Path is what came of sending frames from one host to another and back.
type Path struct {
	From  string        `json:"from"`
	To    string        `json:"to"`
	Small time.Duration `json:"small_ns"` // round trip of short frames; 0: none came back
	Full  time.Duration `json:"full_ns"`  // of frames as long as both MTUs allow; 0: none came back
	MTU   int           `json:"mtu"`      // the largest that passes; 0: none, or not measured
	Long  bool          `json:"long"`     // long frames, beyond the MTU, pass
}

// Worst returns the worst level among findings, OK if there are none.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Write prints findings for people: a line for each, and below it what it
// means and the commands of its fix.
func Write(w io.Writer, findings []Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	var b strings.Builder
	for _, f := range findings {
		indent := "\n" + strings.Repeat(" ", 6+width+2)
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", f.Level, width, f.Check, strings.ReplaceAll(f.Found, "\n", indent))
		if f.Means != "" {
			fmt.Fprintf(&b, "%s%s\n", indent[1:], strings.ReplaceAll(f.Means, "\n", indent))
		}
		for fix := range strings.Lines(f.Fix) {
			fmt.Fprintf(&b, "%s$ %s\n", indent[1:], strings.TrimSuffix(fix, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
