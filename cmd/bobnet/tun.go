package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const tunLong = `Create an IP interface, and carry its packets over virtual interfaces (VIs), until
interrupted. Any program can then reach the hosts of the segment that also run bobnet tun, by
TCP, UDP or another IP protocol.

Hosts find each other by broadcast on the segment. IP packets can be up to 65,000 bytes long,
whatever the segment's MTU. Lost packets are retransmitted below IP. The kernel's own network
on the same card is not affected. The interface disappears when this process ends, even if it
is killed. Multicast is not supported, and packets from other hosts are not forwarded.

If the interface that carries the packets is deleted, the IP interface disappears as well. It
returns when an interface of the same name appears.

Bobnet tun logs each host that connects or disconnects. If no host has the destination
address, the sender gets ICMP "host unreachable" after 3 s.

Bobnet tun needs CAP_NET_ADMIN. Its frames need CAP_NET_RAW, sockets from bobnet agent, or the
driver udp. SIGQUIT (Ctrl-\) prints the hosts that are connected.`

func newTunCmd() *cobra.Command {
	var cfg tun.Config
	var address, frames string
	cmd := &cobra.Command{
		Use:   "tun --addr ADDR/BITS [flags]",
		Short: "Create an IP interface whose packets travel over VIs",
		Long:  tunLong,
		Example: "  bobnet tun --iface eth1 --addr 10.9.0.1/24 --addr fd09::1/64\n" +
			"  bobnet tun --iface eth1 --addr 10.9.0.2/24 --addr fd09::2/64   # on another host",
		Args: usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTun(cmd, &cfg, address, frames)
		},
	}
	nicFlags(cmd, &cfg.VIPL)
	f := cmd.Flags()
	f.Var(prefixes(&cfg.Addrs), "addr", "IPv4 or IPv6 `address` of the interface, with its prefix length; may be repeated")
	f.Var(text(&cfg.Device, "", deviceName), "dev", "`name` of the interface to create; by default bobnet0, bobnet1 and so on")
	f.Var(text(&cfg.Network, tun.DefaultNetwork, most(tun.MaxNetwork), slashless), "network", "`name` of the network; hosts with another name are ignored")
	f.Var(number(&cfg.MTU, tun.MaxMTU, tun.MinMTU, tun.MaxMTU), "mtu", "longest packet in `bytes`")
	f.Var(output(&frames, ""), "pcap", "write the frames that carry the packets to `FILE` for Wireshark")
	f.Var(listenAt(&address), "metrics", "serve metrics on this `address` (:port means localhost): /metrics, and readable status at /debug/bobnet")
	return cmd
}

// prefixes is a flag whose values are addresses with their prefix lengths.
func prefixes(to *[]netip.Prefix) *settings[netip.Prefix] {
	parse := func(text string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return p, errors.New("want an address with its prefix length, such as 10.9.0.1/24")
		}
		return p, nil
	}
	return &settings[netip.Prefix]{to: to, kind: "stringArray", parse: parse, print: netip.Prefix.String}
}

func slashless(name string) error {
	if strings.Contains(name, "/") {
		return errors.New("want a name without a slash")
	}
	return nil
}

// deviceName rejects names that an interface cannot have.
func deviceName(name string) error {
	if len(name) >= unix.IFNAMSIZ || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n%") {
		return fmt.Errorf("want an interface name: 1 to %d bytes without spaces, slashes and colons", unix.IFNAMSIZ-1)
	}
	return nil
}

// runTun serves an IP network until the command is interrupted, and writes the segment's frames
// to the file called frames if that is not empty.
func runTun(cmd *cobra.Command, cfg *tun.Config, address, frames string) error {
	cfg.Logger = slog.Default()
	if !cfg.Logger.Enabled(cmd.Context(), slog.LevelInfo) { // neighbours are logged at level info
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	file, wrap, err := capture(frames)
	if err != nil {
		return err
	}
	cfg.VIPL.Wrap = wrap
	err = serveAgain(cmd.Context(), "tun", &cfg.VIPL.Interface, func() error { return serveTun(cmd, cfg, address) })
	return errors.Join(err, file.Close())
}

// list joins values with commas.
func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// serveTun serves an IP network until the interface that carries the packets is deleted.
func serveTun(cmd *cobra.Command, cfg *tun.Config, address string) error {
	t, err := tun.Open(cmd.Context(), cfg)
	if errors.Is(err, tun.ErrConfig) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	cfg.VIPL.Interface = t.NIC().Query().Name
	c := metrics.NewCollector(nil)
	c.WatchTun(t)
	c.WatchNIC(t.NIC())
	stop, err := c.Instrument(address)
	if err != nil {
		return errors.Join(fmt.Errorf("--metrics: %w", err), t.Close())
	}
	defer stop()
	fmt.Fprintf(cmd.OutOrStdout(), "interface %s, addresses %s, MTU %d, on network %q over %s\n", t.Device(), list(cfg.Addrs), cfg.MTU, cfg.Network, t.NIC().Query().Name)
	err = t.Run(cmd.Context())
	return errors.Join(err, t.Close())
}
