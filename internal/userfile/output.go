package userfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ErrNoReader is wrapped by the error for writing to a named pipe that no process reads.
var ErrNoReader = errors.New("no process reads from this pipe: start its reader first")

// WriteError is the first error of writing to a File. The file is incomplete.
type WriteError struct{ Err error }

// Error returns the text of the cause, which contains the file's name.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// File is a file for writing. It keeps the first error of writing. Goroutines may share it. It has
// the methods by which libraries for terminals recognize a file.
type File struct {
	f   *os.File
	mu  sync.Mutex
	err error
}

// Keep returns a File for an open file, such as os.Stdout.
func Keep(f *os.File) *File { return &File{f: f} }

// Create opens a file for writing, which it creates or truncates, or a device, or a pipe. It does
// not block: it fails if no process reads the pipe. The caller closes the file.
func Create(name string) (*File, error) {
	f, err := openNonblocking(name, os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		pipes.Lock()
		defer pipes.Unlock()
		pipes.open = append(pipes.open, f)
	}
	return Keep(f), nil
}

// pipes lists the pipes that Create has opened.
var pipes struct {
	sync.Mutex
	open []*os.File
}

// GiveUp ends all writes to pipes of Create with an error, including those that wait for the
// reader. It is for a process that is about to end.
func GiveUp() {
	pipes.Lock()
	defer pipes.Unlock()
	for _, f := range pipes.open {
		f.SetWriteDeadline(time.Now()) // an error means that the file is closed
	}
}

// Write writes data to the file called name, as Create opens it. A new file gets mode perm.
func Write(name string, data []byte, perm fs.FileMode) error {
	f, err := openNonblocking(name, os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	out := Keep(f)
	out.Write(data) // Close returns the first error
	return out.Close()
}

// openNonblocking opens a file for writing without blocking.
func openNonblocking(name string, flags int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|flags, perm)
	if !errors.Is(err, syscall.ENXIO) {
		return f, err
	}
	info, statErr := os.Stat(name)
	switch {
	case statErr == nil && info.Mode()&fs.ModeNamedPipe != 0:
		err = ErrNoReader
	case statErr == nil && info.Mode()&fs.ModeSocket != 0:
		err = errors.New("a socket, want a file or a pipe")
	default:
		return nil, err
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// held lists the pipes that Check has opened.
var held struct {
	sync.Mutex
	pipes []*os.File
}

// Check returns the error with which Create would fail. Call it before the work whose result the
// file will contain. It creates no file, and does not change an existing one, which may be the
// input. A pipe stays open until this process ends, because its reader would interpret a close as
// the end of the data. The empty name means that nothing will be written.
func Check(name string) error {
	if name == "" {
		return nil
	}
	f, err := openNonblocking(name, os.O_CREATE|os.O_EXCL, 0o600)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = openNonblocking(name, 0, 0)
	}
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		held.Lock()
		defer held.Unlock()
		held.pipes = append(held.pipes, f)
		return nil
	}
	err = f.Close()
	if created {
		err = errors.Join(err, os.Remove(filepath.Clean(name)))
	}
	return err
}

// Write implements io.Writer.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	return n, f.keep(err)
}

// WriteString implements io.StringWriter.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Close closes the file. It returns the first error of writing or closing.
func (f *File) Close() error {
	f.keep(f.f.Close())
	return f.Err()
}

// Err returns the first error of writing or closing, or nil if there was none.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) { return f.f.Read(b) }

// Stat describes the open file.
func (f *File) Stat() (fs.FileInfo, error) { return f.f.Stat() }

// Fd returns the descriptor of the open file.
func (f *File) Fd() uintptr { return f.f.Fd() }

// keep returns err as a *WriteError, and stores it if it is the first error.
func (f *File) keep(err error) error {
	if err == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	wrapped := &WriteError{err}
	if f.err == nil {
		f.err = wrapped
	}
	return wrapped
}
