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

// fabrics are the ready fabric files.
//
//go:embed fabrics/*.fabric
var fabrics embed.FS

// readyFabrics are their names.
var readyFabrics = []string{"one", "two", "fattree"}

// fabricFile is a flag whose value is what readFabric reads.
func fabricFile(to *string) *setting[string] {
	s := text(to, "", func(name string) error {
		err := readable(name)
		if name == "-" || errors.Is(err, fs.ErrNotExist) && slices.Contains(readyFabrics, name) {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; ready ones are %s", err, either(readyFabrics))
		}
		return err
	})
	s.files, s.some = true, func() []string { return readyFabrics }
	return s
}

// readFabric reads a fabric file: the standard input for -, a file of that name, or else
// a ready one.
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

// maxText bounds what is read of a text file that a person has written, in bytes.
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
