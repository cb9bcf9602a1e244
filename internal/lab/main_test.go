package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// roleEnv makes the test binary play another program.
const roleEnv = "LAB_TEST_ROLE"

// errNoLab says why the tests that need a lab are skipped.
var errNoLab error

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "lab":
		os.Exit(labProgram())
	case "forbid":
		os.Exit(forbidProgram())
	case "check":
		os.Exit(checkProgram())
	}
	errNoLab = ReexecIfNeeded()
	// Orphans of killed labs come to us: many an init takes seconds to reap.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// needLab skips the test where the system forbids labs.
func needLab(t *testing.T) {
	t.Helper()
	if errNoLab == nil {
		return
	}
	if !errors.Is(errNoLab, ErrForbidden) {
		t.Fatal(errNoLab)
	}
	need.Skip(t, "CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", errNoLab)
}

func newLab(t *testing.T, cfg Config) *Lab {
	t.Helper()
	needLab(t)
	cfg.Log = slog.New(slog.DiscardHandler)
	l, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// namespaces returns the network namespaces of the lab's ranks and its
// process namespace as links under /proc show them: "net:[4026532000]".
func (l *Lab) namespaces(t *testing.T) []string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", l.keeper.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	list := []string{link}
	for rank := range l.Size() {
		err := l.Exec(rank, func() error {
			link, err := os.Readlink("/proc/thread-self/ns/net")
			list = append(list, link)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// marked returns the numbers of the processes whose environment contains mark.
func marked(mark string) []string {
	var list []string
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		env, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(env), mark) {
			list = append(list, strings.Split(path, "/")[2])
		}
	}
	return list
}

// links returns the names of the calling thread's namespace's interfaces.
func links(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	return names
}
