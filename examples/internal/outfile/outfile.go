// Package outfile tells early whether a result can be written.
package outfile

import (
	"errors"
	"io/fs"
	"os"
)

// Check returns the error that creating the file name would end in, before
// work is done whose result it is to hold. It leaves things as they are: no new
// file, and nothing of an old one, which may be the input, lost. The empty name
// means that nothing will be written.
func Check(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return err
	}
	err = f.Close()
	if created {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
