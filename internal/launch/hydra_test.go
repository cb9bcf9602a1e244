package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/need"
)

// fakeSSH is an ssh that runs everything here, with options and arguments as hydra gives
// them.
//
// Like ssh it closes what it inherits: hydra leaves it the socket by which proxies reach
// mpiexec, and one that holds that itself would not notice the end of mpiexec.
const fakeSSH = `#!/bin/sh
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
while :; do
	case $1 in
	-o) shift 2 ;;
	-*) shift ;;
	*) break ;;
	esac
done
LAUNCH_TEST_HOST=$1
shift
export LAUNCH_TEST_HOST
` + roleEnv + `=node exec sh -c "$*"
`

// withHydra returns a config whose hosts are reached by fakeSSH, and hydra's mpiexec.
func withHydra(t *testing.T, argv ...string) (c *Config, mpiexec string) {
	t.Helper()
	mpiexec, err := exec.LookPath(Mpiexec)
	if err != nil {
		need.Skip(t, "%s, of Debian's package mpich", Mpiexec)
	}
	ssh := filepath.Join(t.TempDir(), "reach")
	if err := os.WriteFile(ssh, []byte(fakeSSH), 0o700); err != nil {
		t.Fatal(err)
	}
	c = config(argv...)
	c.SSH = []string{ssh}
	return c, mpiexec
}

// hydraHead is a head that is to be killed.
func hydraHead(mpiexec, ssh string, argv []string) error {
	c := config(argv...)
	c.SSH = []string{ssh}
	return c.Hydra(context.Background(), mpiexec)
}

// TestHydraOutput: each rank has its place, its environment, and its arguments as they were,
// and its lines begin with its number; ranks are laid over hosts by core, and by node.
func TestHydraOutput(t *testing.T) {
	t.Setenv("LAUNCH_TEST_TAKEN", "a b'c")
	for by, hosts := range map[Order][]string{ByCore: {"", "", "other", "other"}, ByNode: {"", "other", "", "other"}} {
		c, mpiexec := withHydra(t, "sh", "-c", `echo "$BOBNET_RANK $PMI_RANK of $BOBNET_SIZE $PMI_SIZE on <$LAUNCH_TEST_HOST>: $LAUNCH_TEST_TAKEN<$1><$2><$3>"; [ "$PMI_JOBID" = "$BOBNET_JOB" ] && echo same >&2`,
			"sh", `$HOME "q"`, "", `back\slash`)
		var out, errOut bytes.Buffer
		c.By, c.Stdout, c.Stderr = by, &out, &errOut
		if err := c.Hydra(t.Context(), mpiexec); err != nil {
			t.Fatalf("%v\n%s", err, &errOut)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines)
		for rank, line := range lines {
			if want := fmt.Sprintf(`[%d] %d %d of 4 4 on <%s>: a b'c<$HOME "q"><><back\slash>`, rank, rank, rank, hosts[rank%4]); line != want {
				t.Errorf("by %s: %q, want %q", by, line, want)
			}
		}
		if len(lines) != 4 || strings.Count(errOut.String(), "] same\n") != 4 {
			t.Errorf("by %s: printed\n%s%s", by, &out, &errOut)
		}
	}
}

// TestHydraExit: a rank that fails ends the others, which have not called Init, here and on
// another host, and its exit code comes back.
func TestHydraExit(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		code       int
	}{
		{"well", "exit 0", 0},
		{"one fails", `[ $BOBNET_RANK = 1 ] && exit 3;` + forever, 3},
		{"one there fails", `[ $BOBNET_RANK = 2 ] && exit 4;` + forever, 4},
		{"killed", `[ $BOBNET_RANK = 3 ] && kill -9 $$;` + forever, 137},
		{"deaf", `[ $BOBNET_RANK = 0 ] && exit 7; trap "" TERM;` + forever, 7},
		{"one of them", `[ $BOBNET_RANK = 3 ] && exit 255; exit 0`, 255},
	} {
		c, mpiexec := withHydra(t, "sh", "-c", tc.text)
		var errOut bytes.Buffer
		c.Stderr = &errOut
		err := c.Hydra(t.Context(), mpiexec)
		var failed *HydraError
		if tc.code == 0 && err != nil || tc.code != 0 && (!errors.As(err, &failed) || failed.Code != tc.code) {
			t.Errorf("%s: %v, want code %d\n%s", tc.name, err, tc.code, &errOut)
		}
	}
}

