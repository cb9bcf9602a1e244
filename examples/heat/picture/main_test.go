package main

import (
	"bytes"
	"image/png"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/internal/examples/heat"
)

// The embedded picture is what this command draws.
func TestEmbeddedPictureIsCurrent(t *testing.T) {
	embedded, err := heat.Default()
	if err != nil {
		t.Fatal(err)
	}
	name := t.TempDir() + "/picture.png"
	if err := write(name); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := embedded.Equal(heat.FromImage(m)); err != nil {
		t.Errorf("%v; run: go generate ./internal/examples/heat", err)
	}
}
