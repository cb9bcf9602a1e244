package main

import (
	"fmt"

	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/spf13/cobra"
)

const keyLong = `Print a new key of sealed frames, for a key file: 64 hexadecimal digits from the
system's random source. All stations of a segment that may talk to each other have
the same file, which nobody else may read. A file with two keys, one a line, is for
replacing one: what is begun here uses the first, and what others begin with
either is taken. Programs read their key file again every two seconds.`

const keyExample = `  (umask 077 && bobnet key > bobnet.key)
  bobnet ping --key bobnet.key 02:00:00:00:00:0b`

func newKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "key",
		Short:   "Print a new key for sealed frames",
		Long:    keyLong,
		Example: keyExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), seal.NewKey().Text())
			return err
		},
	}
}
