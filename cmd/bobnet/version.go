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

// build identifies this program.
type build struct {
	Version  string `json:"version"`  // of the module
	Commit   string `json:"commit"`   // of the source; ends in -dirty if files were changed; "unknown" if Go does not know it
	Protocol int    `json:"protocol"` // version of the frame header
	Launch   int    `json:"launch"`   // version of the protocol between the hosts of bobnet run
	Go       string `json:"go"`
}

// released and commit are the version and the commit (with or without -dirty) that
// packaging/release.sh sets through the linker.
var released, commit string

// thisBuild returns the build information that the linker and Go have stored in the program.
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

// buildOf assembles the build information. Values of release.sh take precedence over Go's, which are
// the commit of the work tree or of the module's version.
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

// release matches the version of a release. It identifies one commit, even if Go does not know which.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// name returns the version that all hosts of a job must have in common.
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
		Short: "Print the version of this program and of its protocols",
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, out := thisBuild(), cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(b)
			}
			_, err := fmt.Fprintf(out, "bobnet %s\ncommit %s\nprotocol %d, launch protocol %d\n%s\n", b.Version, b.Commit, b.Protocol, b.Launch, b.Go)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
