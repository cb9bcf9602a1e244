package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// heldEnv marks all processes of a job whose launcher is killed.
const heldEnv = "BOBNET_TEST_HELD"

// heldRole is a rank that meets the others and exchanges messages with them until it is ended.
func heldRole(ctx context.Context) error {
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	for round := int64(0); ; round++ {
		if err := mplite.Allreduce(ctx, comm, []int64{round}, make([]int64, 1), mplite.Sum[int64]()); err != nil {
			return err
		}
		if round == 100 && comm.Rank() == 0 {
			fmt.Printf("%d ranks are under way\n", comm.Size())
		}
	}
}

// TestHydraKilled: mpiexec is killed, or told to end, while ranks run.
func TestHydraKilled(t *testing.T) {
	mpiexec := tool(t, "mpiexec.hydra", "mpich")
	l := newLab(t, lab.Config{N: 1})
	for _, mode := range [][]string{nil, {"-pmi-port"}} {
		for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGTERM} {
			t.Run(fmt.Sprint(mode, sig), func(t *testing.T) {
				launcherKilled(t, l, nil, sig, append(append([]string{mpiexec, "-localhost", "localhost"}, mode...), "-n", "3")...)
			})
		}
	}
}

// TestHydraKilledEarly: mpiexec is killed while it starts ranks, when so many of the job's
// processes run. They end all the same, although hydra's proxy may stay then, and spin.
func TestHydraKilledEarly(t *testing.T) {
	mpiexec := tool(t, "mpiexec.hydra", "mpich")
	l := newLab(t, lab.Config{N: 1})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, processes := range []int{2, 3, 4, 5} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			j := launch(t, l, []string{vipl.EnvTimeout + "=5s"}, mpiexec, "-localhost", "localhost", "-n", "3")
			for end := time.Now().Add(patience); len(marked(j.mark)) < processes; {
				if time.Now().After(end) {
					t.Fatalf("no more than these run: %v", j.left(""))
				}
			}
			j.end(t, unix.SIGKILL)
			leaktest.None(t, "ranks", func() []string { return j.left(self) })
		})
	}
}

// TestSlurmKilled: srun is killed, or told to end, while ranks run. Slurm ends those of an srun
// that was killed when it has not answered for InactiveLimit, for which it looks every 30 seconds.
func TestSlurmKilled(t *testing.T) {
	need.Long(t, "Slurm takes seconds to start and a minute to notice; TestHydraKilled is the short form")
	t.Parallel() // it waits for slurmctld nearly all the time
	for _, name := range []string{"slurmctld", "slurmd", "srun", "sinfo"} {
		tool(t, name, "slurm-wlm")
	}
	tool(t, "munged", "munge")
	asRoot(t)
	l := newLab(t, lab.Config{N: 1})
	env := startSlurm(t, l)
	for _, mode := range []string{"none", "pmi2"} {
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
			t.Run(mode+" "+sig.String(), func(t *testing.T) {
				launcherKilled(t, l, env, sig, "srun", "--mpi="+mode, "-n", "3")
			})
		}
	}
}

// launched is a job that a launcher has started.
type launched struct {
	*player
	mark string // in the environment of all its processes
}

// launch has a launcher start ranks. What is left of them ends with the test.
func launch(t *testing.T, l *lab.Lab, env []string, argv ...string) *launched {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark := heldEnv + "=" + strings.ReplaceAll(t.Name(), "/", "-") + "-" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		for _, pid := range marked(mark) {
			unix.Kill(pid, unix.SIGKILL)
		}
	})
	return &launched{playOne(t, l, 0, bare(append(argv, self)...), append(slices.Clone(env), mark, roleEnv+"=held")...), mark}
}

// end sends the launcher, and nothing that it has started, a signal, of which it ends.
func (j *launched) end(t *testing.T, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(j.Pid(), sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-j.Done():
	case <-time.After(patience):
		t.Fatalf("the launcher goes on after the signal %v", sig)
	}
}

// left returns the processes of the job whose command has this text.
func (j *launched) left(text string) (left []string) {
	for _, pid := range marked(j.mark) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if command := string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})); strings.Contains(command, text) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, command))
		}
	}
	return left
}

// launcherKilled has a launcher start ranks, sends it a signal when they are under way, and wants
// that all end, and leave no process, socket or memory. Slurm takes its time.
func launcherKilled(t *testing.T, l *lab.Lab, env []string, sig unix.Signal, argv ...string) {
	t.Helper()
	j := launch(t, l, env, argv...)
	if line := j.line(t); line != "3 ranks are under way" {
		t.Fatalf("%v says %q", argv, line)
	}
	ranks, shared := 0, []string{}
	for _, pid := range marked(j.mark) {
		if inodes := sharedBy(pid); len(inodes) > 0 {
			ranks, shared = ranks+1, append(shared, inodes...)
		}
	}
	if ranks != 3 {
		t.Fatalf("%d of these share memory, want 3 ranks: %v", ranks, j.left(""))
	}
	j.end(t, sig)
	for end := time.Now().Add(patience); len(j.left("")) > 0 && time.Now().Before(end); {
		<-time.After(20 * time.Millisecond)
	}
	leaktest.None(t, "processes of the job", func() []string { return j.left("") })
	leaktest.None(t, "sockets", func() (left []string) {
		if err := l.Exec(0, func() error {
			left = sockets()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(left, func(s string) bool { // of Slurm's servers
			return strings.HasPrefix(s, "unix: ") && !strings.Contains(s, "@bobnet")
		})
	})
	leaktest.None(t, "memory that the ranks shared", func() []string { return stillMapped(shared) })
}

// marked returns the processes of this machine that have a setting in their environment.
func marked(setting string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		text, _ := os.ReadFile(name) // of those that have just ended nothing
		if slices.Contains(strings.Split(string(text), "\x00"), setting) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
