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

// ErrPeer is wrapped by the error of a stream whose other end has violated the protocol: it
// announced impossible amounts of data or credit, or sent an invalid greeting. The connection has
// ended.
var ErrPeer = flow.ErrPeer

// opError wraps err for a call of the stream in a *net.OpError, whose Timeout reports whether a
// deadline has passed.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: Network, Source: c.local, Addr: c.remote, Err: err}
}

// brokenBy returns the error of a stream whose VI has left the connected state because of err. err
// names the peer.
func brokenBy(err error) error {
	switch {
	case errors.Is(err, ErrPeer), errors.Is(err, syscall.ECONNRESET):
		return err
	case err == nil:
		return syscall.ECONNRESET
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, err)
}

// errGone is the error of a write after the other end has closed the stream.
func errGone(err error) error { return fmt.Errorf("%w: %w", syscall.EPIPE, err) }

// waitError returns the error of a failed wait at the completion queue.
func waitError(err error) error {
	switch {
	case errors.Is(err, vipl.ErrClosed):
		return net.ErrClosed
	case errors.Is(err, vipl.ErrTimeout):
		return os.ErrDeadlineExceeded
	}
	return err
}

// fault returns an ErrPeer with the given text.
func fault(text string) error { return fmt.Errorf("%w: %s", ErrPeer, text) }
