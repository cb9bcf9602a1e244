package stream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// ErrPeer is wrapped by the error of a stream whose other end has broken the rules: it has
// said that there are more data or credit than there can be, or greeted with what
// is no greeting. The connection is ended.
var ErrPeer = flow.ErrPeer

// opError returns err as what a call of the stream returns: a *net.OpError, whose Timeout
// says whether a deadline has passed.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: Network, Source: c.local, Addr: c.remote, Err: err}
}

// brokenBy returns why a stream ends whose VI has left the connected state because of err.
// What names the peer is in err.
func brokenBy(err error) error {
	switch {
	case errors.Is(err, ErrPeer), errors.Is(err, syscall.ECONNRESET):
		return err
	case err == nil:
		return syscall.ECONNRESET
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, err)
}

// errGone is what a write finds when the other end has been closed in order.
func errGone(err error) error { return fmt.Errorf("%w: %w", syscall.EPIPE, err) }

// waitError returns why a wait at the completion queue has failed.
func waitError(err error) error {
	switch {
	case errors.Is(err, vipl.ErrClosed):
		return net.ErrClosed
	case errors.Is(err, vipl.ErrTimeout):
		return os.ErrDeadlineExceeded
	}
	return err
}

// fault returns an ErrPeer with a text.
func fault(text string) error { return fmt.Errorf("%w: %s", ErrPeer, text) }
