package rpcgen

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

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
