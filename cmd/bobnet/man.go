package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
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
				return usageError{err}
			}
			return writePages(cmd.Root(), date, args[0])
		},
	}
}

// writePages writes the page of a command, and those of its verbs, into a folder.
func writePages(cmd *cobra.Command, date time.Time, dir string) error {
	if err := userfile.Write(filepath.Join(dir, pageName(cmd)+".1"), manPage(cmd, date), 0o644); err != nil {
		return err
	}
	for _, verb := range cmd.Commands() {
		if verb.Hidden || verb.Name() == "help" || verb.Name() == "completion" {
			continue
		}
		if err := writePages(verb, date, dir); err != nil {
			return err
		}
	}
	return nil
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
func sourceDate(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970, not %q", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}
