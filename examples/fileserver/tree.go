package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
)

// source is a readable tree of files.
type source interface {
	// list calls fn for each file of a directory, in the order of their names.
	list(ctx context.Context, dir string, fn func(name string, kind files.FileKind) error) error
	// stream writes a regular file to w.
	stream(ctx context.Context, name string, w io.Writer) error
}

// sink is the destination of a tree of files.
type sink interface {
	mkdir(ctx context.Context, name string) error
	create(ctx context.Context, name string) (io.WriteCloser, error)
}

// summary describes a tree of files. Two trees have the same sum if they have the same directories,
// and files with the same contents.
type summary struct {
	files, skipped int
	bytes          int64
	sum            []byte
}

func (s *summary) String() string {
	text := fmt.Sprintf("%x  %d files, %d bytes", s.sum, s.files, s.bytes)
	if s.skipped > 0 {
		text += fmt.Sprintf(" (%d others skipped)", s.skipped)
	}
	return text
}

// maxDepth is the deepest nesting of directories: a server could pretend that there is no end.
const maxDepth = 200

// walk reads the tree below dir, and copies it below target unless to is nil.
func walk(ctx context.Context, from source, dir string, to sink, target string) (*summary, error) {
	w := &walker{from: from, to: to, hash: sha256.New()}
	if err := w.dir(ctx, dir, target, ".", 0); err != nil {
		return nil, err
	}
	w.sum = w.hash.Sum(nil)
	return &w.summary, nil
}

type walker struct {
	summary
	from source
	to   sink
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
}

// dir walks a directory, which is called label in the sum.
func (w *walker) dir(ctx context.Context, dir, target, label string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: directories nested more than %d deep", dir, maxDepth)
	}
	if w.to != nil {
		if err := w.to.mkdir(ctx, target); err != nil {
			return err
		}
	}
	fmt.Fprintf(w.hash, "directory %q\n", label)
	return w.from.list(ctx, dir, func(name string, kind files.FileKind) error {
		if !plainName(name) {
			return fmt.Errorf("%s: the server returned an invalid file name %q", dir, name)
		}
		inner, at, label := path.Join(dir, name), path.Join(target, name), path.Join(label, name)
		switch kind {
		case files.FileDirectory:
			return w.dir(ctx, inner, at, label, depth+1)
		case files.FileRegular:
			return w.file(ctx, inner, at, label)
		}
		w.skipped++
		return nil
	})
}

// plainName reports whether name is the name of a single file in a directory.
func plainName(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "/\x00")
}

func (w *walker) file(ctx context.Context, name, target, label string) error {
	var out io.WriteCloser = discard{}
	if w.to != nil {
		var err error
		if out, err = w.to.create(ctx, target); err != nil {
			return err
		}
	}
	hash := sha256.New()
	count := &counter{}
	err := w.from.stream(ctx, name, io.MultiWriter(out, hash, count))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	w.files++
	w.bytes += count.n
	fmt.Fprintf(w.hash, "file %q %x\n", label, hash.Sum(nil))
	return nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// localDir is a tree of this host.
type localDir struct{ root *os.Root }

func (l localDir) list(_ context.Context, dir string, fn func(string, files.FileKind) error) error {
	list, err := fs.ReadDir(l.root.FS(), dir)
	for _, e := range list {
		if err == nil {
			err = fn(e.Name(), kindOf(e.Type()))
		}
	}
	return err
}

func (l localDir) stream(ctx context.Context, name string, w io.Writer) error {
	f, err := l.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, files.FileMaxData)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l localDir) mkdir(_ context.Context, name string) error {
	if err := l.root.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (l localDir) create(_ context.Context, name string) (io.WriteCloser, error) {
	return l.root.Create(name)
}
