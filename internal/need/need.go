// Package need skips tests whose machine lacks what they need, and says so.
package need

import (
	"fmt"
	"os"
	"testing"
)

// AllEnv is the environment variable that turns such skips into failures. CI
// sets it, because its machine has everything: a skip there would hide a test
// that nobody runs any more.
const AllEnv = "BOBNET_TEST_ALL"

// Skip skips t, which needs what the text says.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	text := "needs " + fmt.Sprintf(format, args...)
	if os.Getenv(AllEnv) != "" {
		t.Fatalf("%s; %s forbids to skip", text, AllEnv)
	}
	t.Skip(text)
}
