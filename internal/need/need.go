// Package need reports what a test may use: the capabilities of the machine, and time.
package need

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// AllEnv is the environment variable that requests all tests at full length. If it is set, a test
// that lacks a capability fails, because CI's machine has all capabilities: a skip there would hide
// a test that never runs. If the value is the absolute path of a file, the test is skipped instead,
// and a line with the package and the name of the test is appended to the file. CI runs these tests
// again as root.
const AllEnv = "BOBNET_TEST_ALL"

// Skip skips t, because it needs the capability that the text names. It fails t if AllEnv is set,
// unless AllEnv names a file.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	text := "needs " + fmt.Sprintf(format, args...)
	switch all := os.Getenv(AllEnv); {
	case filepath.IsAbs(all):
		if err := record(all, t.Name()); err != nil {
			t.Fatal(err)
		}
	case all != "":
		t.Fatalf("%s; %s forbids to skip", text, AllEnv)
	}
	t.Skip(text)
}

// record adds the package of this test binary and a test of it to a file.
func record(file, test string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the test binary does not know its package")
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	elements := strings.Split(test, "/")
	for i, e := range elements {
		elements[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	_, err = fmt.Fprintln(f, strings.TrimSuffix(info.Path, ".test"), strings.Join(elements, "/"))
	return errors.Join(err, f.Close())
}

// Full reports whether tests run at full length. The default, and -short in any case, is the
// short form of each test: fewer seeds, rounds or cases.
func Full() bool { return os.Getenv(AllEnv) != "" && !testing.Short() }

// Long skips t unless tests run at full length. what names the part that takes long.
func Long(t testing.TB, what string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: %s=1 runs it", what, AllEnv)
	}
}

// Simulated skips t under the race detector. In a simulated world goroutines run one at a time, so
// the detector is slow and finds nothing.
func Simulated(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("simulated: goroutines run one at a time, and the race detector finds nothing")
	}
}
