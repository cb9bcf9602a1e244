package program

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain makes the test binary an example that prints a line.
func TestMain(m *testing.M) {
	if os.Getenv("PROGRAM_TEST_PRINTS") == "" {
		os.Exit(m.Run())
	}
	flag.CommandLine = flag.NewFlagSet("", flag.ExitOnError)
	About{Name: "prints"}.Main(func() error { return nil }, func(context.Context) error {
		fmt.Fprintln(Stdout, "a line")
		return nil
	})
}

// TestFullOutput: an example that cannot print fails.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROGRAM_TEST_PRINTS=1")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = full, &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "prints: write /dev/stdout: no space left on device") {
		t.Errorf("%v, and said %q", err, &said)
	}
}
