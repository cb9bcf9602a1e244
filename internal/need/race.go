//go:build race

package need

// Race reports whether the race detector is compiled in.
const Race = true
