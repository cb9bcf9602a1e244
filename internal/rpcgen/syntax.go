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
	kindOpaque // of a declaration only
	kindString // likewise
	kindNamed
	kindVoid
)

// typeSpec is a type within a declaration.
type typeSpec struct {
	at   pos
	kind kind
	name string      // of kindNamed, as written; empty if it is declared here
	tag  string      // struct, enum or union if that stands before the name
	def  *definition // of kindNamed, set at once where it is declared here, else by the checker
}

// shape is what a declaration makes of its type: a value, an array and so on.
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
	size  *value // of fixed and counted; nil where there is no bound

	goName string
}

// value is a number, or the name of one.
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
	text   *value         // nil of an enumeration's member that has none
	str    string         // of const name = "text", with quotation marks
	enum   *definition    // whose member it is
	after  *constantDef   // the member before, which counts if text is nil
	known  constant.Value // set by the checker
	state  int            // of the checker
	goName string
}

// definitionKind is what defines a type.
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
	name    string // as written, or made of the names of the enclosing type and of its member
	doc     string
	nested  bool
	whole   bool           // whether all of it could be parsed
	decl    *declaration   // of a typedef
	members []*declaration // of a struct
	enum    []*constantDef
	union   *unionBody

	goName string
	state  int   // of the checker
	least  int64 // bytes of the smallest encoding, set by the checker

	recursive bool // whether it contains itself through an arm of a union, set by the checker
}

// String returns the kind of the definition, and its name if known.
func (def *definition) String() string {
	return strings.TrimSpace(def.kind.String() + " " + def.name)
}

// unionBody is what follows the word switch.
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
