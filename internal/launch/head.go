package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// Config describes a job: the command and the hosts.
type Config struct {
	Version   string // of this program; all hosts must have the same
	N         int    // number of ranks; 0 means one for each slot
	Hosts     []Host // empty means this host
	By        Order  // assignment of ranks to hosts; "" means ByCore
	Continue  bool   // the other ranks continue when one fails
	Bind      bool   // each rank runs on its own processor; every host must have enough processors
	Argv      []string
	Interface string   // for all hosts; "" lets each host choose
	Driver    string   // for all hosts; "" lets each host choose
	KeyFile   string   // path of the key file, the same on all hosts; "" means the one of the environment
	SSH       []string // nil means SSH
	Program   string   // path of the bobnet command on other hosts
	Own       string   // path of the bobnet command on this host
	// Timeout is the maximum time for a host to answer, and with hydra until a next rank starts.
	Timeout time.Duration
	// Silence is the time after which a host is lost that sends nothing while its ranks run; 0 means
	// the constant Silence.
	Silence        time.Duration
	Stdout, Stderr io.Writer
}

// MaxRanks is the maximum number of ranks of a job.
const MaxRanks = job.MaxRanks

// Complete fills in defaults and validates c.
func (c *Config) Complete() error {
	if len(c.Hosts) == 0 {
		c.Hosts = []Host{{Name: "localhost", Slots: max(c.N, 1)}}
	}
	if c.By == "" {
		c.By = ByCore
	}
	if c.N == 0 {
		for _, h := range c.Hosts {
			c.N += h.Slots
		}
	}
	if c.SSH == nil {
		c.SSH = SSH
	}
	switch {
	case c.N < 1 || c.N > MaxRanks:
		return fmt.Errorf("%d ranks: want 1 to %d", c.N, MaxRanks)
	case c.By != ByCore && c.By != ByNode:
		return fmt.Errorf("order %q: want %s or %s", c.By, ByNode, ByCore)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: want more than 0", c.Timeout)
	}
	return nil
}

// ExitError reports that a job failed.
type ExitError struct {
	Rank  int    // the first rank to fail; -1 if a host did
	Host  string // its host
	State string // how it ended
	Code  int    // the worst exit code of any rank; 128 plus the signal for a killed one
	// Failed lists all failed ranks in order of failure, with Config.Continue. Otherwise it is nil.
	Failed []lab.Failure
	Ranks  int      // number of ranks of the job
	Silent []Silent // hosts that sent nothing when the job ended, a possible cause of the failure
	Named  Named    // the host that the errors of Rank name, if any
}

// Error names the first failed rank, or all failed ranks.
func (e *ExitError) Error() string {
	if e.Failed != nil {
		return withSilent(fmt.Sprintf("run: %s; worst exit code %d", lab.Failures(e.Failed, e.Ranks), e.Code), e.Silent)
	}
	if e.Rank < 0 {
		return withSilent(fmt.Sprintf("run: host %s failed first: %s; worst exit code %d", e.Host, e.State, e.Code), e.Silent)
	}
	return withSilent(e.Named.withHost(fmt.Sprintf("run: rank %d on host %s failed first: %s; worst exit code %d", e.Rank, e.Host, e.State, e.Code)), e.Silent)
}

// addFailure records how a rank failed. A rank can have two entries: that it aborted the job, and its exit
// code.
func (e *ExitError) addFailure(f lab.Failure) {
	for i := range e.Failed {
		if had := &e.Failed[i]; had.Rank == f.Rank {
			had.State += ", and " + f.State
			return
		}
	}
	e.Failed = append(e.Failed, f)
}

// Survey collects findings about all hosts, and makes them exchange frames.
func (c *Config) Survey(ctx context.Context) []doctor.Finding {
	all, answers := c.connect(ctx, c.Hosts)
	defer leaveAll(all)
	findings := Judge(c.Version, answers)
	if able := c.able(all, answers); len(able) > 1 && ctx.Err() == nil {
		findings = append(findings, c.tryPaths(ctx, able)...)
	}
	return findings
}

// connect starts nodes on all hosts concurrently. It returns the nodes that have answered, and the
// answers of all hosts.
func (c *Config) connect(ctx context.Context, hosts []Host) ([]*remote, []Answer) {
	all, answers := make([]*remote, len(hosts)), make([]Answer, len(hosts))
	var wait sync.WaitGroup
	for i, h := range hosts {
		wait.Add(1)
		go func() {
			defer wait.Done()
			a := Answer{Host: h}
			all[i], a.Err = c.reach(h)
			if a.Err == nil {
				a.Inv, a.Err = all[i].greet(ctx, c.Timeout)
			}
			if a.Arrived = time.Now().UnixNano(); a.Err != nil {
				all[i] = nil
			}
			answers[i] = a
		}()
	}
	wait.Wait()
	return slices.DeleteFunc(all, func(r *remote) bool { return r == nil }), answers
}

