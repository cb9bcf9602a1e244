package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// checkEnvironment refuses a bad value of an environment variable before anything starts, as
// the flag is refused for which the variable stands. Doctor and info report such values
// themselves, except for what keeps them from looking.
func checkEnvironment(cmd *cobra.Command) error {
	driver := cmd.Flags().Lookup("driver")
	if driver == nil || cmd.Hidden {
		return nil
	}
	_, err := vipl.Config{Driver: driver.Value.String()}.FromEnvironment()
	if err == nil && cmd.Name() != "doctor" && cmd.Name() != "info" {
		_, err = seam.Faults()
		if key := cmd.Flags().Lookup("key"); err == nil && key != nil && !key.Changed {
			err = checkKeyWanted(key.Value)
		}
	}
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", verbPath(cmd), err)}
	}
	return nil
}

// checkKeyWanted refuses a key of the environment that cannot be used. flag may be one whose
// key file is on other hosts only.
func checkKeyWanted(flag any) error {
	source, err := seam.Key()
	if _, here := flag.(keyFile); err != nil || source == nil || !here {
		return err
	}
	_, err = source()
	return err
}

// usedEnvironment makes err a usage error if its cause is that no interface has the name that
// the environment gives. Only the verb knows whether it uses that name.
func usedEnvironment(err error) error {
	name := os.Getenv(vipl.EnvInterface)
	if name == "" || !errors.Is(err, transport.ErrInterface) || errors.Is(err, transport.ErrGone) {
		return err
	}
	if _, notNamed := net.InterfaceByName(name); notNamed != nil && isOwnAddress(name) { // for udp
		return err
	}
	if missing := noInterface(name); missing != nil {
		return usageError{fmt.Errorf("%s=%s: %w", vipl.EnvInterface, shown(name), missing)}
	}
	return err
}
