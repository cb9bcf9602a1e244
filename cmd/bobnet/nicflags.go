package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// nicFlags adds the flags by which every verb is told its interface and driver.
func nicFlags(cmd *cobra.Command, cfg *vipl.Config) {
	f := cmd.Flags()
	f.StringVarP(&cfg.Interface, "iface", "i", "",
		"`name` or MAC of the interface to use, or for udp an IP address; by default $"+vipl.EnvInterface+", or the only one that is up")
	f.Var(driverName{&cfg.Driver}, "driver",
		strings.Join(vipl.Drivers(), ", ")+": how frames travel; udp needs no privilege, and asks the stations of $"+vipl.EnvPeers+
			" one by one; by default $"+vipl.EnvDriver+", or ring")
}

// driverName is a flag whose value is the name of a driver.
type driverName struct{ name *string }

func (d driverName) String() string {
	if d.name == nil {
		return "" // of the zero value, to which pflag compares defaults
	}
	return *d.name
}

func (d driverName) Set(text string) error {
	if text != "" && !slices.Contains(vipl.Drivers(), text) {
		return fmt.Errorf("want %s, or nothing for the default", strings.Join(vipl.Drivers(), ", "))
	}
	*d.name = text
	return nil
}

func (driverName) Type() string { return "driver" }
