// Package ctest builds C programs for tests. With the system's rpcgen and the RPC library libtirpc
// it builds peers for tests of Bobnet's ONC RPC, and programs whose performance is compared with
// Bobnet's.
package ctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
)

// patience is the maximum run time of a tool, on a busy machine.
const patience = 5 * time.Minute

// headers is the directory of libtirpc's header files.
const headers = "/usr/include/tirpc"

// Build compiles C sources together with the code that rpcgen generates from a specification, and
// returns the path of the program. The sources include the header named after the specification:
// all.h for all.x. parts contains rpcgen's options for the code to link: -c for the XDR routines,
// -l for the client, -m for the server's dispatch function. It skips t if a tool is missing.
func Build(t testing.TB, spec string, parts []string, sources ...string) string {
	t.Helper()
	for _, tool := range []string{"rpcgen", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%s: apt-get install rpcsvc-proto libtirpc-dev gcc libc6-dev", tool)
		}
	}
	if _, err := os.Stat(headers + "/rpc/rpc.h"); err != nil {
		need.Skip(t, "%s: apt-get install libtirpc-dev", headers)
	}
	dir := t.TempDir()
	base := strings.TrimSuffix(filepath.Base(spec), ".x")
	text, err := os.ReadFile(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, base+".x"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "rpcgen", "-C", "-N", "-h", "-o", base+".h", base+".x")
	args := []string{"-w", "-O1", "-I.", "-I" + headers, "-o", "program"}
	for _, part := range parts {
		out := base + part + ".c"
		run(t, dir, "rpcgen", "-C", "-N", part, "-o", out, base+".x")
		args = append(args, out)
	}
	for _, source := range sources {
		path, err := filepath.Abs(source)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	run(t, dir, "gcc", append(args, "-ltirpc")...)
	return filepath.Join(dir, "program")
}

// Plain compiles one C source that needs only the C library, and returns the path of the program.
// It skips t if there is no compiler.
func Plain(t testing.TB, source string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		need.Skip(t, "gcc: apt-get install gcc libc6-dev")
	}
	program := filepath.Join(t.TempDir(), "program")
	run(t, ".", "gcc", "-O2", "-Wall", "-o", program, source, "-lpthread")
	return program
}

func run(t testing.TB, dir, tool string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
}
