package perf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// Profiles names pprof files for the halves to write. The client half writes
// to the name as given, the server half to one with "-server" before the
// extension. "" writes none.
type Profiles struct {
	CPU, Memory string
}

// during writes the profiles of f.
func (p Profiles) during(server bool, f func() error) (err error) {
	if p.CPU != "" {
		out, err := createProfile(p.CPU, server)
		if err != nil {
			return err
		}
		kept := &kept{File: out} // pprof passes no error of writing on
		if err := pprof.StartCPUProfile(kept); err != nil {
			return errors.Join(fmt.Errorf("perf: CPU profile: %w", err), out.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, kept.err, out.Close())
		}()
	}
	err = f()
	if p.Memory == "" {
		return err
	}
	out, fileErr := createProfile(p.Memory, server)
	if fileErr != nil {
		return errors.Join(err, fileErr)
	}
	runtime.GC() // the profile is of the last collection
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
}

// kept is a file that keeps the first error of writing to it.
type kept struct {
	*os.File
	err error
}

// Write implements io.Writer.
func (k *kept) Write(b []byte) (int, error) {
	n, err := k.File.Write(b)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// ofServer returns the name of the server half's file beside the client's: it has "-server"
// before the extension.
func ofServer(name string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "-server" + ext
}

func createProfile(name string, server bool) (*os.File, error) {
	if server {
		name = ofServer(name)
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("perf: profile: %w", err)
	}
	return f, nil
}
