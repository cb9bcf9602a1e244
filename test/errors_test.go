package test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// TestErrorClasses: errors.Is finds the class of an error whatever package the error is from.
func TestErrorClasses(t *testing.T) {
	classes := map[error][]error{
		transport.ErrClosed:   {vipl.ErrClosed, mplite.ErrClosed, mplite.ErrFinalized, endpoint.ErrClosed, vmmc.ErrClosed, splitc.ErrClosed, vrpc.ErrClosed},
		transport.ErrTimeout:  {vipl.ErrTimeout, splitc.ErrWaited, vrpc.ErrTimeout},
		transport.ErrArgument: {vipl.ErrArgument, mplite.ErrArgument, endpoint.ErrArgument, endpoint.ErrNoEvents, vmmc.ErrArgument, splitc.ErrArgument},
		transport.ErrPeer: {vipl.ErrUnreachable, vipl.ErrDisconnected, vipl.ErrPeerReset, vipl.ErrProtocol, vipl.ErrPeerLink,
			job.ErrRankFailed, mplite.ErrRankFailed, vmmc.ErrPeer, stream.ErrPeer},
	}
	for class, members := range classes {
		for _, err := range members {
			for other := range classes {
				if got, want := errors.Is(err, other), other == class; got != want {
					t.Errorf("errors.Is(%q, %q) is %v, want %v", err, other, got, want)
				}
			}
		}
	}
}

// TestErrorNamesPackageOnce: the name of the package begins the message, and is not repeated
// before the class of the error.
func TestErrorNamesPackageOnce(t *testing.T) {
	_, err := vipl.Open(t.Context(), &vipl.Config{Driver: "tcp"})
	if err == nil || !errors.Is(err, vipl.ErrArgument) || !strings.HasPrefix(err.Error(), "vipl: ") || strings.Count(err.Error(), "vipl: ") != 1 {
		t.Errorf("Open with an unknown driver returns %v", err)
	}
}
