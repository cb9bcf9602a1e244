package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"strings"
)

// condition executes a line that begins, switches or ends a conditional, and reports whether it was
// such a line.
func (l *lexer) condition(at pos, name, rest string) bool {
	switch name {
	case "if", "ifdef", "ifndef":
		c := conditional{at: at, outer: l.reading()}
		if c.outer {
			c.active = l.holds(at, name, rest)
			c.forGo = mentions(rest, goSymbol)
		}
		c.done = c.active
		l.conds = append(l.conds, c)
		return true
	case "elif", "else", "endif":
	default:
		return false
	}
	if len(l.conds) == l.top().conds {
		l.add(at, "#%s without #if", name)
		return true
	}
	c := &l.conds[len(l.conds)-1]
	switch {
	case name == "endif":
		l.conds = l.conds[:len(l.conds)-1]
	case c.last:
		l.add(at, "#%s after #else", name)
	case name == "else":
		c.active, c.last = c.outer && !c.done, true
		c.done = true
	default:
		c.active = c.outer && !c.done && l.holds(at, "if", rest)
		c.done = c.done || c.active
		c.forGo = c.forGo || mentions(rest, goSymbol)
	}
	return true
}

// mentions reports whether the name is a word of text.
func mentions(text, name string) bool {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r > 0x7f || !isLetter(byte(r)) && !isDigit(byte(r)) }) {
		if w == name {
			return true
		}
	}
	return false
}

func (l *lexer) holds(at pos, name, rest string) bool {
	if name == "if" {
		return l.evaluate(at, rest)
	}
	if n := word(rest); n == 0 {
		l.add(at, "#%s wants a name", name)
		return false
	}
	_, defined := l.macros[rest[:word(rest)]]
	return defined == (name == "ifdef")
}

// precedences of the operators between two numbers, as in C.
var precedences = []struct {
	level int
	ops   []string
}{
	{1, []string{"||"}}, {2, []string{"&&"}}, {3, []string{"|"}}, {4, []string{"^"}},
	{6, []string{"==", "!="}}, {7, []string{"<=", ">="}}, {8, []string{"<<", ">>"}},
	{5, []string{"&"}}, {7, []string{"<", ">"}},
	{9, []string{"+", "-"}}, {10, []string{"*", "/", "%"}}, {0, []string{"!", "~"}},
}

// operator returns the operator that text begins with.
func operator(text string) string {
	for _, p := range precedences {
		for _, op := range p.ops {
			if strings.HasPrefix(text, op) {
				return op
			}
		}
	}
	return ""
}

func level(op string) int {
	for _, p := range precedences {
		for _, o := range p.ops {
			if o == op {
				return p.level
			}
		}
	}
	return 0
}

// evaluator computes the value of a condition.
type evaluator struct {
	*lexer
	at    pos
	words []token
	depth int
	idle  int // depth of enclosing operands that are parsed but not computed, because the operand before && or || decides
	bad   bool
}

// maxParentheses is the maximum depth of a condition.
const maxParentheses = 100

// evaluate reports whether the expression is not 0.
func (l *lexer) evaluate(at pos, text string) bool {
	words, ok := l.words(at, text)
	if !ok {
		return false
	}
	e := &evaluator{lexer: l, at: at, words: words}
	v := e.binary(1)
	if !e.bad && len(e.words) > 0 {
		e.fault("%s is not expected", e.words[0])
	}
	return !e.bad && constant.Sign(v) != 0
}

func (e *evaluator) fault(format string, args ...any) {
	e.bad, e.words = true, nil
	e.add(e.at, "in the condition: "+format, args...)
}

func (e *evaluator) nextToken() token {
	if len(e.words) == 0 {
		return token{}
	}
	t := e.words[0]
	e.words = e.words[1:]
	return t
}

// binary computes an expression with operators of the precedence least and higher.
func (e *evaluator) binary(least int) constant.Value {
	x := e.unary()
	for len(e.words) > 0 {
		op, negative := e.words[0].text, e.words[0].kind == numberToken && e.words[0].text[0] == '-'
		if negative { // 2 -1: the minus is part of the number
			op = "+"
		}
		if level(op) < least || level(op) == 0 {
			break
		}
		if !negative {
			e.nextToken()
		}
		decided := op == "&&" && constant.Sign(x) == 0 || op == "||" && constant.Sign(x) != 0
		if decided {
			e.idle++
		}
		y := e.binary(level(op) + 1)
		if decided {
			e.idle--
		}
		x = e.apply(op, x, y)
	}
	return x
}

