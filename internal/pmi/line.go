package pmi

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// MaxLine is the longest line, in bytes with its newline (PMIU_MAXLINE of MPICH).
const MaxLine = 1024

// The limits of a Server, in bytes. They equal hydra's limits.
const (
	MaxName  = 256 // maximum length of the name of a key-value space
	MaxKey   = 64
	MaxValue = 1024
)

// Line is one message: a command, and the other words in the order in which they are sent.
type Line struct {
	Cmd   string
	Words []Word
}

// Word is a key and its value.
type Word struct{ Key, Value string }

// ErrLine is wrapped by the errors for invalid lines.
var ErrLine = errors.New("pmi: invalid PMI-1 line")

// Parse parses a line without its newline. text may contain any bytes. Spaces separate words. A
// backslash escapes a space or a backslash within a value.
func Parse(text []byte) (Line, error) {
	var l Line
	if len(text) >= MaxLine {
		return l, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrLine, len(text), MaxLine-1)
	}
	for len(text) > 0 {
		if text[0] == ' ' {
			text = text[1:]
			continue
		}
		word, rest, err := cut(text)
		if err != nil {
			return Line{}, err
		}
		text = rest
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || key == "":
			return Line{}, fmt.Errorf("%w: %q has no key and value", ErrLine, word)
		case l.Cmd == "" && key != "cmd":
			return Line{}, fmt.Errorf("%w: it begins with %q, not with cmd=", ErrLine, word)
		case l.Cmd == "" && value == "":
			return Line{}, fmt.Errorf("%w: its command is empty", ErrLine)
		case l.Cmd == "":
			l.Cmd = value
			continue
		}
		if _, twice := l.Lookup(key); twice || key == "cmd" {
			return Line{}, fmt.Errorf("%w: it has the key %q twice", ErrLine, key)
		}
		l.Words = append(l.Words, Word{key, value})
	}
	if l.Cmd == "" {
		return Line{}, fmt.Errorf("%w: it is empty", ErrLine)
	}
	return l, nil
}

// cut splits text after the first word, and returns the word without its escapes.
func cut(text []byte) (word string, rest []byte, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\\'):
			i++
			c = text[i]
		case c < ' ' || c > '~':
			return "", nil, fmt.Errorf("%w: byte %#x is not printable", ErrLine, c)
		}
		b.WriteByte(c)
	}
	return b.String(), nil, nil
}

// NewLine returns a line with a command. words alternates keys and values.
func NewLine(cmd string, words ...string) Line {
	l := Line{Cmd: cmd}
	for i := 0; i+1 < len(words); i += 2 {
		l.Words = append(l.Words, Word{words[i], words[i+1]})
	}
	return l
}

// Lookup returns the value of a key.
func (l *Line) Lookup(key string) (value string, ok bool) {
	for _, w := range l.Words {
		if w.Key == key {
			return w.Value, true
		}
	}
	return "", false
}

// Value returns the value of a key, or "" if the line does not have the key.
func (l *Line) Value(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// String returns the line as it is sent, without its newline.
func (l *Line) String() string {
	var b strings.Builder
	b.WriteString("cmd=" + escape(l.Cmd))
	for _, w := range l.Words {
		b.WriteString(" " + w.Key + "=" + escape(w.Value))
	}
	return b.String()
}

var escape = strings.NewReplacer(`\`, `\\`, ` `, `\ `).Replace

// lines reads and writes lines over a connection. After a deadline has expired, read keeps the part
// of a line that has arrived, so the next read continues there.
type lines struct {
	conn net.Conn
	in   []byte // received bytes that read has not returned yet
}

// read returns the next line.
func (l *lines) read() (Line, error) {
	for {
		for i, c := range l.in {
			if c == '\n' {
				line, err := Parse(l.in[:i])
				l.in = append(l.in[:0], l.in[i+1:]...)
				return line, err
			}
		}
		if len(l.in) >= MaxLine {
			return Line{}, fmt.Errorf("%w: no end of line after %d bytes", ErrLine, len(l.in))
		}
		var b [MaxLine]byte
		n, err := l.conn.Read(b[:MaxLine-len(l.in)])
		l.in = append(l.in, b[:n]...)
		if n == 0 && err != nil {
			return Line{}, err
		}
	}
}

// write sends a line. It returns an error that wraps ErrLine if the line is too long or contains a
// byte that a line must not contain.
func (l *lines) write(line Line) error {
	text := line.String()
	if _, err := Parse([]byte(text)); err != nil {
		return err
	}
	_, err := l.conn.Write([]byte(text + "\n"))
	return err
}
