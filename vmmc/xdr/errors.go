package xdr

import (
	"errors"
	"fmt"
)

// The kinds of Error, for errors.Is.
var (
	// ErrShort: the message ends before the item does.
	ErrShort = errors.New("xdr: message too short")
	// ErrTooLong: an opaque, string or array is longer than its declaration allows.
	ErrTooLong = errors.New("xdr: longer than declared")
	// ErrValue: a number is not a bool, not in the enum, or selects no arm of the union.
	ErrValue = errors.New("xdr: value not declared")
	// errPadding: the bytes that fill up the last four of an item are not zero.
	errPadding = errors.New("xdr: padding not zero")
	// ErrDepth: optional data and arrays are nested more deeply than MaxDepth.
	ErrDepth = errors.New("xdr: nested too deeply")
	// errTrailing: bytes are left after the last item.
	errTrailing = errors.New("xdr: bytes after the last item")
	// ErrNil: a value that the declaration requires is nil.
	ErrNil = errors.New("xdr: nil value")
	// ErrCycle: a linked list links back to one of its own elements.
	ErrCycle = errors.New("xdr: endless list")
	// errFull: the encoding is longer than Encoder.MaxSize.
	errFull = errors.New("xdr: encoding too long")
)

// Error is the reason why an item could not be encoded or decoded.
type Error struct {
	Kind   error  // one of the errors of this package
	What   string // the item, as its declaration calls it: "string", "enum color"
	Offset int    // bytes of the message before the item, or before its padding if the padding is invalid
	Got    int64  // the length, value, bytes or depth found
	Limit  int64  // bytes left or allowed, the declared bound, or the greatest depth; otherwise 0
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func (e *Error) Error() string {
	at := fmt.Sprintf("xdr: %s at byte %d: ", e.What, e.Offset)
	switch e.Kind {
	case ErrShort:
		return at + fmt.Sprintf("needs %d bytes, has %d: the message is truncated, or a length in it is wrong", e.Got, e.Limit)
	case ErrTooLong:
		return at + fmt.Sprintf("length %d, but the declaration allows %d", e.Got, e.Limit)
	case ErrValue:
		return at + fmt.Sprintf("the declaration has no value %d", e.Got)
	case errPadding:
		return at + fmt.Sprintf("the padding is %#x, but must be zero (RFC 4506 section 4.9)", e.Got)
	case ErrDepth:
		return at + fmt.Sprintf("nested %d levels deep, the limit is %d (raise MaxDepth if the data are valid)", e.Got, e.Limit)
	case ErrNil:
		return at + "the pointer to it is nil, but this value is not optional"
	case ErrCycle:
		return at + "it links back to one of its own elements, so its encoding would not end"
	case errTrailing:
		return at + fmt.Sprintf("%d bytes are left: the peer may encode another type", e.Got)
	case errFull:
		return at + fmt.Sprintf("makes the encoding %d bytes long, the limit is %d (raise MaxSize or send less)", e.Got, e.Limit)
	}
	return at + e.Kind.Error()
}
