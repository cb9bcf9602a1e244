//go:build !race

package vrpc_test

// raceEnabled says that the race detector is compiled in.
const raceEnabled = false
