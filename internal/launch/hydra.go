package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/job/pmi"
	"golang.org/x/sys/unix"
)

// Mpiexec is what MPICH's process manager, hydra, is called where it is installed beside
// others.
const Mpiexec = "mpiexec.hydra"

// Remote reports whether a host of c is another one than this.
func (c *Config) Remote() bool {
	for _, h := range c.Hosts {
		if !h.local() {
			return true
		}
	}
	return false
}

// HydraTakes says what of c hydra cannot be told: a host whose name has a colon, since it takes
// what is behind that for a number of ranks, and how many ranks a host takes of those that it
// deals out one by one.
func (c *Config) HydraTakes() error {
	for _, h := range c.Hosts {
		if h.numeric() {
			return fmt.Errorf("run: hydra takes no IPv6 address as a host, such as %s: give its name, or use --engine ssh", h.Name)
		}
	}
	if c.By == ByNode {
		for rank, host := range Assign(c.N, c.Hosts, ByNode) {
			if in := rank % len(c.Hosts); host != in {
				return fmt.Errorf("run: with --map node hydra starts rank %d on %s, however many ranks a host takes, and not on %s: give all hosts as many, or use --engine ssh",
					rank, c.Hosts[in].Name, c.Hosts[host].Name)
			}
		}
	}
	return nil
}

// Hydra is Run by the mpiexec of hydra, which serves PMI-1 itself. The hosts are looked at
// first, as Run does, and hydra's ssh uses the connections that were made for that, where
// ssh can share them. The exit code is that of the rank that failed first, as far as hydra
// knows; of a rank that was killed it is 128 plus the signal.
func (c *Config) Hydra(ctx context.Context, mpiexec string) error {
	if err := c.HydraTakes(); err != nil {
		return err
	}
	shared := c.share(ctx)
	defer shared.end()
	with := *c
	with.SSH = shared.ssh(c.SSH, "ControlMaster=yes")
	nodes, answers := with.connect(ctx, c.Hosts)
	defer leaveAll(nodes) // with them their connections end
	if ctx.Err() != nil {
		return fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
	}
	seats := Assign(c.N, c.Hosts, c.By)
	findings := c.judge(answers, seats)
	if err := refusal(findings); err != nil {
		return err
	}
	c.warn(findings)
	cmd := &group{Cmd: exec.Command(mpiexec, c.hydraArgs()...)}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.Env = append(c.inherited(), job.EnvJob+"="+newJob(),
		"HYDRA_LAUNCHER_EXTRA_ARGS="+strings.Join(shared.ssh(c.SSH, "ControlMaster=no")[1:], " "))
	used := make([]*remote, 0, len(nodes)) // all hosts have answered, and nodes are as these
	for i, r := range nodes {
		if slices.Contains(seats, i) {
			used = append(used, r)
		}
	}
	return c.mpiexec(ctx, cmd, watch(used, c.silence()))
}

// mpiexec runs hydra's mpiexec. It is killed when this process ends, in whatever way: its
// proxies notice, and kill the ranks. When ctx is done, or a host is lost, it passes SIGTERM
// to all ranks, and is killed two seconds later.
func (c *Config) mpiexec(ctx context.Context, cmd *group, lost <-chan *ExitError) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = grace
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread that has started it ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.reap()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run: %w", err)
	}
	var err, stopped error
	select {
	case err = <-ended:
	case gone := <-lost:
		stopped = gone
	case <-ctx.Done():
		stopped = fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
	}
	if stopped != nil {
		cmd.signal(unix.SIGTERM)
		timer := time.AfterFunc(grace, func() { cmd.signal(unix.SIGKILL) })
		<-ended
		timer.Stop()
		return stopped
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &HydraError{State: exit.String(), Code: max(lab.ExitCode(exit.ProcessState), 1)}
	}
	return err
}

// HydraError reports that a job failed that hydra ran.
type HydraError struct {
	State string // of hydra
	Code  int
}

// Error says how hydra ended.
func (e *HydraError) Error() string { return "run: " + Mpiexec + " ended with " + e.State }

// hydraRank is what hydra starts as each rank: a shell, because 64 of these start in less
// time than 64 of this program. It adds BOBNET_* to what hydra says, and runs the command.
// If that fails it has the job end with its code (Abort): hydra by itself would let the
// others go on when a rank fails that has not called Init. What the command has left running
// in its process group, which the shell leads, gets SIGTERM.
//
// Its arguments are this program and the command.
const hydraRank = `: "${` + pmi.EnvRank + `:?is not set: bobnet run has this started by ` + Mpiexec + `}"; ` +
	`export ` + job.EnvRank + `="$` + pmi.EnvRank + `" ` + job.EnvSize + `="$` + pmi.EnvSize + `" ` + pmi.EnvJob + `="$` + job.EnvJob + `"; ` +
	`trap : HUP INT TERM; bobnet=$1; shift; "$@"; code=$?; trap "" TERM; kill -s TERM -- "-$$" 2>/dev/null; [ $code = 0 ] || exec "$bobnet" rank $code`

// hydraArgs returns the arguments of mpiexec.
func (c *Config) hydraArgs() []string {
	hosts := make([]string, len(c.Hosts))
	for i, h := range c.Hosts {
		hosts[i] = h.Name + ":" + strconv.Itoa(h.Slots)
	}
	args := []string{"-launcher", "ssh", "-launcher-exec", c.SSH[0], "-hosts", strings.Join(hosts, ","), "-n", strconv.Itoa(c.N), "-prepend-pattern", "[%r] "}
	if c.By == ByNode {
		args = append(args, "-ppn", "1")
	}
	for _, v := range c.asked() {
		args = append(args, "-genv", v.name, v.value)
	}
	args = append(args, "/bin/sh", "-c", hydraRank, "bobnet rank", c.Program)
	if c.Bind {
		args = append(args, c.Program, bindVerb)
	}
	return append(args, c.Argv...)
}

// Abort is for a rank that hydra has started, and whose command has failed: it says so on w,
// because hydra does not, and has hydra end the job with the command's exit code, which is
// not 0. The caller ends with it, too.
func Abort(w io.Writer, code int) error {
	if code < 1 || code > 255 { // hydra would take its low 8 bits, and those of 256 are 0
		return fmt.Errorf("rank: exit code %d, with which no command fails: want 1 to 255", code)
	}
	number := os.Getenv(pmi.EnvFD)
	fd, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("rank: %s is %q, want a descriptor: bobnet run has this started by %s", pmi.EnvFD, number, Mpiexec)
	}
	host, _ := os.Hostname()
	fmt.Fprintf(w, "bobnet run: rank %s on host %s ended with exit code %d, which ends the job\n", os.Getenv(pmi.EnvRank), host, code)
	// A rank that has finalized is not connected any more, and nobody waits for it.
	_, err = unix.Write(fd, fmt.Appendf(nil, "cmd=abort exitcode=%d\n", code))
	if err != nil && err != unix.EPIPE && err != unix.ECONNRESET && err != unix.EBADF {
		return fmt.Errorf("rank: abort: %w", err)
	}
	return nil
}
