package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// HydraTakes says which host of c hydra cannot be told: it takes what is behind a colon for
// a number of ranks.
func (c *Config) HydraTakes() error {
	for _, h := range c.Hosts {
		if h.numeric() {
			return fmt.Errorf("run: hydra takes no IPv6 address as a host, such as %s: give its name, or use --engine ssh", h.Name)
		}
	}
	return nil
}

// Hydra is Run by the mpiexec of hydra, which serves PMI-1 itself. The hosts are looked at
// first, as Run does. The exit code is hydra's, which is made of those of all ranks.
func (c *Config) Hydra(ctx context.Context, mpiexec string) error {
	if err := c.HydraTakes(); err != nil {
		return err
	}
	findings := c.Survey(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
	}
	if err := refusal(findings); err != nil {
		return err
	}
	c.warn(findings)
	cmd := &group{Cmd: exec.Command(mpiexec, c.hydraArgs()...)}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.Env = append(os.Environ(), job.EnvJob+"="+newJob(), "HYDRA_LAUNCHER_EXTRA_ARGS="+strings.Join(c.SSH[1:], " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.reap() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		cmd.signal(unix.SIGTERM)
		timer := time.AfterFunc(2*grace, func() { cmd.signal(unix.SIGKILL) })
		<-ended
		timer.Stop()
		return fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
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

// hydraArgs returns the arguments of mpiexec. Each rank is this program first, which adds
// BOBNET_* to what hydra says (Become).
func (c *Config) hydraArgs() []string {
	hosts := make([]string, len(c.Hosts))
	for i, h := range c.Hosts {
		hosts[i] = h.Name + ":" + strconv.Itoa(h.Slots)
	}
	args := []string{"-launcher", "ssh", "-launcher-exec", c.SSH[0], "-hosts", strings.Join(hosts, ","), "-n", strconv.Itoa(c.N), "-prepend-pattern", "[%r] "}
	if c.By == ByNode {
		args = append(args, "-ppn", "1")
	}
	if c.Interface != "" {
		args = append(args, "-genv", job.EnvInterface, c.Interface)
	}
	if c.Driver != "" {
		args = append(args, "-genv", "BOBNET_DRIVER", c.Driver)
	}
	return append(append(args, c.Program, "rank", "--"), c.Argv...)
}

// Become makes this process, which a launcher with PMI-1 has started, a rank that finds
// its place in BOBNET_*, too, and then argv. It returns only if it cannot.
func Become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	for to, from := range map[string]string{job.EnvRank: pmi.EnvRank, job.EnvSize: pmi.EnvSize, pmi.EnvJob: job.EnvJob} {
		value := os.Getenv(from)
		if value == "" {
			return fmt.Errorf("rank: %s is not set: bobnet run has this started by %s", from, Mpiexec)
		}
		if err := os.Setenv(to, value); err != nil {
			return err
		}
	}
	return unix.Exec(path, argv, os.Environ())
}
