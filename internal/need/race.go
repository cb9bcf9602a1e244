//go:build race

package need

// Race says that the race detector is compiled in.
const Race = true
