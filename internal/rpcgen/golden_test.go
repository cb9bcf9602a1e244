package rpcgen

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
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

// TestSystemSpecifications: what the C rpcgen's package brings is understood. What these
// files leave to C's headers is declared before them.
func TestSystemSpecifications(t *testing.T) {
	files, err := filepath.Glob("/usr/include/rpcsvc/*.x")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		need.Skip(t, "/usr/include/rpcsvc/*.x: apt-get install rpcsvc-proto")
	}
	const netobj = "typedef opaque netobj<1024>; "
	before := map[string]string{
		"key_prot.x": netobj + "const MAXNETNAMELEN = 255; typedef opaque des_block[8];",
		"klm_prot.x": netobj, "nis.x": netobj, "nis_object.x": netobj,
		"nlm_prot.x":     netobj + "const LM_MAXSTRLEN = 1024; const MAXNAMELEN = 1024;",
		"nis_callback.x": "typedef int nis_object; typedef int nis_error;",
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		include := func(from, name string) (string, []byte, error) {
			path := filepath.Join(filepath.Dir(from), name)
			text, err := os.ReadFile(path)
			return path, text, err
		}
		text := before[filepath.Base(file)] + "\n" + string(src)
		if _, err = Generate(file, []byte(text), Options{Package: "p", Include: include}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
