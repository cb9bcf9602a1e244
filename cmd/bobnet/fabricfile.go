package main

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/userfile"
)

// fabrics contains the built-in fabric files.
//
//go:embed fabrics/*.fabric
var fabrics embed.FS

// readyFabrics lists the names of the built-in fabric files.
var readyFabrics = []string{"one", "two", "fattree"}

// fabricFile is a flag whose value is a name for readFabric.
func fabricFile(to *string) *setting[string] {
	s := text(to, "", func(name string) error {
		err := readable(name)
		if name == "-" || errors.Is(err, fs.ErrNotExist) && slices.Contains(readyFabrics, name) {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w (built-in fabrics: %s)", err, either(readyFabrics))
		}
		return err
	})
	s.files, s.some = true, func() []string { return readyFabrics }
	return s
}

// readFabric reads a fabric file: the standard input for -, a file of that name, or otherwise
// a built-in one.
func readFabric(name string) (*topology.File, error) {
	text, err := fabricText(name)
	if err != nil {
		return nil, err
	}
	f, err := topology.ParseFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// maxText limits the size of a text file that a person has written, in bytes.
const maxText = 16 << 20

func fabricText(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	text, err := userfile.Read(name, maxText)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	return fabrics.ReadFile(path.Join("fabrics", name+".fabric"))
}
