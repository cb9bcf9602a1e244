package rpcgen

import (
	"fmt"
	"slices"
	"strings"
)

// MaxErrors is how many errors an ErrorList prints. All are in it.
const MaxErrors = 10

// Error is a fault of a specification.
type Error struct {
	File      string
	Line, Col int    // from 1; a column is a byte
	Text      string // the line
	Msg       string
}

// Error returns file, line, column and message, then the line, and a mark below the column.
func (e *Error) Error() string {
	head := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
	if strings.TrimSpace(e.Text) == "" {
		return head
	}
	indent := []byte(e.Text[:min(max(e.Col-1, 0), len(e.Text))])
	for i, c := range indent {
		if c != '\t' {
			indent[i] = ' '
		}
	}
	return fmt.Sprintf("%s\n\t%s\n\t%s^", head, e.Text, indent)
}

// ErrorList is the errors of a specification, in the order of its lines.
type ErrorList []*Error

// Error returns the first MaxErrors of them, one after the other.
func (l ErrorList) Error() string {
	var b strings.Builder
	for i, e := range l {
		if i == MaxErrors {
			fmt.Fprintf(&b, "\nand %d more errors", len(l)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// pos is a place in a specification.
type pos struct {
	file      string
	line, col int
	text      string
}

// faults collects errors.
type faults struct {
	list  ErrorList
	lines map[line]bool // with an error
}

type line struct {
	file   string
	number int
}

// add records an error, unless one is known of the same line: what follows from a
// fault would hide the next one.
func (f *faults) add(at pos, format string, args ...any) {
	if f.lines[line{at.file, at.line}] {
		return
	}
	if f.lines == nil {
		f.lines = map[line]bool{}
	}
	f.lines[line{at.file, at.line}] = true
	f.list = append(f.list, &Error{at.file, at.line, at.col, at.text, fmt.Sprintf(format, args...)})
}

// err returns the errors, in order, or nil.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b *Error) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return f.list
}
