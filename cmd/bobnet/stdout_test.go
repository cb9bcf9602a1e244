package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFullOutput: what cannot be written to the standard output makes the command fail, also
// where a library or a rank writes it.
func TestFullOutput(t *testing.T) {
	bobnet := copyProgram(t, t.TempDir())
	for _, args := range []string{"info", "--help", "map -h", "version", "run -n 2 -- echo hi"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bobnet, strings.Fields(args)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("%s: %v, and said %q", args, err, &said)
		}
		full.Close()
	}
}
