package rpcgen

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden are the specifications in testdata, each with the package that is made of it.
var golden = []string{"all", "example", "rfc"}

func generateFile(t testing.TB, path, pkg string) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Generate(path, src, Options{Package: pkg})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkGolden compares with a file, or rewrites it.
func checkGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go test ./internal/rpcgen -update, and look at the difference", path)
	}
}

func TestGolden(t *testing.T) {
	for _, pkg := range golden {
		dir := filepath.Join("testdata", pkg)
		checkGolden(t, filepath.Join(dir, pkg+"_xdr.go"), generateFile(t, filepath.Join(dir, pkg+".x"), pkg))
	}
}

// TestOutputPassesVet compiles and vets what is generated.
func TestOutputPassesVet(t *testing.T) {
	args := []string{"vet"}
	for _, pkg := range golden {
		args = append(args, "./testdata/"+pkg)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("go %v: %v\n%s", args, err, out)
	}
}