// leaveAll ends all nodes concurrently.
func leaveAll(nodes []*remote) {
	var wait sync.WaitGroup
	for _, r := range nodes {
		wait.Go(r.leave)
	}
	wait.Wait()
}

// refusal returns an error with the findings for which nothing was started.
func refusal(findings []doctor.Finding) error {
	var why []string
	for _, f := range findings {
		if f.Level == doctor.Fail {
			why = append(why, fmt.Sprintf("%s %s", f.Check, f.Found))
		}
	}
	if len(why) == 0 {
		return nil
	}
	return errors.New("run: nothing was started: " + strings.Join(why, "; "))
}

// warn prints findings that do not keep the job from running.
func (c *Config) warn(findings []doctor.Finding) {
	slots := 0
	for _, h := range c.Hosts {
		slots += h.Slots
	}
	if c.N > slots {
		fmt.Fprintf(c.Stderr, "bobnet run: %d ranks for %d slots: some hosts get more ranks than slots (list more hosts, or more slots, as in host:%d)\n",
			c.N, slots, (c.N+len(c.Hosts)-1)/len(c.Hosts))
	}
	for _, f := range findings {
		if f.Level == doctor.Warn {
			text := fmt.Sprintf("bobnet run: %s %s: %s", f.Check, f.Found, f.Means)
			if f.Fix != "" {
				text += fmt.Sprintf(" (try: %s)", f.Fix)
			}
			fmt.Fprintln(c.Stderr, text)
		}
	}
}

// Run runs c.Argv as every rank and returns when all ranks have ended. The first failed rank or lost
// host ends the others, by SIGTERM and two seconds later by SIGKILL; the error is then an
// *ExitError. Ranks that end by these signals do not count for the worst exit code. With c.Continue
// the other ranks continue, unless one calls Abort, or ends before all ranks have joined. When ctx is
// done, Run ends the ranks in the same way, and the error wraps the cause of ctx. The caller must
// have called Complete.
func (c *Config) Run(ctx context.Context) error {
	h := &head{cfg: c, events: make(chan event), over: make(chan struct{}), fenced: map[*remote]bool{}}
	seats := Assign(c.N, c.Hosts, c.By)
	var used []Host
	place := map[int]int{} // index in used, by index in c.Hosts
	for rank, i := range seats {
		if _, known := place[i]; !known {
			place[i] = len(used)
			used = append(used, c.Hosts[i])
		}
		seats[rank] = place[i]
	}
	nodes, answers := c.connect(ctx, used)
	defer func() {
		close(h.over)
		leaveAll(nodes)
	}()
	if ctx.Err() != nil {
		return fmt.Errorf("run: interrupted: %w", context.Cause(ctx))
	}
	findings := c.judge(answers, seats)
	if err := refusal(findings); err != nil {
		return err
	}
	c.warn(findings)
	h.nodes = nodes // of all used hosts, in order
	h.named = newNamed(answers, seats)
	for rank, i := range seats {
		nodes[i].ranks = append(nodes[i].ranks, rank)
	}
	return h.run(ctx, mapping(seats))
}

// newJob returns a unique name for a job.
func newJob() string { return "run-" + rand.Text()[:10] }

// ofHost reports whether a variable belongs to a host, a login, or a launcher's ranks. Such
// variables are not passed to the ranks.
func ofHost(name string) bool {
	for _, prefix := range []string{"SSH_", "XDG_", "PMI_", "MPI_LOCAL", "SLURM_", "OMPI_", "PMIX_", "PALS_", "FLUX_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TERM", "DISPLAY", "MAIL", "PWD", "OLDPWD", "SHLVL", "_",
		job.EnvRank, job.EnvSize, job.EnvJob, "JOB_COMPLETION_INDEX"}, name)
}

// environment returns the part of this process's environment that all ranks get.
func (c *Config) environment() []string {
	env := slices.DeleteFunc(c.inherited(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return ofHost(name)
	})
	for _, v := range c.asked() {
		env = append(env, v.name+"="+v.value)
	}
	if c.KeyFile != "" {
		env = append(env, vipl.EnvKey+"=") // overrides a key in the host's own environment
	}
	return env
}

// inherited returns this process's environment. It leaves out the key if the ranks get a key file
// instead.
func (c *Config) inherited() []string {
	env := os.Environ()
	if c.KeyFile == "" {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, vipl.EnvKey+"=") })
}

type variable struct{ name, value string }

// asked returns the variables that pass the flags to the ranks.
func (c *Config) asked() []variable {
	return slices.DeleteFunc([]variable{{vipl.EnvInterface, c.Interface}, {vipl.EnvDriver, c.Driver}, {vipl.EnvKeyFile, c.KeyFile}},
		func(v variable) bool { return v.value == "" })
}

// colours reports whether to colour lines on w.
func colours(w io.Writer) bool { return lab.IsTerminal(w) && os.Getenv("NO_COLOR") == "" }
