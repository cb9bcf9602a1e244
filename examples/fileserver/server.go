package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// server answers calls for the files below one directory. All names go through an os.Root, which no
// path and no symbolic link can leave. It keeps no state between calls.
type server struct {
	root    *os.Root
	write   bool
	outside error // os.Root's error for paths that leave it
}

func newServer(dir string, write bool) (*server, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	_, err = root.Lstat("..") // package os does not export the error
	return &server{root: root, write: write, outside: errors.Unwrap(err)}, nil
}

// register adds the program to the dispatch table. Data to be written are used in place in the
// message.
func (s *server) register(srv *vrpc.Server) error {
	p := files.FileV1Program(s)
	p.InPlace = true
	return srv.Register(p)
}

// status returns the status of a call that ended with err.
func (s *server) status(c *vrpc.Call, path files.FilePath, err error) files.FileStatus {
	switch {
	case err == nil:
		return files.FileOk
	case errors.Is(err, s.outside), errors.Is(err, fs.ErrInvalid):
		return files.FileOutside
	case errors.Is(err, fs.ErrNotExist):
		return files.FileNone
	case errors.Is(err, fs.ErrPermission):
		return files.FileDenied
	case errors.Is(err, errKind), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return files.FileWrongKind
	case errors.Is(err, syscall.EFBIG), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return files.FileTooLarge
	}
	slog.Warn("fileserver: a call failed", "procedure", c.Procedure(), "path", string(path), "peer", c.Peer(), "err", err)
	return files.FileFailed
}

// errKind: the file is not of the required kind, a regular file or a directory.
var errKind = errors.New("wrong kind of file")

// local returns the path for the os.Root. A path that could leave it is an error.
func local(path files.FilePath) (string, error) {
	if !fs.ValidPath(string(path)) || strings.ContainsRune(string(path), 0) {
		return "", fs.ErrInvalid
	}
	return string(path), nil
}

// Stat returns the attributes of a file.
func (s *server) Stat(c *vrpc.Call, path files.FilePath, res *files.StatResult) error {
	name, err := local(path)
	var info fs.FileInfo
	if err == nil {
		info, err = s.root.Lstat(name)
	}
	if res.Status = s.status(c, path, err); err == nil {
		res.Attributes = &files.FileAttributes{
			Kind: kindOf(info.Mode()), Mode: uint32(info.Mode().Perm()),
			Size: uint64(info.Size()), Modified: info.ModTime().UnixNano(),
		}
	}
	return nil
}

func kindOf(mode fs.FileMode) files.FileKind {
	switch mode.Type() {
	case 0:
		return files.FileRegular
	case fs.ModeDir:
		return files.FileDirectory
	case fs.ModeSymlink:
		return files.FileLink
	}
	return files.FileOther
}

// open opens a file of the given kind, 0 or fs.ModeDir. It opens no other kinds, because opening a
// device or a pipe can have effects. A pipe that replaces the file meanwhile does not block.
func (s *server) open(path files.FilePath, flags int, kind fs.FileMode) (*os.File, fs.FileInfo, error) {
	name, err := local(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := s.root.Stat(name)
	if err == nil && info.Mode().Type() != kind {
		return nil, nil, errKind
	}
	if err != nil && (flags&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return nil, nil, err
	}
	f, err := s.root.OpenFile(name, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && info.Mode().Type() != kind {
		err = errKind
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read reads a part of a file.
func (s *server) Read(c *vrpc.Call, arg *files.ReadArgs, res *files.ReadResult) error {
	chunk, err := s.read(arg)
	if res.Status = s.status(c, arg.Path, err); err == nil {
		res.Chunk = chunk
	}
	return nil
}

func (s *server) read(arg *files.ReadArgs) (*files.ReadChunk, error) {
	f, info, err := s.open(arg.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := uint64(info.Size())
	if arg.Offset >= size {
		return &files.ReadChunk{End: true}, nil
	}
	n := min(uint64(arg.Count), files.FileMaxData, size-arg.Offset)
	data := make([]byte, n)
	got, err := f.ReadAt(data, int64(arg.Offset))
	if err != nil && err != io.EOF {
		return nil, err
	}
	return &files.ReadChunk{End: err == io.EOF || arg.Offset+n == size, Data: data[:got]}, nil
}

// Write writes a part of a file.
func (s *server) Write(c *vrpc.Call, arg *files.WriteArgs) (files.FileStatus, error) {
	if !s.write {
		return files.FileReadOnly, nil
	}
	return s.status(c, arg.Path, s.put(arg)), nil
}

func (s *server) put(arg *files.WriteArgs) error {
	if arg.Offset > math.MaxInt64-uint64(len(arg.Data)) {
		return syscall.EFBIG
	}
	f, _, err := s.open(arg.Path, os.O_WRONLY|os.O_CREATE, 0)
	if err != nil {
		return err
	}
	if len(arg.Data) > 0 {
		_, err = f.WriteAt(arg.Data, int64(arg.Offset))
	}
	if err == nil && arg.Last {
		err = f.Truncate(int64(arg.Offset) + int64(len(arg.Data)))
	}
	return errors.Join(err, f.Close())
}

// Readdir lists a directory.
func (s *server) Readdir(c *vrpc.Call, arg *files.ReaddirArgs, res *files.ReaddirResult) error {
	f, _, err := s.open(arg.Path, os.O_RDONLY, fs.ModeDir)
	if err == nil {
		defer f.Close()
		res.Page, err = page(f, string(arg.After))
	}
	res.Status = s.status(c, arg.Path, err)
	return nil
}

// page returns the entries of a directory after a name.
func page(dir *os.File, after string) (*files.ReaddirPage, error) {
	list, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name() <= after })
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	p := &files.ReaddirPage{End: len(list) <= files.FileMaxPage}
	list = list[:min(len(list), files.FileMaxPage)]
	for _, e := range slices.Backward(list) {
		p.First = &files.FileEntry{Name: files.FileName(e.Name()), Kind: kindOf(e.Type()), Next: p.First}
	}
	return p, nil
}

// Mkdir makes a directory.
func (s *server) Mkdir(c *vrpc.Call, path files.FilePath) (files.FileStatus, error) {
	if !s.write {
		return files.FileReadOnly, nil
	}
	name, err := local(path)
	if err == nil {
		if err = s.root.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
			if info, statErr := s.root.Stat(name); statErr == nil && info.IsDir() {
				err = nil
			}
		}
	}
	return s.status(c, path, err), nil
}
