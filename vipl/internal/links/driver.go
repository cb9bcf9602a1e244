package links

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/udp"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"golang.org/x/sys/unix"
)

// Drivers returns the valid values of Config.Driver, the default first.
func Drivers() []string { return []string{"ring", "packet", "udp", "shm", "myrinet"} }

// openDriver opens the driver's link.
func openDriver(ctx context.Context, cfg *Config) (transport.Link, error) {
	et := cfg.EtherType
	if et == 0 {
		et = ethertype.Default
	}
	if cfg.Driver != "" && cfg.Driver != "ring" && (cfg.XDP == ring.On || cfg.Long == ring.On) {
		return nil, code.Error("choose driver", code.ErrArgument, "XDP is %v and Long is %v, which only driver ring supports, but Driver is %q",
			cfg.XDP, cfg.Long, cfg.Driver)
	}
	if cfg.Driver != "udp" && len(cfg.Peers) > 0 {
		return nil, code.Error("choose driver", code.ErrArgument, "Peers are %v, which only driver udp supports, but Driver is %q", cfg.Peers, cfg.Driver)
	}
	switch cfg.Driver {
	case "", "ring":
		return openRing(ctx, &ring.Config{Interface: cfg.Interface, EtherType: et, Ports: cfg.Ports, XDP: cfg.XDP, Long: cfg.Long, AgentNear: !cfg.WireOnly})
	case "packet":
		return packet.Open(ctx, &packet.Config{Interface: cfg.Interface, EtherType: et, Ports: cfg.Ports})
	case "udp":
		return udp.Open(ctx, &udp.Config{Interface: cfg.Interface, EtherType: et, Ports: cfg.Ports, Peers: cfg.Peers, Logger: cfg.Logger})
	case "myrinet":
		m := plain.LiveMapper()
		m.Logger = cfg.Logger
		return share.OpenOrAttach(ctx, &plain.OpenConfig{Interface: cfg.Interface, Config: plain.Config{EtherType: cfg.EtherType, Ports: cfg.Ports, Mapper: m}})
	case "shm":
		return shm.Open(&shm.Config{Interface: cfg.Interface, EtherType: et, Ports: cfg.Ports, AnyUser: cfg.AnyUser})
	}
	return nil, code.Error("choose driver", code.ErrArgument, "unknown driver %q (want one of %s)", cfg.Driver, strings.Join(Drivers(), ", "))
}

// openRing opens a link of driver ring. If this process may not open packet sockets, the node's
// agent opens them.
func openRing(ctx context.Context, cfg *ring.Config) (transport.Link, error) {
	link, err := ring.Open(ctx, cfg)
	if err == nil {
		return link, nil
	}
	path := agent.Path()
	if path == "" || !errors.Is(err, transport.ErrPermission) && !(errors.Is(err, unix.EADDRINUSE) && refused()) {
		return nil, err
	}
	with := *cfg
	with.Agent = path
	link, asked := ring.Open(ctx, &with)
	switch {
	case asked == nil:
		return link, nil
	case agent.None(asked):
		return nil, fmt.Errorf("%w; and no agent at %s (%w): root can start one: bobnet agent --allow user:NAME", err, path, asked)
	}
	return nil, fmt.Errorf("%w; and %w", err, asked)
}

// refused reports whether this process may not open packet sockets. A failure to claim ports then does
// not mean that another link has them: the agent ignores claims of unprivileged users.
func refused() bool {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EPERM)
}
