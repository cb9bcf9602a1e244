//go:build race

package roundtrip

// raceEnabled says that the test runs under the race detector.
const raceEnabled = true
