package provider

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// Errors that both a node and its providers return. Package endpoint documents them.
var (
	ErrArgument = errclass.New(transport.ErrArgument, "endpoint: invalid parameter")
	ErrResource = errors.New("endpoint: out of resources")
	ErrClosed   = errclass.New(transport.ErrClosed, "endpoint: closed")
)

// OpError returns an error that wraps code and names the failed operation and the cause.
func OpError(op string, code error, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", code, op, fmt.Sprintf(format, args...))
}
