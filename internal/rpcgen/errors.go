package rpcgen

import (
	"fmt"
	"slices"
	"strings"
)

// MaxErrors is the maximum number of errors that ErrorList.Error prints. The list itself has all
// errors.
const MaxErrors = 10

// Error is an error in a specification.
type Error struct {
	File      string
	Line, Col int    // both start at 1; columns count bytes
	Text      string // the line
	Msg       string
}

// Error returns the file, line, column and message, followed by the text of the line and a mark
// below the column.
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

// ErrorList has the errors of a specification, in the order of its lines.
type ErrorList []*Error

// Error returns the texts of the first MaxErrors errors.
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

// add records an error, unless the same line already has one, which may be the cause of this one.
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
