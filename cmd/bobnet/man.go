package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCmd makes the man pages, for packages of distributions. It is not among the verbs that help
// shows.
func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a man page for each verb into a folder",
		Hidden: true,
		Args:   usage(oneFolder),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same source makes the same pages
			return doc.GenManTree(root, &doc.GenManHeader{Title: "BOBNET", Section: "1", Source: "Bobnet", Manual: "Bobnet", Date: date}, args[0])
		},
	}
}

func oneFolder(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("man wants one folder, found %d", len(args))
	}
	if err := existing(args[0]); err != nil {
		return fmt.Errorf("man %s: %w", shown(args[0]), err)
	}
	return nil
}

// sourceDate returns the time that says in seconds when the source is of; now if it is empty.
func sourceDate(seconds string) (*time.Time, error) {
	date := time.Now()
	if seconds != "" {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970, not %q", seconds)
		}
		date = time.Unix(n, 0).UTC()
	}
	return &date, nil
}
