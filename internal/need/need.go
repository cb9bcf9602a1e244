// Package need reports what a test may use: the capabilities of the machine, and time.
package need

import (
	"fmt"
	"os"
	"testing"
)

// AllEnv is the environment variable that asks for all tests at full length. With it a
// test that lacks a capability fails, because the machine of CI has all of them: a skip
// there would hide a test that nobody runs any more.
const AllEnv = "BOBNET_TEST_ALL"

// Skip skips t, which needs the capability that the text names. It fails t if AllEnv is set.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	text := "needs " + fmt.Sprintf(format, args...)
	if os.Getenv(AllEnv) != "" {
		t.Fatalf("%s; %s forbids to skip", text, AllEnv)
	}
	t.Skip(text)
}

// Full reports whether tests run at full length. The default, and -short in any case, is the
// short form of each test: fewer seeds, rounds or cases.
func Full() bool { return os.Getenv(AllEnv) != "" && !testing.Short() }

// Long skips t unless tests run at full length. The text says what takes so long.
func Long(t testing.TB, what string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: %s=1 runs it", what, AllEnv)
	}
}
