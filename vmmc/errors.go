package vmmc

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Error classes for errors.Is. The errors of this package wrap these, with details.
var (
	ErrArgument       = errclass.New(transport.ErrArgument, "vmmc: an argument is not allowed")
	ErrExists         = errors.New("vmmc: the export already exists")
	errOverlap        = errors.New("vmmc: the buffer overlaps an exported one")
	ErrProxy          = errors.New("vmmc: not an address of an import")
	ErrDenied         = errors.New("vmmc: the exporter refuses the import")
	ErrUnexported     = errors.New("vmmc: the buffer is no longer exported")
	errUnimported     = errors.New("vmmc: the import was given up")
	ErrPeer           = errclass.New(transport.ErrPeer, "vmmc: the other process has ended or does not answer")
	ErrFull           = errors.New("vmmc: too many sends in progress")
	ErrBusy           = errors.New("vmmc: send in progress")
	ErrNotInHandler   = errors.New("vmmc: a handler cannot undo the block that it runs under") // SBL_ENotInHandler
	errNotBlocked     = errors.New("vmmc: notifications are not blocked")
	ErrPending        = errors.New("vmmc: the import is not complete")
	ErrClosed         = errclass.New(transport.ErrClosed, "vmmc: the process is closed")
	ErrDaemon         = errors.New("vmmc: the daemon of the node cannot be used")
	ErrTaken          = errors.New("vmmc: process number in use on this node")
	ErrNoConnectivity = errors.New("vmmc: no route to the exporter")
	ErrNoRoom         = errors.New("vmmc: the card has no room for it")
)

// typed returns an error of the provider as one of this package.
func typed(err error) error {
	for _, x := range []struct{ from, to error }{
		{provider.ErrRevoked, ErrUnexported}, {provider.ErrReleased, errUnimported}, {provider.ErrPeer, ErrPeer},
		{provider.ErrNoRoom, ErrNoRoom}, {hardware.ErrSRAM, ErrNoRoom}, {provider.ErrMemory, ErrArgument},
		{provider.ErrFull, ErrFull}, {provider.ErrClosed, ErrClosed},
		{directory.ErrNone, ErrDaemon}, {directory.ErrUser, ErrDaemon}, {directory.ErrVersion, ErrDaemon}, {directory.ErrTaken, ErrTaken},
	} {
		if errors.Is(err, x.from) {
			return fmt.Errorf("%w (%w)", x.to, err)
		}
	}
	return err
}
