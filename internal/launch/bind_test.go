package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
)

// whereBound is a script by which a rank says on which processors it may run, and what its
// arguments are.
const whereBound = `echo "$BOBNET_RANK on $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) of $BOBNET_PROCESSORS<$1><$2>"`

// TestBound: by both engines, ranks of a host run on one processor each, no two on the same, know
// on how many all do, and get the arguments as they were.
func TestBound(t *testing.T) {
	free, err := lab.Processors()
	if err != nil {
		t.Fatal(err)
	}
	if len(free) < 2 {
		need.Skip(t, "two processors that this process may run on")
	}
	argv := []string{"sh", "-c", whereBound, "sh", `$HOME "q"`, "--bind"}
	check := func(t *testing.T, c *Config, run func() error) {
		t.Helper()
		var out, errOut bytes.Buffer
		c.Bind, c.Stdout, c.Stderr = true, &out, &errOut
		if err := run(); err != nil {
			t.Fatalf("%v\n%s", err, &errOut)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines)
		for rank := range c.N {
			want := fmt.Sprintf(`[%d] %d on %d of 4<$HOME "q"><--bind>`, rank, rank, free[rank%2])
			if rank >= len(lines) || lines[rank] != want {
				t.Errorf("the ranks say %q, want %q of rank %d", lines, want, rank)
			}
		}
	}
	t.Run("ssh", func(t *testing.T) {
		c := config(argv...)
		check(t, c, func() error { return c.Run(t.Context()) })
	})
	t.Run("hydra", func(t *testing.T) {
		c, mpiexec := withHydra(t, argv...)
		check(t, c, func() error { return c.Hydra(t.Context(), mpiexec) })
	})
}

// TestBoundTooMany: a host that has fewer processors than ranks to bind is named, and nothing is
// started.
func TestBoundTooMany(t *testing.T) {
	const many = 4000
	mark := filepath.Join(t.TempDir(), "started")
	refused := func(c *Config, run func() error) {
		t.Helper()
		c.Bind, c.Hosts, c.N = true, []Host{{"localhost", 1}, {"other", many}}, 1+many
		const want = "nothing was started: host other has "
		if err := run(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("processors for %d bound ranks", many)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := config("touch", mark)
	refused(c, func() error { return c.Run(t.Context()) })
	h, mpiexec := withHydra(t, "touch", mark)
	refused(h, func() error { return h.Hydra(t.Context(), mpiexec) })
	if _, err := os.Stat(mark); err == nil {
		t.Error("a rank was started")
	}
}

// TestBoundEnds: commands that cannot be run have the exit codes that they have without a
// binding, and a node that is killed takes its bound ranks with it.
func TestBoundEnds(t *testing.T) {
	for argv, code := range map[string]int{"no such command": 127, "/etc/passwd": 126} {
		c := config(argv)
		c.Bind, c.Hosts, c.N = true, []Host{{"localhost", 1}}, 1
		var exit *ExitError
		if err := c.Run(t.Context()); !errors.As(err, &exit) || exit.Code != code {
			t.Errorf("%s: %v, want code %d", argv, err, code)
		}
		h, mpiexec := withHydra(t, argv)
		h.Bind, h.Hosts, h.N = true, []Host{{"localhost", 1}}, 1
		var failed *HydraError
		if err := h.Hydra(t.Context(), mpiexec); !errors.As(err, &failed) || failed.Code != code {
			t.Errorf("by hydra, %s: %v, want code %d", argv, err, code)
		}
	}
	fifo := newFIFO(t)
	c := config("sh", "-c", `exec 9>`+fifo.out.Name()+`; echo started >&9; kill -9 $PPID; exec sleep 1000`)
	c.Bind, c.Hosts, c.N = true, []Host{{"localhost", 1}}, 1
	var exit *ExitError
	if err := c.Run(t.Context()); !errors.As(err, &exit) || exit.Rank != -1 {
		t.Errorf("a node that is killed: %v", err)
	}
	fifo.ended(t)
}
