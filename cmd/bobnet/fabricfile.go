package main

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// fabrics are the ready fabric files.
//
//go:embed fabrics/*.fabric
var fabrics embed.FS

// readFabric reads a fabric file: the standard input for -, a file of that name, or else
// a ready one.
func readFabric(name string) (*myrinet.File, error) {
	text, err := fabricText(name)
	if err != nil {
		return nil, err
	}
	f, err := myrinet.ParseFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func fabricText(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if ready, none := fabrics.ReadFile(path.Join("fabrics", name+".fabric")); none == nil {
		return ready, nil
	}
	return nil, fmt.Errorf("%w; ready ones are one, two and fattree", err)
}
