package rpcgen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzGenerate: any text ends in Go that passes gofmt, or in errors that name places in it.
func FuzzGenerate(f *testing.F) {
	for _, test := range faulty {
		f.Add(test.src)
	}
	for _, pkg := range golden {
		src, err := os.ReadFile(filepath.Join("testdata", pkg, pkg+".x"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
		for _, part := range strings.SplitAfter(string(src), "};\n") {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		out, err := Generate("t.x", []byte(src), Options{Package: "p"})
		var list ErrorList
		switch {
		case err == nil:
			if !strings.HasPrefix(string(out), Marker) {
				t.Errorf("output begins with %.100q", out)
			}
		case errors.As(err, &list):
			for _, e := range list {
				if e.Line < 0 || e.Col < 1 || e.Msg == "" || e.Error() == "" {
					t.Errorf("error %+v", e)
				}
			}
		case strings.Contains(src, "%") && strings.Contains(err.Error(), "are no Go"):
		default:
			t.Errorf("the generated code is wrong: %v", err)
		}
	})
}