// TestHydraNotFound: the exit code is 127 if no directory of PATH has the command, even if
// execve fails with EACCES in one of them: here because it has a directory of that name, on other
// machines because the user may not search it. It is 126 for a file that is not executable.
func TestHydraNotFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a-directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for argv, code := range map[string]int{"no-such-command": 127, "a-directory": 127, "/etc/passwd": 126} {
		c, mpiexec := withHydra(t, argv)
		var errOut bytes.Buffer
		c.Stderr = &errOut
		var failed *HydraError
		if err := c.Hydra(t.Context(), mpiexec); !errors.As(err, &failed) || failed.Code != code {
			t.Errorf("%s: %v, want code %d\n%s", argv, err, code, &errOut)
		}
	}
}

// TestHydraSays: the first rank that says on its standard error that it has failed ends the job,
// in whatever pieces that comes, and whatever ends mpiexec; what looks like it does not.
func TestHydraSays(t *testing.T) {
	said := func(rank, code int) string {
		return fmt.Sprintf("[%d] bobnet run: rank %d on host a-host ended with exit code %d, which ends the job\n", rank, rank, code)
	}
	long := strings.Repeat("x", 2*maxSaid)
	for _, tc := range []struct {
		name, end string
		pieces    []string
		code      int
	}{
		{"nothing said", "kill -9 $$", nil, 137},
		{"said", "kill -9 $$", []string{said(3, 255)}, 255},
		{"goes on", "exec sleep 1000", []string{said(3, 255)}, 255},
		{"deaf", "trap '' TERM; sleep 1000", []string{said(3, 3)}, 3},
		{"first of two", "exit 0", []string{said(2, 127) + said(3, 126)}, 127},
		{"in pieces", "kill -9 $$", []string{"[0] before\n[3] bobnet r", said(3, 9)[len("[3] bobnet r"):]}, 9},
		{"behind a long line", "kill -9 $$", []string{long, long + "\n" + said(1, 8)}, 8},
		{"within a line", "exit 1", []string{long + "[0] x ", said(1, 8)}, 8},
		{"cited", "exit 5", []string{"[0] he " + said(1, 8)[4:], said(1, 8)[:20] + "\n"}, 5},
		{"code too long", "exit 5", []string{said(1, 8000)}, 5},
	} {
		mpiexec := filepath.Join(t.TempDir(), Mpiexec)
		text := "#!/bin/sh\n"
		for _, p := range tc.pieces {
			text += "printf '%s' '" + p + "' >&2\n"
		}
		if err := os.WriteFile(mpiexec, []byte(text+tc.end+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c := config("true")
		var errOut bytes.Buffer
		c.Stderr = &errOut
		var failed *HydraError
		err := c.Hydra(t.Context(), mpiexec)
		if !errors.As(err, &failed) || failed.Code != tc.code || strings.Contains(err.Error(), " on host a-host failed first: exit code ") == strings.Contains(err.Error(), Mpiexec+": ") {
			t.Errorf("%s: %v, want code %d", tc.name, err, tc.code)
		}
		if errOut.String() != strings.Join(tc.pieces, "") {
			t.Errorf("%s: passed on %q", tc.name, &errOut)
		}
	}
}

// TestHydraInterrupted: when the context ends so do all ranks, those that do not listen to
// SIGTERM, too, and what they have started; who listens can clean up.
func TestHydraInterrupted(t *testing.T) {
	for name, front := range map[string]string{"deaf": `trap "" TERM; `, "cleans up": `trap 'echo cleaned; exit 0' TERM; `} {
		fifo := newFIFO(t)
		c, mpiexec := withHydra(t, "sh", "-c", front+fifo.script)
		var out bytes.Buffer
		c.Stdout = &out
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("Ctrl-C")
		go func() {
			fifo.started(t, 4)
			cancel(cause)
		}()
		if err := c.Hydra(ctx, mpiexec); !errors.Is(err, cause) {
			t.Errorf("%s: %v, want that it was interrupted", name, err)
		}
		if n := strings.Count(out.String(), "] cleaned\n"); name != "deaf" && n != 4 {
			t.Errorf("%s: %d ranks have cleaned up:\n%s", name, n, &out)
		}
		fifo.ended(t)
	}
}

// TestHydraHeadKilled: when the head is killed nothing is left of the job on any host, not
// even a rank that does not listen to SIGTERM.
func TestHydraHeadKilled(t *testing.T) {
	fifo := newFIFO(t)
	c, mpiexec := withHydra(t)
	cmd := exec.Command(c.Own, mpiexec, c.SSH[0], "sh", "-c", `trap "" TERM; `+fifo.script)
	cmd.Env = append(os.Environ(), roleEnv+"=hydra head")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fifo.started(t, 4)
	cmd.Process.Kill()
	cmd.Wait()
	fifo.ended(t)
}

// TestSSHHangs: an ssh that hangs when it is asked how it would reach a host, with what it has
// started, is waited for no longer than a host may take, or until the context ends.
func TestSSHHangs(t *testing.T) {
	for _, name := range []string{"time-out", "interrupted"} {
		fifo := newFIFO(t)
		ssh := filepath.Join(t.TempDir(), "ssh")
		if err := os.WriteFile(ssh, []byte("#!/bin/sh\ncase $* in *-G*) "+fifo.script+" ;; esac\n"+strings.TrimPrefix(fakeSSH, "#!/bin/sh\n")), 0o700); err != nil {
			t.Fatal(err)
		}
		c := config()
		c.SSH = []string{ssh}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("Ctrl-C")
		if name == "time-out" {
			c.Timeout = 2 * time.Second
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Hydra(ctx, "true") }()
		fifo.started(t, 1)
		if name == "interrupted" {
			cancel(cause)
		}
		select {
		case err := <-ended:
			if name == "time-out" && err != nil || name == "interrupted" && !errors.Is(err, cause) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it waits for ssh", name)
		}
		fifo.ended(t)
		cancel(nil)
	}
}

// TestHydraNotStarted: mpiexec that waits for ever for a proxy is ended, with the hosts whose ranks have
// not started. The lines that report starts do not reach the user.
func TestHydraNotStarted(t *testing.T) {
	var out bytes.Buffer
	c := config("true")
	c.N, c.Hosts, c.Timeout = 3, []Host{{"near", 1}, {"far", 1}, {"behind", 1}}, 100*time.Millisecond
	said := &failing{to: &out, first: make(chan *HydraError, 1), named: newNamed([]Answer{{Inv: &Inventory{}}}, nil), started: make(chan int, 3)}
	cmd := &keep.Group{Cmd: exec.Command("sh", "-c", `printf 'bobnet run: rank 0 has started\n[1] end\n' >&2; exec sleep 1000`)}
	cmd.Stderr = said
	io.WriteString(said, "[1] half a line[0] ") // hydra writes a prefix and its line one after the other
	err := c.mpiexec(t.Context(), cmd, said, nil)
	for _, want := range []string{"2 of 3 ranks (on far, behind)", "HYDRA_IFACE", "--engine ssh"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got, want := out.String(), "[1] half a line[1] end\n"; got != want {
		t.Errorf("%q reaches the user, want %q", got, want)
	}
}
