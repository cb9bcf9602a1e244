package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// nicFlags adds the flags for interface, driver and key that most verbs have.
func nicFlags(cmd *cobra.Command, cfg *vipl.Config) {
	linkFlags(cmd, cfg)
	cmd.Flags().Var(keyFile{cfg: cfg, path: new(string)}, "key", keyUsage)
}

const keyUsage = "`file` with the key that encrypts frames, from bobnet key; by default $" + vipl.EnvKeyFile + ", or none"

// linkFlags adds the flags for interface and driver.
func linkFlags(cmd *cobra.Command, cfg *vipl.Config) {
	f := cmd.Flags()
	f.VarP(ifaceName(&cfg.Interface), "iface", "i",
		"`name` or MAC of the interface to use, or for udp an IP address; by default $"+vipl.EnvInterface+", or the only one that is up")
	f.Var(driverName(&cfg.Driver), "driver",
		"driver that carries the frames: "+strings.Join(vipl.Drivers(), ", ")+"; udp needs no privilege, and finds the stations of $"+vipl.EnvPeers+
			"; by default $"+vipl.EnvDriver+", or ring")
}

// keyFile is a flag whose value is the path of a key file.
type keyFile struct {
	cfg  *vipl.Config
	path *string
}

func (k keyFile) String() string {
	return *k.path
}

func (k keyFile) Set(path string) error {
	if path == "" {
		return errEmpty
	}
	source := seal.File(path)
	if _, err := source(); err != nil {
		return err
	}
	*k.path, k.cfg.Key = path, source
	return nil
}

func (keyFile) Type() string { return "file" }
func (keyFile) hints() hint  { return hint{files: true} }

// driverName is a flag whose value is the name of a driver. An empty value means the default, so
// that scripts can pass an empty variable.
func driverName(to *string) *setting[string] {
	s := choice(to, "", vipl.Drivers()...)
	name := s.parse
	s.parse = func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		return name(text)
	}
	return s
}

// checkInterface rejects an --iface that this host does not have, before anything starts. It checks
// nothing if the verb runs on other hosts. For run, which opens no interface itself, it also checks
// the environment.
func checkInterface(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("iface")
	if flag == nil || cmd.Hidden {
		return nil
	}
	want, from := flag.Value.String(), "--iface "
	if !flag.Changed && cmd.Name() == "run" {
		want, from = os.Getenv(vipl.EnvInterface), vipl.EnvInterface+"="
	}
	if want == "" {
		return nil
	}
	for _, name := range []string{"host", "hosts"} {
		if other := cmd.Flags().Lookup(name); other != nil && other.Changed {
			return nil
		}
	}
	driver := os.Getenv(vipl.EnvDriver)
	if flag := cmd.Flags().Lookup("driver"); flag != nil && flag.Value.String() != "" {
		driver = flag.Value.String()
	}
	if driver == "udp" && isOwnAddress(want) {
		return nil
	}
	if err := noInterface(want); err != nil {
		return usageError{fmt.Errorf("%s: %s%s: %w", verbPath(cmd), from, shown(want), err)}
	}
	return nil
}

// isOwnAddress reports whether text is an IP address of this host, or an interface that may be other
// than Ethernet.
func isOwnAddress(text string) bool {
	if _, err := net.InterfaceByName(text); err == nil {
		return true
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	for _, a := range own {
		if prefix, bad := netip.ParsePrefix(a.String()); bad == nil && (prefix.Addr() == ip.Unmap().WithZone("") || prefix.Addr().IsLoopback() && prefix.Contains(ip.Unmap())) {
			return true
		}
	}
	return err != nil // then opening it reports the error
}

// noInterface returns an error, which lists the interfaces, if no interface has this name or MAC.
func noInterface(want string) error {
	list, err := iface.List()
	if err != nil {
		return nil //nolint:nilerr // opening the interface reports the error
	}
	mac, bad := ethertype.ParseMAC(want)
	var all []string
	for _, i := range list {
		if i.Name == want || bad == nil && i.MAC == mac {
			return nil
		}
		all = append(all, i.String())
	}
	if len(all) == 0 {
		return fmt.Errorf("no Ethernet interface %q, and no other in this network namespace (see: ip link)", want)
	}
	return fmt.Errorf("no Ethernet interface %q (available: %s)", want, strings.Join(all, ", "))
}

// ifaceName is a flag whose value names an interface. An empty value means the default, so that
// scripts can pass an empty variable. checkInterface checks that the interface exists.
func ifaceName(to *string) *setting[string] {
	return &setting[string]{to: to, kind: "string", parse: func(text string) (string, error) { return text, nil }, print: verbatim, hint: hint{some: interfaceNames}}
}

// interfaces is a flag whose value is a list of Ethernet interfaces of this host.
func interfaces(to *[]string) *settings[string] {
	parse := func(name string) (string, error) {
		return name, noInterface(name)
	}
	return &settings[string]{to: to, kind: "strings", commas: true, parse: parse, print: verbatim, hint: hint{some: interfaceNames}}
}

// interfaceNames returns the names of the Ethernet interfaces of this host.
func interfaceNames() (names []string) {
	list, _ := iface.List() // an error means that there is nothing to complete
	for _, i := range list {
		names = append(names, i.Name)
	}
	return names
}

// capture opens the file of a --pcap flag. It returns the file, which must be closed after the
// links, and a function that wraps a link; the function is nil without a file.
func capture(name string) (io.Closer, func(transport.Link) transport.Link, error) {
	if name == "" {
		return io.NopCloser(nil), nil, nil
	}
	file, err := pcap.Create(name)
	if err != nil {
		return nil, nil, err
	}
	return file, func(l transport.Link) transport.Link { return file.Wrap(l) }, nil
}
