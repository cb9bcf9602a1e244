package rpcgen

import (
	"os"
	"path/filepath"
	"strings"
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
	// NIS+ gives each kind of object two names.
	refused := map[string]string{"nis.x": "NIS_BOGUS_OBJ has the value 0 of BOGUS_OBJ", "nis_object.x": "NIS_BOGUS_OBJ has the value 0 of BOGUS_OBJ"}
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
		_, err = Generate(file, []byte(text), Options{Package: "p", Include: include})
		want := refused[filepath.Base(file)]
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", file, err, want)
		}
	}
}
