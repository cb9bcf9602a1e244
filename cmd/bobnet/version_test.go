package main

import (
	"runtime/debug"
	"testing"
)

// TestBuildName: a release has one name however it was built, and other builds are told apart
// by their commit.
func TestBuildName(t *testing.T) {
	for _, tt := range []struct {
		b    build
		want string
	}{
		{build{Version: "v1.2.3", Commit: "unknown"}, "v1.2.3"},
		{build{Version: "v1.2.3", Commit: "0123456789abcdef"}, "v1.2.3"},
		{build{Version: "v1.2.3-4-g0123456-dirty", Commit: "0123456789abcdef"}, "v1.2.3-4-g0123456-dirty commit 0123456789ab"},
		{build{Version: "git20261129.0123456", Commit: "0123456789abcdef"}, "git20261129.0123456 commit 0123456789ab"},
		{build{Version: "(devel)", Commit: "unknown"}, "(devel) commit unknown"},
	} {
		if got := tt.b.name(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.want)
		}
	}
}

// TestBuildOf: version and commit are what release.sh has stamped, or what Go knows of the folder,
// or of the module.
func TestBuildOf(t *testing.T) {
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	folder := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for name, tt := range map[string]struct {
		info             *debug.BuildInfo
		released, commit string
		version, want    string
	}{
		"release":         {info("(devel)"), "v1.2.3", "fedcba", "v1.2.3", "fedcba"},
		"without a tag":   {info("", folder...), "git20261129.fedcba", "fedcba-dirty", "git20261129.fedcba", "fedcba-dirty"},
		"folder":          {info("v0.1.1-0.20261129115123-0123456789ab+dirty", folder...), "", "", "v0.1.1-0.20261129115123-0123456789ab+dirty", "0123456789abcdef-dirty"},
		"module":          {info("v0.0.0-20261129115123-0123456789ab"), "", "", "v0.0.0-20261129115123-0123456789ab", "0123456789ab"},
		"tag of a module": {info("v1.2.3"), "", "", "v1.2.3", "unknown"},
		"nothing":         {info(""), "", "", "(devel)", "unknown"},
	} {
		if b := buildOf(tt.info, tt.released, tt.commit); b.Version != tt.version || b.Commit != tt.want {
			t.Errorf("%s: %s, commit %s, want %s and %s", name, b.Version, b.Commit, tt.version, tt.want)
		}
	}
}
