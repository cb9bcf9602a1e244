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

// source is the version of this source tree, without a tag too. packaging/release.sh reads it, and
// [CHANGELOG.md] describes it.
//
// [CHANGELOG.md]: ../../CHANGELOG.md
const source = "0.1.0"

// build identifies this program.
type build struct {
	Version  string `json:"version"`  // of the module, without "v"
	Commit   string `json:"commit"`   // of the source; ends in -dirty if files were changed; "unknown" if Go does not know it
	Protocol int    `json:"protocol"` // version of the frame header
	Launch   int    `json:"launch"`   // version of the protocol between the hosts of bobnet run
	Go       string `json:"go"`

	release bool // the version identifies the commit
}

// released and commit are the version of a release, and the commit (with or without -dirty).
// packaging/release.sh sets them through the linker.
var released, commit string

// thisBuild returns the build information that the linker and Go have stored in the program.
func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, released, commit)
}

var (
	// tag matches the version that Go gives to a tagged commit.
	tag = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

	// pseudoVersion matches the version that Go gives to a commit without a tag. It ends in the
	// commit's first digits.
	pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(\+dirty)?$`)
)

// buildOf assembles the build information. A build of a tagged commit has the tag's version, and
// any other build the version of the source. Values of release.sh take precedence over Go's, which
// are those of the work tree or of the module's version.
func buildOf(info *debug.BuildInfo, released, commit string) build {
	if found := tag.FindString(info.Main.Version); released == "" && found != "" {
		released = found[len("v"):]
	}
	return build{
		Version: cmp.Or(released, source), Commit: cmp.Or(commit, commitOf(info)), Protocol: ethertype.Version, Launch: launch.Protocol,
		Go: info.GoVersion, release: released != "",
	}
}

// commitOf returns the commit that Go has stored in the program.
func commitOf(info *debug.BuildInfo) string {
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if found := pseudoVersion.FindStringSubmatch(info.Main.Version); commit == "" && found != nil {
		commit = found[1]
	}
	return cmp.Or(commit, "unknown") + dirty
}

// name returns the version that all hosts of a job must have in common.
func (b build) name() string {
	if b.release {
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
