package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFileRoundTrip(t *testing.T) {
	data := []int64{0, -1, 1, 1 << 62, -1 << 63, 1<<63 - 1, 42, 42}
	for _, name := range []string{"numbers.txt", "numbers.bin"} {
		name = filepath.Join(t.TempDir(), name)
		out, err := create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := out.write(data[:3]); err != nil {
			t.Fatal(err)
		}
		if err := out.write(data[3:]); err != nil {
			t.Fatal(err)
		}
		if err := out.close(); err != nil {
			t.Fatal(err)
		}
		got, err := readFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, data) {
			t.Errorf("%s: got %v, want %v", name, got, data)
		}
	}
}

func TestFileErrorsNameThePlace(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"words.txt":   {"1\n2\nthree\n", "line 3"},
		"large.txt":   {"9223372036854775808\n", "line 1"},
		"partial.bin": {"12345678123", "3 bytes"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}

func TestGenerate(t *testing.T) {
	a, b, c := generate(1000, 1), generate(1000, 1), generate(1000, 2)
	if len(a) != 1000 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("got %d integers; seed 1 repeats: %v; seed 2 gives the same: %v", len(a), slices.Equal(a, b), slices.Equal(a, c))
	}
}

func TestInput(t *testing.T) {
	if _, err := input("", 0, 1); err == nil {
		t.Error("no input was accepted")
	}
	name := filepath.Join(t.TempDir(), "numbers.txt")
	made, err := input(name, 100, 3)
	if err != nil {
		t.Fatal(err)
	}
	read, err := input(name, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(made, generate(100, 3)) || !slices.Equal(made, read) {
		t.Error("the file does not hold what was generated")
	}
}
