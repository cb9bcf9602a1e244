package main

import (
	"fmt"

	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/spf13/cobra"
)

const keyLong = `Print a new key for encrypted frames: 64 hexadecimal digits from the system's random
source. Copy it into a key file on all hosts that communicate with each other. No other
user may read the file.

To replace a key, use a file with two keys, one per line. A program starts sessions with the
first key, and accepts sessions with either. Programs read their key file again every two
seconds.`

const keyExample = `  (umask 077 && bobnet key > bobnet.key)
  bobnet ping --key bobnet.key 02:00:00:00:00:0b`

func newKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "key",
		Short:   "Print a new key for encrypted frames",
		Long:    keyLong,
		Example: keyExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), seal.NewKey().Text())
			return err
		},
	}
}
