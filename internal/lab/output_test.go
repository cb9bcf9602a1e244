package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

// TestPrefix: every line carries its rank, and no line is torn though it is
// written in pieces.
func TestPrefix(t *testing.T) {
	l := newLab(t, Config{N: 4})
	const lines = 200
	text := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do
		printf "rank $BOBNET_RANK"; printf " line $i"; printf "\n"; i=$((i+1)); done; printf "no newline" >&2`, lines)
	var out, errs bytes.Buffer
	err := l.Run(t.Context(), []string{"sh", "-c", text}, RunOptions{Prefix: true, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, l.Size())
	for line := range strings.Lines(out.String()) {
		var prefix, rank, i int
		if n, err := fmt.Sscanf(line, "[%d] rank %d line %d\n", &prefix, &rank, &i); n != 3 || prefix != rank || i != next[rank] {
			t.Fatalf("torn, lost or wrongly marked line %q: %v", line, err)
		}
		next[rank]++
	}
	for rank, n := range next {
		if n != lines {
			t.Errorf("%d lines from rank %d, want %d", n, rank, lines)
		}
	}
	got := slices.Sorted(strings.Lines(errs.String()))
	want := []string{"[0] no newline\n", "[1] no newline\n", "[2] no newline\n", "[3] no newline\n"}
	if !slices.Equal(got, want) {
		t.Errorf("standard error is %q, want %q", got, want)
	}
}

// TestStream: what becomes of a rank's bytes on their way.
func TestStream(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"a\n", "[7] a\n"},
		{"a\n\nb", "[7] a\n[7] \n[7] b\n"},
		{"\x00\xff\r\n", "[7] \x00\xff\r\n"},
		{long[1:] + "\n", "[7] " + long[1:] + "\n"},
		{long + "yz\n", "[7] " + long + "\n[7] yz\n"},
	} {
		var out bytes.Buffer
		p := &printer{prefix: true}
		w, s, err := p.stream(7, &out)
		if err != nil {
			t.Fatal(err)
		}
		go s.copy()
		if _, err := w.WriteString(tt.in); err != nil {
			t.Fatal(err)
		}
		w.Close()
		s.finish()
		<-s.done
		if out.String() != tt.want {
			t.Errorf("%.20q... becomes %.20q..., want %.20q...", tt.in, out.String(), tt.want)
		}
	}
}

// TestDaemonSays: what a rank has left behind with its output open, and goes on to write, is
// waited for no longer than if it said nothing; and the rank's own output is all there,
// though nobody took it before.
func TestDaemonSays(t *testing.T) {
	out := &held{entered: make(chan struct{}), leave: make(chan struct{})}
	child, finish, err := Lines(out)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close() // the daemon's
	mine := "first\n"
	if _, err := child.WriteString(mine); err != nil {
		t.Fatal(err)
	}
	<-out.entered // what is written from here on stays in the pipe
	more := strings.Repeat("of the rank\n", 3000)
	if _, err := child.WriteString(more); err != nil {
		t.Fatal(err)
	}
	mine += more
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		finish()
	}()
	stop := time.After(time.Minute)
	release := time.After(grace + time.Second) // the output is taken only when the time is up
	for {
		select {
		case <-finished:
			if text := out.String(); !strings.HasPrefix(text, mine) {
				t.Errorf("%d bytes have been written, which do not begin with the rank's %d", len(text), len(mine))
			}
			return
		case <-release:
			close(out.leave)
		case <-time.After(grace / 20):
			child.SetWriteDeadline(time.Now().Add(grace / 20)) // nobody may read
			child.WriteString("of the daemon\n")
		case <-stop:
			t.Fatal("it waits for a daemon that goes on to write")
		}
	}
}

// held is a buffer that says when it is first written to, and takes nothing before leave is closed.
type held struct {
	once           sync.Once
	entered, leave chan struct{}
	bytes.Buffer
}

func (h *held) Write(b []byte) (int, error) {
	h.once.Do(func() { close(h.entered) })
	<-h.leave
	return h.Buffer.Write(b)
}

// TestPlainFiles: without prefixes the ranks get our own file.
func TestPlainFiles(t *testing.T) {
	file, s, err := new(printer).stream(0, os.Stderr)
	if file != os.Stderr || s != nil || err != nil {
		t.Errorf("stream returned %v, %v, %v; want the file itself", file, s, err)
	}
}

func TestColour(t *testing.T) {
	if got := Prefix(12, false); got != "[12] " {
		t.Errorf("prefix without colour is %q", got)
	}
	if got := Prefix(12, true); !strings.HasPrefix(got, "\x1b[") || !strings.HasSuffix(got, "[12]\x1b[0m ") {
		t.Errorf("prefix with colour is %q", got)
	}
	if IsTerminal(new(bytes.Buffer)) {
		t.Error("a buffer is no terminal")
	}
}

func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		path, value, want string
	}{
		{"kernel/apparmor_restrict_unprivileged_userns", "1\n", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/apparmor_restrict_unprivileged_userns", "0\n", "run it as root"},
		{"kernel/unprivileged_userns_clone", "0\n", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0\n", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"user/max_user_namespaces", "10\n", "run it as root"},
		{"user/max_net_namespaces", "0\n", "sudo sysctl -w user.max_net_namespaces=15000"},
	} {
		got := advice(fstest.MapFS{tt.path: {Data: []byte(tt.value)}})
		if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("with %s = %q the advice is\n%s\nwant only %q", tt.path, tt.value, got, tt.want)
		}
	}
	both := advice(fstest.MapFS{
		"user/max_user_namespaces":         {Data: []byte("0\n")},
		"kernel/unprivileged_userns_clone": {Data: []byte("0\n")},
	})
	if lines := strings.Split(both, "\n"); len(lines) != 2 {
		t.Errorf("two obstacles, but the advice is\n%s", both)
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		err       error
		forbidden bool
	}{
		{unix.EPERM, true}, {unix.ENOSPC, true}, {unix.EROFS, true}, {unix.EOPNOTSUPP, false}, {unix.EINVAL, false},
	} {
		err := explain("asking", tt.err)
		if errors.Is(err, ErrForbidden) != tt.forbidden || !strings.Contains(err.Error(), tt.err.Error()) {
			t.Errorf("explain(%v) = %v, forbidden: want %t", tt.err, err, tt.forbidden)
		}
	}
}