func truth(b bool) constant.Value {
	if b {
		return constant.MakeInt64(1)
	}
	return constant.MakeInt64(0)
}

func (e *evaluator) apply(op string, x, y constant.Value) constant.Value {
	if e.bad || e.idle > 0 {
		return truth(false)
	}
	compare := map[string]gotoken.Token{"==": gotoken.EQL, "!=": gotoken.NEQ, "<": gotoken.LSS, "<=": gotoken.LEQ, ">": gotoken.GTR, ">=": gotoken.GEQ}
	compute := map[string]gotoken.Token{"+": gotoken.ADD, "-": gotoken.SUB, "*": gotoken.MUL, "/": gotoken.QUO_ASSIGN, "%": gotoken.REM, "|": gotoken.OR, "&": gotoken.AND, "^": gotoken.XOR}
	switch {
	case op == "||":
		return truth(constant.Sign(x) != 0 || constant.Sign(y) != 0)
	case op == "&&":
		return truth(constant.Sign(x) != 0 && constant.Sign(y) != 0)
	case compare[op] != 0:
		return truth(constant.Compare(x, compare[op], y))
	case op == "<<" || op == ">>":
		n, ok := constant.Uint64Val(y)
		if !ok || n > 63 {
			e.fault("a number cannot be shifted by %v", y)
			return truth(false)
		}
		shift := map[string]gotoken.Token{"<<": gotoken.SHL, ">>": gotoken.SHR}
		return e.bounded(constant.Shift(x, shift[op], uint(n)))
	case (op == "/" || op == "%") && constant.Sign(y) == 0:
		e.fault("division by zero")
		return truth(false)
	}
	return e.bounded(constant.BinaryOp(x, compute[op], y))
}

// bounded reports an error for a number with more than 64 bits.
func (e *evaluator) bounded(x constant.Value) constant.Value {
	if constant.BitLen(x) > 64 {
		e.fault("the number %v is too large", x)
		return truth(false)
	}
	return x
}

func (e *evaluator) unary() constant.Value {
	e.depth++
	defer func() { e.depth-- }()
	if e.depth > maxParentheses {
		e.fault("more than %d parentheses and signs within each other", maxParentheses)
	}
	t := e.nextToken()
	switch {
	case e.bad:
	case t.kind == numberToken:
		if v := number(t.text); v != nil {
			return e.bounded(v)
		}
		e.fault("%s is not a number", t)
	case t.kind == identToken && t.text == "defined":
		return e.defined()
	case t.kind == identToken:
		return e.macro(t)
	case t.text == "!":
		return truth(constant.Sign(e.unary()) == 0)
	case t.text == "-" || t.text == "+" || t.text == "~":
		op := map[string]gotoken.Token{"-": gotoken.SUB, "+": gotoken.ADD, "~": gotoken.XOR}
		return constant.UnaryOp(op[t.text], e.unary(), 0)
	case t.text == "(":
		v := e.binary(1)
		if !e.bad && e.nextToken().text != ")" {
			e.fault("')' is missing")
		}
		return v
	default:
		e.fault("a number or name is missing")
	}
	return truth(false)
}

func (e *evaluator) defined() constant.Value {
	t := e.nextToken()
	if t.text == "(" {
		t = e.nextToken()
		if e.nextToken().text != ")" {
			t.kind = endToken
		}
	}
	if t.kind != identToken {
		e.fault("defined wants a name")
		return truth(false)
	}
	_, ok := e.macros[t.text]
	return truth(ok)
}

// macro evaluates the value of a macro. Other names are 0.
func (e *evaluator) macro(t token) constant.Value {
	body, ok := e.macros[t.text]
	if !ok {
		return truth(false)
	}
	if !e.expand(e.at, len(body)) {
		e.bad, e.words = true, nil
		return truth(false)
	}
	inner := &evaluator{lexer: e.lexer, at: e.at, words: body, depth: e.depth, idle: e.idle}
	v := inner.binary(1)
	if !inner.bad && len(inner.words) > 0 {
		inner.fault("%s is not an expression", t)
	}
	e.bad = e.bad || inner.bad
	return v
}
