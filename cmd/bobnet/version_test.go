package main

import "testing"

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
		{build{Version: "(devel)", Commit: "unknown"}, "(devel) commit unknown"},
	} {
		if got := tt.b.name(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.want)
		}
	}
}
