package rpcgen

import (
	"strconv"
	"strings"
)

// goSymbol is defined while a specification is read by this package.
const goSymbol = "RPC_GO"

// Limits of includes and macros.
const (
	maxIncludes  = 32     // files within files
	maxExpansion = 100000 // number of words from expanded macros
)

// conditional is an #if without its #endif so far.
type conditional struct {
	at     pos
	active bool // lines of the current branch are read
	done   bool // a branch of the #if has been active
	outer  bool // lines around the #if are read
	last   bool // after #else
	forGo  bool // the condition mentions goSymbol
}

// startLine advances to the next line that has tokens, and executes the preprocessor's lines on the
// way. It returns false at the end of the specification.
func (l *lexer) startLine() bool {
	for {
		if !l.fetch() {
			l.closeConditionals()
			if len(l.stack) == 1 {
				return false
			}
			l.stack = l.stack[:len(l.stack)-1]
			continue
		}
		switch trimmed := strings.TrimLeft(l.line, " \t"); {
		case strings.HasPrefix(trimmed, "#"):
			l.directive(trimmed[1:])
		case !l.reading():
			l.skipLine()
		case strings.HasPrefix(l.line, "%"):
			l.percent()
		default:
			return true
		}
	}
}

// closeConditionals reports the conditionals that are open at the end of a file.
func (l *lexer) closeConditionals() {
	for from := l.top().conds; len(l.conds) > from; {
		c := l.conds[len(l.conds)-1]
		l.conds = l.conds[:len(l.conds)-1]
		l.add(c.at, "the condition has no end: '#endif' is missing")
	}
}

func (l *lexer) reading() bool { return len(l.conds) == 0 || l.conds[len(l.conds)-1].active }

func (l *lexer) forGo() bool {
	for _, c := range l.conds {
		if c.forGo {
			return true
		}
	}
	return false
}

// skipLine skips a line in an inactive branch, and a comment that begins in it.
func (l *lexer) skipLine() {
	for {
		i := strings.Index(l.line[l.col:], "/*")
		if i < 0 {
			return
		}
		l.col += i
		l.blockComment()
	}
}

// percent processes a line that begins with % and the lines that continue it. They are copied to
// the output, or are meant for the output of the C rpcgen and skipped.
func (l *lexer) percent() {
	text := l.line[1:]
	for {
		if l.forGo() {
			l.goLines = append(l.goLines, text)
		}
		if !strings.HasSuffix(text, "\\") || !l.fetch() {
			return
		}
		text = l.line
	}
}

// directive executes a preprocessor's line. text follows the number sign.
func (l *lexer) directive(text string) {
	at := l.here(len(l.line) - len(text) - 1)
	for strings.HasSuffix(text, "\\") {
		text = strings.TrimSuffix(text, "\\") + " "
		if !l.fetch() {
			break
		}
		text += l.line
	}
	text = l.stripComments(text)
	if before, _, found := strings.Cut(text, "//"); found && !strings.Contains(before, `"`) {
		text = before
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(text, "\t", " ")), " ")
	rest = strings.TrimSpace(rest)
	if l.condition(at, name, rest) || !l.reading() {
		return
	}
	switch name {
	case "define":
		l.define(at, rest)
	case "undef":
		delete(l.macros, rest)
	case "include":
		l.includeFile(at, rest)
	case "error":
		l.add(at, "#error %s", rest)
	case "line":
		number, file, _ := strings.Cut(rest, " ")
		l.marker(at, number, file)
	case "", "pragma", "ident", "warning":
	default:
		if !isDigit(name[0]) {
			l.add(at, "the preprocessor has no #%s", name)
			return
		}
		l.marker(at, name, rest)
	}
}

// stripComments replaces comments by blanks. A comment may continue on the next lines.
func (l *lexer) stripComments(text string) string {
	for {
		before, after, found := strings.Cut(text, "/*")
		if !found {
			return text
		}
		_, end, closed := strings.Cut(after, "*/")
		for !closed {
			if !l.fetch() {
				return before
			}
			_, end, closed = strings.Cut(l.line, "*/")
		}
		text = before + " " + end
	}
}

// marker executes a line marker such as `# 12 "file.x"` of an earlier preprocessor. It gives the
// origin of the next line.
func (l *lexer) marker(at pos, number, file string) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		l.add(at, "%q is not a line number", number)
		return
	}
	in := l.top()
	in.shift = n - in.next - 1
	if parts := strings.Split(file, `"`); len(parts) >= 3 && parts[1] != "" {
		in.name = parts[1]
	}
}

// define defines a macro.
func (l *lexer) define(at pos, rest string) {
	n := word(rest)
	if n == 0 || isDigit(rest[0]) {
		l.add(at, "#define wants a name")
		return
	}
	name := rest[:n]
	if n < len(rest) && rest[n] == '(' {
		l.add(at, "%s has parameters: run the C preprocessor over the file before (cpp -P), or write it out", name)
		return
	}
	body, _ := l.words(at, rest[n:])
	l.macros[name] = body
}

// expand reports whether macros may still produce n more words.
func (l *lexer) expand(at pos, n int) bool {
	if l.expanded += n + 1; l.expanded > maxExpansion {
		l.add(at, "the macros of this file stand for more than %d words", maxExpansion)
		return false
	}
	return true
}

// words splits text into tokens that all have the same position.
func (l *lexer) words(at pos, text string) (list []token, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t\f\v")
		if text == "" {
			return list, true
		}
		kind, n := scan(text)
		if op := operator(text); kind == endToken || len(op) > 1 {
			if n = len(op); n == 0 {
				l.add(at, "the character %q has no meaning here", text[:1])
				return list, false
			}
			kind = punctToken
		}
		list = append(list, token{kind: kind, text: text[:n], at: at})
		text = text[n:]
	}
}

// includeFile reads another file before the next line.
func (l *lexer) includeFile(at pos, rest string) {
	if len(rest) < 3 || !(rest[0] == '"' && rest[len(rest)-1] == '"' || rest[0] == '<' && rest[len(rest)-1] == '>') {
		l.add(at, `#include wants "FILE" or <FILE>, found %s`, rest)
		return
	}
	name := rest[1 : len(rest)-1]
	switch {
	case l.include == nil:
		l.add(at, "%s cannot be included here: there are no files", name)
		return
	case len(l.stack) >= maxIncludes:
		l.add(at, "%d files within files: does %s include itself?", maxIncludes, name)
		return
	}
	path, text, err := l.include(l.top().name, name)
	if err != nil {
		l.add(at, "cannot include %s: %v", name, err)
		return
	}
	l.push(path, text)
}
