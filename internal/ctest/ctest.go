// Package ctest builds C programs for tests: with the system's rpcgen and the RPC library
// libtirpc the peers that Bobnet's ONC RPC must understand, and what figures are compared with.
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

// patience is how long a tool may take on a busy machine.
const patience = 5 * time.Minute

// headers is where libtirpc has its own.
const headers = "/usr/include/tirpc"

// Build makes a program of C sources and of what rpcgen makes of a specification, and
// returns its path. The sources include the header by the name of the specification, all.h for
// all.x. The parts are rpcgen's options for what is linked in: -c the XDR routines, -l the
// client, -m the server's dispatch function. It skips t where a tool is missing.
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

// Plain makes a program of one C source that needs nothing but the C library, and returns its
// path. It skips t where there is no compiler.
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
