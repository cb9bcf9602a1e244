package afpacket

import "testing"

// TestGrant: the advice is a command for a file that is there to stay.
func TestGrant(t *testing.T) {
	const built = "go build -o prog PACKAGE (go run removes its program) && sudo setcap cap_net_raw=ep ./prog"
	for prog, want := range map[string]string{
		"/usr/bin/kv":                            "sudo setcap cap_net_raw=ep /usr/bin/kv",
		"":                                       "sudo setcap cap_net_raw=ep ./prog",
		"/tmp/go-build1/b001/exe/kv":             built,
		"/home/ann/.cache/go-build/bb/bbc1-d/kv": built,
	} {
		if got := grant(prog); got != want {
			t.Errorf("%q: %s, want %s", prog, got, want)
		}
	}
}
