package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/job"
	"golang.org/x/sys/unix"
)

// Mpiexec is the name of the command of MPICH's process manager, hydra.
const Mpiexec = "mpiexec.hydra"

// Remote reports whether c has a host other than this one.
func (c *Config) Remote() bool {
	for _, h := range c.Hosts {
		if !h.local() {
			return true
		}
	}
	return false
}

// HydraTakes returns an error if hydra cannot run c. Hydra parses the text after a colon in a host's
// name as a number of ranks. Its round-robin assignment ignores the slots of hosts. It
// uses one path of the bobnet command for all hosts.
func (c *Config) HydraTakes() error {
	for _, h := range c.Hosts {
		if h.numeric() {
			return fmt.Errorf("run: hydra does not support IPv6 addresses such as %s (use the host's name, or --engine ssh)", h.Name)
		}
		if h.local() && c.Program != c.Own {
			if _, err := os.Stat(c.Program); err != nil {
				return fmt.Errorf("run: hydra uses the same --program on all hosts, and %s does not exist on this one (use --engine ssh)", c.Program)
			}
		}
	}
	if c.By == ByNode {
		for rank, host := range Assign(c.N, c.Hosts, ByNode) {
			if in := rank % len(c.Hosts); host != in {
				return fmt.Errorf("run: with --map node hydra ignores slots: it would start rank %d on %s instead of %s (give all hosts the same number of slots, or use --engine ssh)",
					rank, c.Hosts[in].Name, c.Hosts[host].Name)
			}
		}
	}
	return nil
}

// Hydra is like Run, but hydra's mpiexec starts the ranks and serves PMI-1. It checks the hosts
// first, as Run does. Hydra's ssh uses the connections of this check if ssh can share them. The
// exit code is that of the first failed rank, which ends the job (failing); for a killed rank it is
// 128 plus the signal.
func (c *Config) Hydra(ctx context.Context, mpiexec string) error {
	if err := c.HydraTakes(); err != nil {
		return err
	}
	shared := c.share(ctx)
	defer shared.end()
	with := *c
	with.SSH = shared.ssh(c.SSH, "ControlMaster=yes")
	nodes, answers := with.connect(ctx, c.Hosts)
	defer leaveAll(nodes) // closes their connections
	if ctx.Err() != nil {
		return fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
	}
	seats := Assign(c.N, c.Hosts, c.By)
	findings := c.judge(answers, seats)
	if err := refusal(findings); err != nil {
		return err
	}
	c.warn(findings)
	cmd := &keep.Group{Cmd: exec.Command(mpiexec, c.hydraArgs()...)}
	said := &failing{to: c.Stderr, first: make(chan *HydraError, 1), named: newNamed(answers, seats), started: make(chan int, c.N)}
	cmd.Stdout, cmd.Stderr = c.Stdout, said
	cmd.Env = append(c.inherited(), job.EnvJob+"="+newJob(),
		"HYDRA_LAUNCHER_EXTRA_ARGS="+strings.Join(shared.ssh(c.SSH, "ControlMaster=no")[1:], " "))
	used := make([]*remote, 0, len(nodes)) // all hosts have answered, so nodes has the same order
	for i, r := range nodes {
		if slices.Contains(seats, i) {
			used = append(used, r)
		}
	}
	err := c.mpiexec(ctx, cmd, said, watch(used, c.silence()))
	var first *HydraError
	if errors.As(err, &first) { // a lost host may be the cause even if a rank's failure is detected first
		first.Silent = silent(used, c.overdue())
	}
	return err
}

// mpiexec runs hydra's mpiexec. However this process ends, mpiexec is killed; its proxies detect this
// and kill the ranks. When ctx is done, a rank has failed, or a host is lost, mpiexec passes SIGTERM to
// all ranks, and is killed two seconds later. The same happens if ranks are
// missing and hydra has started none for c.Timeout: mpiexec waits for ever for a proxy that cannot
// connect to it.
func (c *Config) mpiexec(ctx context.Context, cmd *keep.Group, said *failing, lost <-chan *ExitError) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = grace
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends the signal when the starting thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Reap()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run: %w", err)
	}
	late := time.NewTimer(c.Timeout)
	defer late.Stop()
	var err, stopped error
	missing := make(map[int]bool, c.N)
	for rank := range c.N {
		missing[rank] = true
	}
	for running := true; running && stopped == nil; {
		select {
		case rank := <-said.started:
			if delete(missing, rank); len(missing) == 0 {
				late.Stop()
			} else {
				late.Reset(c.Timeout)
			}
		case <-late.C:
			stopped = c.notStarted(missing)
		case err = <-ended:
			running = false
		case first := <-said.first:
			stopped = first
		case gone := <-lost:
			stopped = gone
		case <-ctx.Done():
			stopped = fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
		}
	}
	if stopped != nil {
		cmd.Signal(unix.SIGTERM)
		timer := time.AfterFunc(grace, func() { cmd.Signal(unix.SIGKILL) })
		<-ended
		timer.Stop()
		return stopped
	}
	select {
	case first := <-said.first:
		return first
	default:
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &HydraError{State: Mpiexec + ": " + exit.String(), Code: max(keep.ExitCode(exit.ProcessState), 1)}
	}
	return err
}

