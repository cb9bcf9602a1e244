package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// liar is a server that answers as a test wants.
type liar struct {
	names []string // of each directory
	kind  files.FileKind
	end   bool
	chunk files.ReadChunk
}

func (l *liar) Stat(_ *vrpc.Call, _ files.FilePath, res *files.StatResult) error {
	res.Status = files.FileFailed
	return nil
}

func (l *liar) Read(_ *vrpc.Call, _ *files.ReadArgs, res *files.ReadResult) error {
	res.Chunk = &l.chunk
	return nil
}

func (l *liar) Write(*vrpc.Call, *files.WriteArgs) (files.FileStatus, error) {
	return files.FileFailed, nil
}

func (l *liar) Readdir(_ *vrpc.Call, _ *files.ReaddirArgs, res *files.ReaddirResult) error {
	res.Page = &files.ReaddirPage{End: l.end}
	last := &res.Page.First
	for _, name := range l.names {
		*last = &files.FileEntry{Name: files.FileName(name), Kind: l.kind}
		last = &(*last).Next
	}
	return nil
}

func (l *liar) Mkdir(*vrpc.Call, files.FilePath) (files.FileStatus, error) { return files.FileOk, nil }

// TestLiars: a client ends with an error, whatever a server answers, and writes nothing outside
// its directory.
func TestLiars(t *testing.T) {
	whole := files.ReadChunk{End: true, Data: []byte("data")}
	for name, test := range map[string]struct {
		liar
		want string
	}{
		"path up":        {liar{[]string{"../x"}, files.FileRegular, true, whole}, `invalid file name "../x"`},
		"absolute path":  {liar{[]string{"/tmp/x"}, files.FileRegular, true, whole}, "invalid file name"},
		"parent":         {liar{[]string{".."}, files.FileDirectory, true, whole}, "invalid file name"},
		"itself":         {liar{[]string{"."}, files.FileDirectory, true, whole}, "invalid file name"},
		"empty name":     {liar{[]string{""}, files.FileRegular, true, whole}, "names are not in order"},
		"zero in a name": {liar{[]string{"a\x00"}, files.FileRegular, true, whole}, "invalid file name"},
		"order":          {liar{[]string{"b", "a"}, files.FileRegular, true, whole}, `not in order: "a" after "b"`},
		"same page":      {liar{[]string{"a"}, files.FileRegular, false, whole}, `not in order: "a" after "a"`},
		"empty page":     {liar{nil, files.FileRegular, false, whole}, "an empty page before the end"},
		"no end":         {liar{[]string{"d"}, files.FileDirectory, true, whole}, "directories nested more than 200 deep"},
		"short chunk":    {liar{[]string{"a"}, files.FileRegular, true, files.ReadChunk{Data: []byte("x")}}, "the file changed meanwhile"},
		"empty chunk":    {liar{[]string{"a"}, files.FileRegular, true, files.ReadChunk{}}, "the file changed meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			r := direct(t, func(srv *vrpc.Server) error { return srv.Register(files.FileV1Program(&test.liar)) })
			above := t.TempDir()
			_, err := copyTree(t.Context(), r, ".", filepath.Join(above, "to"), false)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if list, err := os.ReadDir(above); err != nil || len(list) != 1 {
				t.Errorf("outside is %v, %v", list, err)
			}
		})
	}
	r := direct(t, func(srv *vrpc.Server) error { return srv.Register(files.FileV1Program(&liar{})) })
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 3*files.FileMaxData), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := copyTree(t.Context(), r, "there", dir, true); err == nil || !strings.Contains(err.Error(), "write there/f: FILE_FAILED") {
		t.Errorf("error of a write: %v", err)
	}
}
