// Package links opens the link of a NIC: a driver's link, with sockets of the node's agent if this
// process may not open packet sockets. The link is wrapped as requested, with injected faults,
// encryption if there is a key, and shared memory to other stations of this host. The package knows
// no VIs; package vipl documents its settings.
package links

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// Config configures the link. All fields except Faults are those of vipl.Config with the same
// names, with values of the environment filled in.
type Config struct {
	Interface string
	EtherType ethernet.EtherType
	Ports     transport.PortRange
	Driver    string
	Peers     []netip.Addr
	XDP, Long ring.Choice
	Link      transport.Link
	WireOnly  bool
	AnyUser   bool
	Wrap      func(transport.Link) transport.Link
	Key       seal.Source
	Seed      uint64
	Logger    *slog.Logger
	Faults    fault.Options // of a link that is opened here
}

// Open opens the link that cfg selects. It wraps the link as cfg requests and encrypts it if there is a key. It then
// adds the path to other stations of this host, which is not encrypted. If it fails, it closes cfg.Link.
//
// Ports are claimed twice: at the interface, and within the host with names that any program may take first, even if
// this process is root. If another process has the name of ports that are free at the interface, and the caller has
// not selected ports, the NIC uses the next block.
//
// ctx bounds the call alone. If it ends, the error wraps the context's error.
func Open(ctx context.Context, cfg *Config) (transport.Link, error) {
	seals, err := sealsOf(cfg)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		if cfg.Link != nil {
			cfg.Link.Close()
		}
		return nil, err
	}
	if cfg.Link != nil {
		link, err := join(ctx, cfg.Link, cfg, seals.wrap, givenPatience)
		if err != nil {
			cfg.Link.Close()
		}
		return seals.result(link, err)
	}
	wrap := func(link transport.Link) transport.Link {
		if cfg.Wrap != nil {
			link = cfg.Wrap(link)
		}
		return seals.wrap(withFaults(link, cfg.Faults))
	}
	return seals.result(openWrapped(ctx, cfg, wrap))
}

// ended returns the error of an Open whose ctx has ended.
func ended(ctx context.Context) error {
	return code.Within("open NIC", fmt.Errorf("%w: %w", code.ErrTimeout, ctx.Err()))
}

// openWrapped is Open for a link that this package opens.
func openWrapped(ctx context.Context, cfg *Config, wrap func(transport.Link) transport.Link) (transport.Link, error) {
	try := *cfg
	free := cfg.Ports == (transport.PortRange{})
	patience := givenPatience
	if free {
		patience = freePatience
	}
	link, err := openJoined(ctx, &try, wrap, patience)
	for first := err; errors.Is(err, unix.EADDRINUSE) && free; link, err = openJoined(ctx, &try, wrap, 0) {
		if try.Ports.Hi == math.MaxUint16 {
			return nil, first
		}
		try.Ports = transport.PortRange{Lo: max(try.Ports.Hi+1, portBlock), Hi: max(try.Ports.Hi, portBlock-1) + portBlock}
	}
	return link, err
}

// portBlock is the number of ports of a NIC whose caller has not selected any.
const portBlock = 1024

// openJoined is Open for the ports of cfg. It waits at most patience for their names within the
// host.
func openJoined(ctx context.Context, cfg *Config, wrap func(transport.Link) transport.Link, patience time.Duration) (transport.Link, error) {
	link, err := openDriver(ctx, cfg)
	switch {
	case errors.Is(err, transport.ErrInterface):
		return nil, code.Within("open NIC", fmt.Errorf("%w: %w", code.ErrArgument, err))
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, code.Within("open NIC", fmt.Errorf("%w: %w", code.ErrTimeout, err))
	case err != nil:
		return nil, code.Within("open NIC", err)
	}
	if cfg.Ports == (transport.PortRange{}) {
		cfg.Ports = link.Info().Ports
	}
	joined, err := join(ctx, link, cfg, wrap, patience)
	if err != nil {
		link.Close()
	}
	return joined, err
}

// withFaults wraps link if faults are requested.
func withFaults(link transport.Link, wanted fault.Options) transport.Link {
	if !wanted.Active() {
		return link
	}
	info := link.Info()
	return fault.New(link, wanted.For(ethertype.Addr{MAC: info.MAC, Port: info.Ports.Lo}))
}
