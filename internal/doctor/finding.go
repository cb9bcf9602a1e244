package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Level is the severity of a finding.
type Level int

// The levels, from good to bad.
const (
	OK   Level = iota // no problem
	Note              // works, but could be better
	Warn              // works, at a cost that a user will notice
	Fail              // does not work
)

var levelNames = [...]string{"ok", "note", "warn", "fail"}

// String returns the level's name.
func (l Level) String() string { return levelNames[l] }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is the result of one check.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`           // subject of the check, in one or two words
	Found string `json:"found"`           // state of the subject
	Means string `json:"means,omitempty"` // consequence
	Fix   string `json:"fix,omitempty"`   // commands that fix the problem or show more, one per line
	Paths []Path `json:"paths,omitempty"` // between hosts, in order
}

// Path is the result of sending frames from one host to another and back.
type Path struct {
	From  string        `json:"from"`
	To    string        `json:"to"`
	Small time.Duration `json:"small_ns"` // round trip of short frames; 0: none came back
	Full  time.Duration `json:"full_ns"`  // of frames as long as both MTUs allow; 0: none came back
	MTU   int           `json:"mtu"`      // the largest that passes; 0: none, or not measured
	Long  bool          `json:"long"`     // long frames, beyond the MTU, pass,
	Cut   bool          `json:"cut"`      // in segments
}

// Worst returns the worst level among findings, OK if there are none.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Write prints findings as text: one line each, followed by the consequence and the commands of the
// fix.
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
