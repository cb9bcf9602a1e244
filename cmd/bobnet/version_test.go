package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// TestBuildName: the version of a release identifies it, however it was built. Other builds also
// need the commit.
func TestBuildName(t *testing.T) {
	for _, tt := range []struct {
		b    build
		want string
	}{
		{build{Version: "1.2.3", Commit: "unknown", release: true}, "1.2.3"},
		{build{Version: "1.2.3", Commit: "0123456789abcdef", release: true}, "1.2.3"},
		{build{Version: "0.1.0", Commit: "0123456789abcdef-dirty"}, "0.1.0 commit 0123456789ab"},
		{build{Version: "0.1.0", Commit: "unknown"}, "0.1.0 commit unknown"},
	} {
		if got := tt.b.name(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.want)
		}
	}
}

// TestBuildOf: the version is that of the release or of the source, and the commit that of
// release.sh, of the work tree or of the module.
func TestBuildOf(t *testing.T) {
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	folder := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for name, tt := range map[string]struct {
		info             *debug.BuildInfo
		released, commit string
		version, want    string
		release          bool
	}{
		"release":         {info("(devel)"), "1.2.3", "fedcba", "1.2.3", "fedcba", true},
		"without a tag":   {info("", folder...), "", "fedcba-dirty", source, "fedcba-dirty", false},
		"folder":          {info("v0.0.0-20261129115123-0123456789ab+dirty", folder...), "", "", source, "0123456789abcdef-dirty", false},
		"after a tag":     {info("v0.0.2-0.20261129115123-0123456789ab"), "", "", source, "0123456789ab", false},
		"module":          {info("v0.0.0-20261129115123-0123456789ab"), "", "", source, "0123456789ab", false},
		"tag of a module": {info("v1.2.3"), "", "", "1.2.3", "unknown", true},
		"changed tag":     {info("v1.2.3+dirty", folder...), "", "", source, "0123456789abcdef-dirty", false},
		"nothing":         {info(""), "", "", source, "unknown", false},
	} {
		if b := buildOf(tt.info, tt.released, tt.commit); b.Version != tt.version || b.Commit != tt.want || b.release != tt.release {
			t.Errorf("%s: %s, commit %s, release %t, want %s, %s and %t", name, b.Version, b.Commit, b.release, tt.version, tt.want, tt.release)
		}
	}
}

// TestSourceVersion: the first version in the change log is that of the source.
func TestSourceVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(text)
	if found == nil || string(found[1]) != source {
		t.Errorf("CHANGELOG.md begins with version %q, the source has %q", found, source)
	}
}
