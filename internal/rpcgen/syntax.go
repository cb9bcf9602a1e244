package rpcgen

import (
	"go/constant"
	gotoken "go/token"
	"strings"
)

// kind is the kind of a type.
type kind int

const (
	kindInt kind = iota
	kindUint
	kindHyper
	kindUhyper
	kindFloat
	kindDouble
	kindQuadruple
	kindBool
	kindChar
	kindUchar
	kindShort
	kindUshort
	kindOpaque // only in a declaration
	kindString // likewise
	kindNamed
	kindVoid
)

// typeSpec is a type within a declaration.
type typeSpec struct {
	at   pos
	kind kind
	name string      // only of kindNamed: the name as written; empty if the type is declared here
	tag  string      // the word struct, enum or union before the name, if there is one
	def  *definition // only of kindNamed: set by the parser if the type is declared here, otherwise by the checker
}

// shape tells whether a declaration declares a single value of its type, an array and so on.
type shape int

const (
	plain    shape = iota
	fixed          // x[n]
	counted        // x<n>
	optional       // *x
)

// declaration gives a type to a name (RFC 4506 section 6.3).
type declaration struct {
	at    pos
	name  string
	doc   string
	typ   typeSpec
	shape shape
	size  *value // size of a fixed or bound of a counted declaration; nil: no bound

	goName string
}

// value is a number or the name of a number.
type value struct {
	at   pos
	text string
	char bool

	known constant.Value // set by the checker; nil if it could not
	def   *constantDef   // set by the checker if text is a name
}

// constantDef is const name = value, or a name of an enumeration.
type constantDef struct {
	at     pos
	name   string
	doc    string
	text   *value         // nil if a member of an enumeration has no value
	str    string         // only of const name = "text": the text with quotation marks
	enum   *definition    // the enumeration of which it is a member
	after  *constantDef   // the previous member, which determines the value if text is nil
	known  constant.Value // set by the checker
	state  int            // of the checker
	goName string
}

// definitionKind is the kind of a definition.
type definitionKind int

const (
	defTypedef definitionKind = iota
	defStruct
	defUnion
	defEnum
)

func (k definitionKind) String() string {
	return [...]string{"typedef", "struct", "union", "enum"}[k]
}

// definition is a type that has a name, or is declared within another.
type definition struct {
	at      pos
	kind    definitionKind
	name    string // as written, or composed of the names of the enclosing type and the member
	doc     string
	nested  bool
	whole   bool           // the whole definition has been parsed
	decl    *declaration   // of a typedef
	members []*declaration // of a struct
	enum    []*constantDef
	union   *unionBody

	goName string
	state  int   // of the checker
	least  int64 // size of the smallest encoding in bytes, set by the checker

	recursive bool // the type contains itself through an arm of a union; set by the checker
}

// String returns the kind of the definition, and its name if known.
func (def *definition) String() string {
	return strings.TrimSpace(def.kind.String() + " " + def.name)
}

// unionBody is the part of a union after the word switch.
type unionBody struct {
	disc     *declaration
	arms     []*arm
	fallback *arm // default, or nil
}

// arm is the part of a union that one or more cases select.
type arm struct {
	at    pos
	cases []*value
	decl  *declaration // nil is void
}

// program is program name { ... } = number (RFC 5531 section 12).
type program struct {
	at       pos
	name     string
	doc      string
	number   *value
	versions []*version

	goName string
}

type version struct {
	at         pos
	name       string
	doc        string
	number     *value
	procedures []*procedure

	goName string
}

type procedure struct {
	at     pos
	name   string
	doc    string
	number *value
	args   []*declaration
	result *declaration // nil is void

	goName     string // of the methods
	numberName string // of the constant
}

// specification is a whole file, with the files that it includes.
type specification struct {
	constants []*constantDef
	types     []*definition // nested types follow the enclosing type
	programs  []*program
	goLines   []string
}

// number returns the value of a decimal, hexadecimal or octal number, or nil.
func number(text string) constant.Value {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789abcdefABCDEFxX") != "" {
		return nil
	}
	if len(digits) > 1 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B') {
		return nil
	}
	v := constant.MakeFromLiteral(digits, gotoken.INT, 0)
	if v.Kind() != constant.Int || constant.BitLen(v) > 64 {
		return nil
	}
	if negative {
		v = constant.UnaryOp(gotoken.SUB, v, 0)
	}
	return v
}
