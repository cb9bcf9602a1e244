package rpcgen

import (
	"strings"
)

// tokenKind is the kind of a token. Keywords are identifiers that the parser knows.
type tokenKind int

const (
	endToken tokenKind = iota
	identToken
	numberToken // text that begins with a digit, or a minus and a digit
	stringToken // text with the quotation marks
	charToken   // likewise
	punctToken
)

// token is a word of a specification.
type token struct {
	kind tokenKind
	text string
	at   pos
	doc  string          // the comment that ends on the line before
	hide map[string]bool // macros that have produced the token, which are not expanded in it again
}

func (t token) String() string {
	if t.kind == endToken {
		return "the end of the file"
	}
	return "'" + t.text + "'"
}

// input is a file that is being read.
type input struct {
	name  string
	lines []string
	next  int // index of the line after the current one
	shift int // difference between the file's and the reported line numbers, set by a line marker
	conds int // number of open conditionals at the file's beginning
}

// lexer divides a specification and the files that it includes into tokens.
type lexer struct {
	*faults
	include func(from, name string) (path string, text []byte, err error)

	stack    []*input // the innermost file last
	line     string   // the current one
	col      int      // bytes of the line that have been read
	isLine   bool     // whether there is a current line
	macros   map[string][]token
	conds    []conditional
	pending  []token // words from expanded macros, in reverse order
	expanded int     // number of words from expanded macros so far

	comment    string // the last one
	commentEnd int    // its last line
	last       int    // the line of the last token
	goLines    []string
}

func newLexer(f *faults, name string, src []byte) *lexer {
	l := &lexer{faults: f, macros: map[string][]token{}}
	l.push(name, src)
	return l
}

func (l *lexer) push(name string, src []byte) {
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	l.stack = append(l.stack, &input{name: name, lines: strings.Split(text, "\n"), conds: len(l.conds)})
	l.comment, l.last = "", 0
}

func (l *lexer) top() *input { return l.stack[len(l.stack)-1] }

// here returns the position of the byte with index col in the current line.
func (l *lexer) here(col int) pos {
	in := l.top()
	return pos{file: in.name, line: in.next + in.shift, col: col + 1, text: l.line}
}

// fetch makes the next line of the innermost file the current one.
func (l *lexer) fetch() bool {
	in := l.top()
	if in.next == len(in.lines) {
		l.isLine = false
		return false
	}
	l.line, l.col, l.isLine = in.lines[in.next], 0, true
	in.next++
	return true
}

// next returns the next token after the expansion of macros.
func (l *lexer) next() token {
	for {
		t := l.raw()
		body, ok := l.macros[t.text]
		if t.kind != identToken || !ok || t.hide[t.text] {
			return t
		}
		hide := map[string]bool{t.text: true}
		for name := range t.hide {
			hide[name] = true
		}
		// A macro is not expanded within itself, so that the expansion ends. But a few macros that
		// double each other could still produce too many words.
		if !l.expand(t.at, len(body)) {
			l.pending = nil
			continue
		}
		for i := len(body) - 1; i >= 0; i-- {
			word := body[i]
			word.at, word.doc, word.hide = t.at, t.doc, hide
			l.pending = append(l.pending, word)
		}
	}
}

// raw returns the next token before the expansion of macros.
func (l *lexer) raw() token {
	if n := len(l.pending); n > 0 {
		t := l.pending[n-1]
		l.pending = l.pending[:n-1]
		return t
	}
	for {
		if !l.isLine && !l.startLine() {
			return token{kind: endToken, at: l.here(len(l.line))}
		}
		if t, ok := l.scanLine(); ok {
			return t
		}
		l.isLine = false
	}
}

// scanLine returns the next token of the current line, if there is one.
func (l *lexer) scanLine() (token, bool) {
	for l.isLine {
		rest := l.line[l.col:]
		blank := len(rest) - len(strings.TrimLeft(rest, " \t\f\v"))
		l.col += blank
		switch rest = rest[blank:]; {
		case rest == "":
			return token{}, false
		case strings.HasPrefix(rest, "//"):
			l.remember(l.here(0).line, strings.TrimPrefix(rest, "//"))
			return token{}, false
		case strings.HasPrefix(rest, "/*"):
			l.blockComment()
			continue
		}
		kind, n := scan(rest)
		t := token{kind: kind, text: rest[:n], at: l.here(l.col)}
		l.col += n
		if n == 1 && kind == endToken {
			l.add(t.at, "the character %q has no meaning here", rest[:1])
			continue
		}
		if l.comment != "" && l.commentEnd == t.at.line-1 {
			t.doc = l.comment
		}
		l.comment, l.last = "", t.at.line
		return t, true
	}
	return token{}, false
}

// blockComment skips the comment that begins at the current column.
func (l *lexer) blockComment() {
	start := l.here(l.col)
	l.col += 2
	var text []string
	for {
		if before, _, found := strings.Cut(l.line[l.col:], "*/"); found {
			l.col += len(before) + 2
			l.remember(start.line, strings.Join(append(text, before), "\n"))
			return
		}
		text = append(text, l.line[l.col:])
		if !l.fetch() {
			l.add(start, "the comment has no end: '*/' is missing")
			l.col, l.isLine = len(l.line), false
			return
		}
	}
}

// remember stores a comment. If the comment continues the previous one, it stores both. A comment
// that follows a token on its line does not belong to the next line.
func (l *lexer) remember(start int, text string) {
	switch {
	case start == l.last:
		l.comment = ""
		return
	case l.comment != "" && l.commentEnd == start-1:
		l.comment += "\n" + text
	default:
		l.comment = text
	}
	l.commentEnd = l.here(0).line
}

// scan returns the kind and length of the token at the beginning of text, or endToken if there is
// none.
func scan(text string) (tokenKind, int) {
	c := text[0]
	switch {
	case isLetter(c):
		return identToken, word(text)
	case isDigit(c), c == '-' && len(text) > 1 && isDigit(text[1]):
		return numberToken, 1 + word(text[1:])
	case c == '"' || c == '\'':
		return quoted(text)
	case strings.IndexByte("{}()[]<>*=,;:", c) >= 0:
		return punctToken, 1
	}
	return endToken, 1
}

func word(text string) int {
	for i := range len(text) {
		if !isLetter(text[i]) && !isDigit(text[i]) {
			return i
		}
	}
	return len(text)
}

// quoted returns the kind and length of a quoted text. A quotation mark in the text may be escaped.
func quoted(text string) (tokenKind, int) {
	kind := stringToken
	if text[0] == '\'' {
		kind = charToken
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return kind, i + 1
		}
	}
	return endToken, 1
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
