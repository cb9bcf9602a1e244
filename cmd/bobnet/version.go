package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/launch"
	"github.com/spf13/cobra"
)

// build is which program this is.
type build struct {
	Version  string `json:"version"`  // of the module
	Commit   string `json:"commit"`   // it was built from, with -dirty behind it if files were changed; unknown where Go was not told
	Protocol int    `json:"protocol"` // version of the frame header
	Launch   int    `json:"launch"`   // version of what the hosts of bobnet run say to each other
	Go       string `json:"go"`
}

// released and commit are the version, and the commit with -dirty or not, that packaging/release.sh
// makes the linker write into the program.
var released, commit string

// thisBuild returns what the linker and Go have written into the program.
func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, released, commit)
}

// pseudoVersion matches the version that Go gives to a commit without a tag, which ends in the
// commit's first digits.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(\+dirty)?$`)

// buildOf returns which program it is. What release.sh says comes before what Go knows: the
// folder's commit, or that of a module's version.
func buildOf(info *debug.BuildInfo, released, commit string) build {
	b := build{Version: cmp.Or(released, info.Main.Version, "(devel)"), Commit: commit, Protocol: ethertype.Version, Launch: launch.Protocol, Go: info.GoVersion}
	if b.Commit != "" {
		return b
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if found := pseudoVersion.FindStringSubmatch(info.Main.Version); b.Commit == "" && found != nil {
		b.Commit = found[1]
	}
	b.Commit = cmp.Or(b.Commit, "unknown") + dirty
	return b
}

// release matches the version of a release, which is one commit's, also where Go was not told which.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// name returns what hosts of one job must have in common.
func (b build) name() string {
	if release.MatchString(b.Version) {
		return b.Version
	}
	return fmt.Sprintf("%s commit %.12s", b.Version, b.Commit)
}

func newVersionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Show the version of this program, and of what it speaks",
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, out := thisBuild(), cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(b)
			}
			_, err := fmt.Fprintf(out, "bobnet %s\ncommit %s\nprotocol %d, between hosts of bobnet run %d\n%s\n", b.Version, b.Commit, b.Protocol, b.Launch, b.Go)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