// notStarted is the error of a job of which hydra has not started some ranks.
func (c *Config) notStarted(missing map[int]bool) error {
	seats := Assign(c.N, c.Hosts, c.By)
	var hosts []string
	for _, rank := range slices.Sorted(maps.Keys(missing)) {
		if name := c.Hosts[seats[rank]].Name; !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	name, _ := os.Hostname()
	return fmt.Errorf("run: hydra has not started %d of %d ranks (on %s), and none for %v: can these hosts connect to this one by its name, %s? (set HYDRA_IFACE=INTERFACE to an interface of this host that they reach, or use --engine ssh)",
		len(missing), c.N, strings.Join(hosts, ", "), c.Timeout, name)
}

// HydraError reports that a job under hydra failed.
type HydraError struct {
	State  string   // which rank failed first, and how; or how mpiexec ended, if no rank reported a failure: a rank called Abort, or hydra failed
	Code   int      // exit code of that rank or of mpiexec
	Silent []Silent // hosts that missed a keep-alive message, a possible cause of the failure
	Named  Named    // the host in the errors of that rank, if any
}

// Error describes the failure.
func (e *HydraError) Error() string { return withSilent(e.Named.withHost("run: "+e.State), e.Silent) }

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
	args = append(args, c.Program, keep.RankVerb)
	if c.Bind {
		args = append(args, c.Program, bindVerb)
	}
	return append(args, c.Argv...)
}

// saidFailed matches a keep.FailedLine in the output of mpiexec. Hydra adds a prefix. The line can
// appear within a line of another rank.
var saidFailed = regexp.MustCompile(`\[\d+\] bobnet run: rank (\d{1,9}) on host (\S+) ended with exit code (\d{1,3}), which ends the job\n$`)

// saidStarted matches a keep.StartedLine likewise.
var saidStarted = regexp.MustCompile(`\[\d+\] bobnet run: rank (\d{1,9}) has started\n$`)

// prefixAtEnd matches the prefix of a line that has not arrived yet: hydra writes both one after the other.
var prefixAtEnd = regexp.MustCompile(`\[\d{0,9}\]? ?$`)

// saidBy matches a line of a rank in the output of mpiexec.
var saidBy = regexp.MustCompile(`^\[(\d{1,9})\] `)

// maxSaid is the maximum number of bytes kept of a line: its last ones.
const maxSaid = 512

// failing forwards the standard error of mpiexec, but not the lines that report the start of a rank. It
// sends the first reported failure of a rank to the channel first, and the ranks that have started to
// started. Both are buffered.
type failing struct {
	to      io.Writer
	first   chan *HydraError
	started chan int
	named   *named
	told    bool
	line    []byte // the last bytes of the current line
	rest    []byte // not yet forwarded: a prefix whose line may report a start
}

// Write implements io.Writer.
func (f *failing) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		f.rest = append(f.rest, part...)
		if !f.told {
			f.rest = f.rest[:max(len(f.rest)-f.note(part), 0)]
		}
	}
	n := len(f.rest) - len(prefixAtEnd.Find(f.rest))
	_, err := f.to.Write(f.rest[:n])
	f.rest = append(f.rest[:0], f.rest[n:]...)
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// note examines a line, or a part of one. It returns how many bytes at the end of the line are not to be
// forwarded.
func (f *failing) note(part []byte) (drop int) {
	f.line = append(f.line, part...)
	f.line = f.line[max(len(f.line)-maxSaid, 0):]
	if part[len(part)-1] != '\n' {
		return 0
	}
	if said := saidStarted.FindSubmatch(f.line); said != nil {
		drop = len(said[0])
		rank, _ := strconv.Atoi(string(said[1])) // digits
		select {
		case f.started <- rank:
		default: // a program prints such lines
		}
	} else if said := saidFailed.FindSubmatch(f.line); said != nil {
		code, _ := strconv.Atoi(string(said[3])) // digits
		rank, _ := strconv.Atoi(string(said[1]))
		f.first <- &HydraError{State: fmt.Sprintf("rank %s on host %s failed first: exit code %d", said[1], said[2], code), Code: code, Named: f.named.by(rank)}
		f.told = true
	} else if said := saidBy.FindSubmatch(f.line); said != nil {
		rank, _ := strconv.Atoi(string(said[1]))
		f.named.note(rank, f.line)
	}
	f.line = f.line[:0]
	return drop
}
