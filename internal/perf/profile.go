package perf

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/bobnet-go/bobnet/internal/userfile"
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
		out, failed := createProfile(p.CPU, server)
		if failed != nil {
			return failed
		}
		if err := pprof.StartCPUProfile(out); err != nil {
			return errors.Join(fmt.Errorf("perf: start CPU profile: %w", err), out.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, out.Close()) // of writing, too: pprof passes none on
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

// ofServer returns the file name for the server half that belongs to name: it has "-server" before
// the extension.
func ofServer(name string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "-server" + ext
}

func createProfile(name string, server bool) (*userfile.File, error) {
	if server {
		name = ofServer(name)
	}
	f, err := userfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("perf: create profile: %w", err)
	}
	return f, nil
}
