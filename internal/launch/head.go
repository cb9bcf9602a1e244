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

// Config says what to run, and where.
type Config struct {
	Version   string // of this program, which all hosts must have
	N         int    // ranks; 0 = one for each slot
	Hosts     []Host // none = this one
	By        Order  // how ranks are laid over hosts; "" = ByCore
	Continue  bool   // the other ranks go on when one fails
	Bind      bool   // each rank runs on a processor of its own; every host must have as many
	Argv      []string
	Interface string   // for all hosts; "" = what each one chooses
	Driver    string   // the same
	KeyFile   string   // with the key of sealed frames, the same on all hosts; "" = what the environment says
	SSH       []string // nil = SSH
	Program   string   // the file of the bobnet command on other hosts
	Own       string   // the same on this one
	// Timeout bounds how long a host may take to answer.
	Timeout time.Duration
	// Silence bounds how long a host may say nothing while its ranks run; 0 = Silence.
	Silence        time.Duration
	Stdout, Stderr io.Writer
}

// MaxRanks is the most ranks that a job can have.
const MaxRanks = job.MaxRanks

// Complete fills in defaults, and says what is wrong with c.
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
		return fmt.Errorf("time-out %v: want more than 0", c.Timeout)
	}
	return nil
}

// ExitError reports that a job failed.
type ExitError struct {
	Rank  int    // the first rank to fail; -1 if a host did
	Host  string // where it ran
	State string // how it ended
	Code  int    // the worst exit code of any rank; 128 plus the signal for a killed one
	// Failed has all ranks that failed, in order of failing, with Config.Continue; else
	// nil.
	Failed []lab.Failure
	Ranks  int      // in the job
	Silent []Silent // hosts that did not answer when the job was to end: one of these may be the cause
	Named  Named    // the host that the errors of Rank name, if any
}

// Error names the first rank that failed, or all.
func (e *ExitError) Error() string {
	if e.Failed != nil {
		return withSilent(fmt.Sprintf("run: %s; worst exit code %d", lab.Failures(e.Failed, e.Ranks), e.Code), e.Silent)
	}
	if e.Rank < 0 {
		return withSilent(fmt.Sprintf("run: host %s failed first: %s; worst exit code %d", e.Host, e.State, e.Code), e.Silent)
	}
	return withSilent(e.Named.add(fmt.Sprintf("run: rank %d on host %s failed first: %s; worst exit code %d", e.Rank, e.Host, e.State, e.Code)), e.Silent)
}

// add takes note of how a rank failed. There may be two things to say of one: that it has
// aborted the job, and its exit code.
func (e *ExitError) add(f lab.Failure) {
	for i := range e.Failed {
		if had := &e.Failed[i]; had.Rank == f.Rank {
			had.State += ", and " + f.State
			return
		}
	}
	e.Failed = append(e.Failed, f)
}

// Survey asks all hosts what they are, makes them send frames to each other, and lets them go.
func (c *Config) Survey(ctx context.Context) []doctor.Finding {
	all, answers := c.connect(ctx, c.Hosts)
	defer leaveAll(all)
	findings := Judge(c.Version, answers)
	if able := c.able(all, answers); len(able) > 1 && ctx.Err() == nil {
		findings = append(findings, c.tryPaths(ctx, able)...)
	}
	return findings
}

// connect starts nodes on all hosts at once, and returns those that have answered, and
// what all have.
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

// leaveAll has all nodes end, at once.
func leaveAll(nodes []*remote) {
	var wait sync.WaitGroup
	for _, r := range nodes {
		wait.Go(r.leave)
	}
	wait.Wait()
}

// refusal is why nothing was started: what is wrong with hosts.
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

// warn tells what is odd about hosts, and does not keep a job from running.
func (c *Config) warn(findings []doctor.Finding) {
	slots := 0
	for _, h := range c.Hosts {
		slots += h.Slots
	}
	if c.N > slots {
		fmt.Fprintf(c.Stderr, "bobnet run: %d ranks on hosts that take %d: some get more than they are said to take; name more hosts, or more slots as in host:%d\n",
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

// Run runs c.Argv as every rank and returns when all have ended. The first rank to fail,
// or host to be lost, ends the others, by SIGTERM and two seconds later SIGKILL, and the
// error is an *ExitError. A rank that ends by these signals does not count for the worst
// exit code. With c.Continue the other ranks go on, unless one calls Abort, or ends before
// the job has come together. When ctx is done the ranks are ended likewise, and the error wraps its cause.
// Complete has checked c.
func (c *Config) Run(ctx context.Context) error {
	h := &head{cfg: c, events: make(chan event), over: make(chan struct{}), fenced: map[*remote]bool{}}
	seats := Assign(c.N, c.Hosts, c.By)
	var used []Host
	place := map[int]int{} // among used, by the index among c.Hosts
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

// newJob returns a name that no other job has.
func newJob() string { return "run-" + rand.Text()[:10] }

// ofHost matches the variables that belong to a host, a login, or a launcher's ranks, and
// are not taken along.
func ofHost(name string) bool {
	for _, prefix := range []string{"SSH_", "XDG_", "PMI_", "MPI_LOCAL", "SLURM_", "OMPI_", "PMIX_", "PALS_", "FLUX_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TERM", "DISPLAY", "MAIL", "PWD", "OLDPWD", "SHLVL", "_",
		job.EnvRank, job.EnvSize, job.EnvJob, "JOB_COMPLETION_INDEX"}, name)
}

// environment returns what all ranks get of this process's environment.
func (c *Config) environment() []string {
	env := slices.DeleteFunc(c.inherited(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return ofHost(name)
	})
	for _, v := range c.asked() {
		env = append(env, v.name+"="+v.value)
	}
	if c.KeyFile != "" {
		env = append(env, vipl.EnvKey+"=") // a host's own environment may have one
	}
	return env
}

// inherited returns this process's environment, without a key in place of which the ranks get a
// file.
func (c *Config) inherited() []string {
	env := os.Environ()
	if c.KeyFile == "" {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, vipl.EnvKey+"=") })
}

type variable struct{ name, value string }

// asked returns the variables that tell the ranks what was asked for.
func (c *Config) asked() []variable {
	return slices.DeleteFunc([]variable{{vipl.EnvInterface, c.Interface}, {vipl.EnvDriver, c.Driver}, {vipl.EnvKeyFile, c.KeyFile}},
		func(v variable) bool { return v.value == "" })
}

// colours reports whether lines that go to w are to be coloured.
func colours(w io.Writer) bool { return lab.IsTerminal(w) && os.Getenv("NO_COLOR") == "" }
