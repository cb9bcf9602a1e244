package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// direct returns a client of a server in the same process.
func direct(t *testing.T, register func(*vrpc.Server) error) *remote {
	t.Helper()
	srv := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { srv.Close() })
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	return &remote{files.NewFileV1Client(vrpc.Direct(t.Context(), srv), nil)}
}

func serveDirect(t *testing.T, dir string, write bool) *remote {
	t.Helper()
	s, err := newServer(dir, write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.root.Close() })
	return direct(t, s.register)
}

// statuses asks for the same path with each procedure.
func statuses(t *testing.T, r *remote, path string) map[string]files.FileStatus {
	t.Helper()
	p := files.FilePath(path)
	var stat files.StatResult
	var read files.ReadResult
	var list files.ReaddirResult
	err := r.Stat(t.Context(), p, &stat)
	err = errors.Join(err, r.Read(t.Context(), &files.ReadArgs{Path: p, Count: 100}, &read))
	err = errors.Join(err, r.Readdir(t.Context(), &files.ReaddirArgs{Path: p}, &list))
	write, err1 := r.Write(t.Context(), &files.WriteArgs{Path: p, Data: []byte("changed"), Last: true})
	mkdir, err2 := r.Mkdir(t.Context(), p)
	if err = errors.Join(err, err1, err2); err != nil {
		t.Fatalf("%q: %v", path, err)
	}
	return map[string]files.FileStatus{"STAT": stat.Status, "READ": read.Status, "READDIR": list.Status, "WRITE": write, "MKDIR": mkdir}
}

// TestNeverOutside: no path and no link leads out of the served directory.
func TestNeverOutside(t *testing.T) {
	above := t.TempDir()
	dir, secret := filepath.Join(above, "served"), filepath.Join(above, "secret")
	for _, d := range []string{dir, filepath.Join(dir, "sub"), filepath.Join(above, "private")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"file": "../secret", "absolute": secret, "dir": "../private", "up": "..", "chain": "sub/../file",
		"root": "/", "sub/far": "../../secret", "new": "../new", "self": "../served/sub",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := serveDirect(t, dir, true)
	for _, path := range []string{
		"..", "../secret", "sub/../../secret", "/", secret, "/etc/passwd", "", "./sub", "sub/", "sub//x", "sub/.", "a\x00b",
		"file", "absolute", "dir", "up", "up/secret", "chain", "root", "root/etc/passwd", "sub/far", "new", "dir/new", "self",
	} {
		for proc, got := range statuses(t, r, path) {
			_, err := os.Lstat(filepath.Join(dir, path))
			link := !strings.Contains(path, "/") || path == "sub/far"
			switch {
			case proc == "STAT" && link && err == nil && !strings.HasPrefix(path, ".") && path != "":
				if got != files.FileOk { // the link itself may be looked at
					t.Errorf("STAT %q: %v", path, got)
				}
			case proc == "MKDIR" && got == files.FileWrongKind: // there is a link of this name
			case got != files.FileOutside:
				t.Errorf("%s %q: %v, want %v", proc, path, got, files.FileOutside)
			}
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside: %q, %v", data, err)
	}
	if list, err := os.ReadDir(above); err != nil || len(list) != 3 {
		t.Errorf("outside is %v, %v", list, err)
	}
	if list, err := os.ReadDir(filepath.Join(above, "private")); err != nil || len(list) != 0 {
		t.Errorf("the directory outside has %v, %v", list, err)
	}
}

// TestKinds: what is no regular file is not opened: a pipe would block, a device could act.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("data"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := serveDirect(t, dir, true)
	ok, wrong, none := files.FileOk, files.FileWrongKind, files.FileNone
	for path, want := range map[string]map[string]files.FileStatus{
		"pipe":      {"STAT": ok, "READ": wrong, "READDIR": wrong, "WRITE": wrong, "MKDIR": wrong},
		"file":      {"STAT": ok, "READ": ok, "READDIR": wrong, "WRITE": ok, "MKDIR": wrong},
		"link":      {"STAT": ok, "READ": ok, "READDIR": wrong, "WRITE": ok, "MKDIR": wrong},
		"dir":       {"STAT": ok, "READ": wrong, "READDIR": ok, "WRITE": wrong, "MKDIR": ok},
		"file/x":    {"STAT": wrong, "READ": wrong, "READDIR": wrong, "WRITE": wrong, "MKDIR": wrong},
		"none/none": {"STAT": none, "READ": none, "READDIR": none, "WRITE": none, "MKDIR": none},
	} {
		for proc, got := range statuses(t, r, path) {
			if got != want[proc] {
				t.Errorf("%s %s: %v, want %v", proc, path, got, want[proc])
			}
		}
	}
	for path, want := range map[string]files.FileKind{"pipe": files.FileOther, "file": files.FileRegular, "link": files.FileLink, "dir": files.FileDirectory} {
		var res files.StatResult
		if err := r.Stat(t.Context(), files.FilePath(path), &res); err != nil || res.Attributes.Kind != want {
			t.Errorf("STAT %s: %+v, %v", path, res.Attributes, err)
		}
	}
}

// TestWrites: calls may be repeated, come in any order, and end a file.
func TestWrites(t *testing.T) {
	dir := t.TempDir()
	r := serveDirect(t, dir, true)
	for _, w := range []struct {
		offset uint64
		data   string
		last   bool
		want   string
	}{
		{0, "", false, ""}, {3, "def", false, "\x00\x00\x00def"}, {0, "abc", false, "abcdef"}, {0, "abc", false, "abcdef"},
		{4, "E", true, "abcdE"}, {4, "E", true, "abcdE"}, {0, "", true, ""},
	} {
		status, err := r.Write(t.Context(), &files.WriteArgs{Path: "f", Offset: w.offset, Data: []byte(w.data), Last: w.last})
		got, readErr := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || status != files.FileOk || readErr != nil || string(got) != w.want {
			t.Fatalf("%+v: %v, %v; the file is %q, %v", w, status, err, got, readErr)
		}
	}
	for _, offset := range []uint64{1 << 63, 1<<64 - 1, 1<<63 - 1} {
		status, err := r.Write(t.Context(), &files.WriteArgs{Path: "f", Offset: offset, Data: []byte("x")})
		if err != nil || status != files.FileTooLarge {
			t.Errorf("offset %d: %v, %v", offset, status, err)
		}
		var res files.ReadResult
		err = r.Read(t.Context(), &files.ReadArgs{Path: "f", Offset: offset, Count: 1<<32 - 1}, &res)
		if err != nil || res.Status != files.FileOk || !res.Chunk.End || len(res.Chunk.Data) != 0 {
			t.Errorf("read at %d: %+v, %v", offset, res, err)
		}
	}
	only := serveDirect(t, dir, false)
	for _, proc := range []string{"WRITE", "MKDIR"} {
		if got := statuses(t, only, "g")[proc]; got != files.FileReadOnly {
			t.Errorf("%s: %v, want %v", proc, got, files.FileReadOnly)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "g")); !os.IsNotExist(err) {
		t.Errorf("a server that takes no writes has made a file: %v", err)
	}
}
