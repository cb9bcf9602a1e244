package files

import (
	"bytes"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen"
)

// TestGenerated: go generate changes nothing.
func TestGenerated(t *testing.T) {
	src, err := os.ReadFile("files.x")
	if err != nil {
		t.Fatal(err)
	}
	want, err := rpcgen.Generate("files.x", src, rpcgen.Options{Package: "files"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("files_xdr.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("files_xdr.go is out of date: run go generate (%v)", err)
	}
}
