package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/internal/ctest"
)

// patience only guards against hangs.
const patience = 2 * time.Minute

// tree makes a directory with files of all lengths that matter, more entries than a page
// has, and links.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	rng := rand.NewChaCha8([32]byte{1})
	lengths := []int{0, 1, 3, 4096, files.FileMaxData - 1, files.FileMaxData, files.FileMaxData + 1, 6*files.FileMaxData + 77}
	for _, sub := range []string{".", "a", "a/b", "empty", "a/b/with space and ü"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, n := range lengths {
			if sub == "empty" || i > 3 && sub != "a/b" {
				continue
			}
			data := make([]byte, n)
			rng.Read(data)
			if err := os.WriteFile(filepath.Join(dir, sub, fmt.Sprint("file", i)), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 2*files.FileMaxPage + 1 {
		if err := os.WriteFile(filepath.Join(dir, "many", fmt.Sprint(i)), []byte{byte(i)}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveTCP serves a directory and returns the address.
func serveTCP(t *testing.T, dir string, write bool) string {
	t.Helper()
	return servePlace(t, place{addr: "127.0.0.1:0"}, dir, write)
}

func servePlace(t *testing.T, at place, dir string, write bool) string {
	t.Helper()
	s, addr, err := start(at, dir, write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return addr.String()
}

// command runs the program's command line and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, args, &out); err != nil {
		t.Fatalf("fileserver %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// TestCopies: a tree that is streamed, fetched and sent is the same everywhere.
func TestCopies(t *testing.T) {
	dir := tree(t)
	addr := serveTCP(t, dir, false)
	want := command(t, "sum", dir)
	if !strings.Contains(want, "  533 files, 9454174 bytes") || !strings.Contains(want, "(1 others skipped") {
		t.Fatalf("the tree: %s", want)
	}
	if got := command(t, "hash", "-addr", addr); got != want {
		t.Errorf("streamed %s, want %s", got, want)
	}
	to := filepath.Join(t.TempDir(), "new", "copy")
	if got := command(t, "get", "-addr", addr, ".", to); got != want {
		t.Errorf("fetched %s, want %s", got, want)
	}
	want, _, _ = strings.Cut(want, " (") // links are not copied
	want += "\n"
	if got := command(t, "sum", to); got != want {
		t.Errorf("here is %s, want %s", got, want)
	}
	other := t.TempDir()
	writable := serveTCP(t, other, true)
	if got := command(t, "put", "-addr", writable, to, "up"); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	if got := command(t, "sum", filepath.Join(other, "up")); got != want {
		t.Errorf("there is %s, want %s", got, want)
	}
	sub := command(t, "hash", "-addr", writable, "up/a/b")
	if want := command(t, "sum", filepath.Join(dir, "a/b")); sub != want {
		t.Errorf("streamed of a part %s, want %s", sub, want)
	}
}

// TestVMMC: one server answers clients over VMMC and by TCP at once, and all of them see the
// same tree.
func TestVMMC(t *testing.T) {
	t.Setenv("BOBNET_DRIVER", "shm")
	name := fmt.Sprint("test ", os.Getpid())
	dir := tree(t)
	addr := servePlace(t, place{addr: "127.0.0.1:0", vmmc: name}, dir, true)
	want := command(t, "sum", dir)
	streamed := make(chan string)
	for _, how := range [][]string{{"-vmmc", name}, {"-addr", addr}, {"-vmmc", name}} {
		go func() {
			var out bytes.Buffer
			if err := run(t.Context(), append([]string{"hash"}, how...), &out); err != nil {
				t.Errorf("%v: %v", how, err)
			}
			streamed <- out.String()
		}()
	}
	for range 3 {
		if got := <-streamed; got != want {
			t.Errorf("streamed %s, want %s", got, want)
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	command(t, "get", "-vmmc", name, "a/b", to)
	command(t, "put", "-vmmc", name, to, "up")
	if got, want := command(t, "sum", filepath.Join(dir, "up")), command(t, "sum", filepath.Join(dir, "a/b")); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// TestCClient: the C client, which rpcgen and libtirpc are the halves of, copies the same tree.
func TestCClient(t *testing.T) {
	program := ctest.Build(t, "internal/files/files.x", []string{"-c", "-l"}, "cclient/client.c")
	dir := tree(t)
	host, port, err := net.SplitHostPort(serveTCP(t, dir, false))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, host, port, ".", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, _, _ := strings.Cut(command(t, "sum", dir), " (")
	if got := command(t, "sum", to); got != want+"\n" {
		t.Errorf("the C client has %s, want %s", got, want)
	}
	out, err := exec.CommandContext(ctx, program, host, port, "none", filepath.Join(to, "none")).CombinedOutput()
	if err == nil || string(out) != "client: list none: status 1\n" {
		t.Errorf("of no directory: %v, %s", err, out)
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"serve", "-addr", "127.0.0.1:0", t.TempDir()}, w)
		w.Close()
	}()
	line := make([]byte, 200)
	if n, err := r.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "serving ") {
		t.Errorf("%q, %v", line[:n], err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{}, {"what"}, {"serve"}, {"get", "a"}, {"put", "a"}, {"sum"}, {"hash", "a", "b"}} {
		if err := run(t.Context(), args, w); err == nil || !strings.HasPrefix(err.Error(), "use: ") {
			t.Errorf("%v: %v", args, err)
		}
	}
	var help strings.Builder
	if err := run(t.Context(), []string{"-help"}, &help); err != nil || !strings.Contains(help.String(), "Fileserver serves") || !strings.Contains(help.String(), "fileserver serve .") {
		t.Errorf("-help: %v\n%s", err, &help)
	}
	if err := run(t.Context(), []string{"serve", filepath.Join(t.TempDir(), "none")}, w); err == nil {
		t.Error("a directory that is none is served")
	}
}
