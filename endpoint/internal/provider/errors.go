package provider

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/transport"
)

// The errors of a node that its providers return, too. Package endpoint documents them.
var (
	ErrArgument = errclass.New(transport.ErrArgument, "endpoint: invalid parameter")
	ErrResource = errors.New("endpoint: out of a resource")
	ErrClosed   = errclass.New(transport.ErrClosed, "endpoint: closed")
)

// OpError returns an error that wraps code and says which operation failed, and why.
func OpError(op string, code error, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", code, op, fmt.Sprintf(format, args...))
}
