package main

import (
	"strings"

	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// nicFlags adds the flags by which every verb is told its interface and driver.
func nicFlags(cmd *cobra.Command, cfg *vipl.Config) {
	linkFlags(cmd, cfg)
	cmd.Flags().Var(keyFile{cfg: cfg, path: new(string)}, "key", keyUsage)
}

const keyUsage = "`file` with the key of sealed frames, as bobnet key makes it; by default $" + vipl.EnvKeyFile + ", or none"

// linkFlags are those of them that say which interface, and how.
func linkFlags(cmd *cobra.Command, cfg *vipl.Config) {
	f := cmd.Flags()
	f.VarP(ifaceName(&cfg.Interface), "iface", "i",
		"`name` or MAC of the interface to use, or for udp an IP address; by default $"+vipl.EnvInterface+", or the only one that is up")
	f.Var(driverName(&cfg.Driver), "driver",
		strings.Join(vipl.Drivers(), ", ")+": how frames travel; udp needs no privilege, and asks the stations of $"+vipl.EnvPeers+
			" one by one; by default $"+vipl.EnvDriver+", or ring")
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

// driverName is a flag whose value is the name of a driver; empty it stands for the default, so
// that scripts can hand on a variable.
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
