package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError formats the error for a flag: "lab: --ranks 0: want a number from 1 to 1023".
func flagError(cmd *cobra.Command, err error) error {
	var (
		value   *pflag.InvalidValueError
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &value):
		flag, cause := value.GetFlag(), value.Unwrap()
		switch flag.Value.Type() { // pflag's own
		case "bool":
			cause = errors.New("want true or false")
		case "count":
			cause = errors.New("want a number")
		}
		err = fmt.Errorf("--%s %s: %w", flag.Name, shown(value.GetValue()), cause)
	case errors.As(err, &unknown):
		err = unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		err = fmt.Errorf("--%s: missing value (see: %s --help)", missing.GetFlag().Name, cmd.CommandPath())
	}
	if name := verbPath(cmd); name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return usageError{err}
}

// verbPath returns the command path without the program's name: "perf app".
func verbPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	if all := unknown.GetSpecifiedShortnames(); all != "" {
		return fmt.Errorf("unknown flag -%.1s in -%s (see: %s --help)", name, all, cmd.CommandPath())
	}
	if near := nearest(name, flagNames(cmd)); near != "" {
		return fmt.Errorf("unknown flag --%s (did you mean --%s?)", name, near)
	}
	return fmt.Errorf("unknown flag --%s (see: %s --help)", name, cmd.CommandPath())
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// verbNames returns the names of the verbs that help shows.
func verbNames(cmd *cobra.Command) (names []string) {
	for _, verb := range cmd.Commands() {
		if !verb.Hidden {
			names = append(names, verb.Name())
		}
	}
	return names
}

// nearest returns the word that the user most likely meant by text, or "". A word qualifies if text
// is a prefix of it, or if the two differ in at most two letters and at most half of the letters.
func nearest(text string, words []string) string {
	best, distance := "", 3
	for _, word := range words {
		d := editDistance(text, word)
		if len(text) > 1 && strings.HasPrefix(word, text) {
			d = min(d, 1)
		}
		if d < distance && 2*d <= len(word) {
			best, distance = word, d
		}
	}
	return best
}

// editDistance returns the number of insertions, deletions and replacements that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0] // of the row before, left of j
		row[0] = i + 1
		for j := range len(b) {
			replace := corner
			if a[i] != b[j] {
				replace++
			}
			corner = row[j+1]
			row[j+1] = min(replace, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := nearest(args[0], flagNames(cmd)); near != "" {
		return fmt.Errorf("%s: unexpected argument %s (did you mean --%s?)", verbPath(cmd), shown(args[0]), near)
	}
	return fmt.Errorf("%s: unexpected argument %s", verbPath(cmd), shown(args[0]))
}

// unknownVerb returns the error for an argument that is not the name of a verb of cmd.
func unknownVerb(cmd *cobra.Command, name string) error {
	err := fmt.Errorf("unknown verb %q (see: %s --help)", name, cmd.CommandPath())
	if near := nearest(name, verbNames(cmd)); near != "" {
		err = fmt.Errorf("unknown verb %q (did you mean %q?)", name, near)
	}
	return usageError{err}
}

// checkEnvironment rejects an invalid value of an environment variable before anything starts, like
// an invalid value of the corresponding flag. Doctor and info report such values themselves, unless
// the value keeps them from running.
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

// checkKeyWanted rejects an invalid key in the environment. It does not check the file if the flag's
// key file may be on other hosts only.
func checkKeyWanted(flag any) error {
	source, err := seam.Key()
	if _, here := flag.(keyFile); err != nil || source == nil || !here {
		return err
	}
	_, err = source()
	return err
}

// usedEnvironment turns err into a usage error if the cause is an interface name in the environment
// that does not exist. It runs after the verb, because only the verb knows whether it uses the name.
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
