package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RunOptions say how to run a job.
type RunOptions struct {
	Env []string // added to this process's environment, "KEY=value"
	// RankEnv, if not nil, is called for each rank, for more of it.
	RankEnv func(rank int) []string
	Stdin   *os.File  // for rank 0; the others, and nil, read nothing
	Stdout  io.Writer // nil = os.Stdout
	Stderr  io.Writer // nil = os.Stderr
	// Prefix puts "[rank] " before every line, in colour on a terminal. With
	// or without it lines are never mixed, unless the writers are files and
	// there is no prefix: then the ranks get the files themselves.
	Prefix bool
	// Continue lets the other ranks go on when one fails.
	Continue bool
	// OnCut, if not nil, is called when one of Config.Cuts has begun or ended.
	OnCut func(c Cut, begun bool)
}

// ExitError reports that a job failed.
type ExitError struct {
	Rank  int    // the first rank to fail
	State string // how it ended: "exit status 3" or "signal: killed"
	Code  int    // the worst exit code of any rank; 128 plus the signal for a killed one
	// Failed has all ranks that failed, in order of failing, with RunOptions.Continue;
	// else nil.
	Failed []Failure
	Ranks  int // in the job
}

// Failure says how a rank failed.
type Failure struct {
	Rank  int
	Host  string // where it ran; "" where that says nothing
	State string
}

// Error names the first rank that failed, or all.
func (e *ExitError) Error() string {
	if e.Failed != nil {
		return fmt.Sprintf("lab: %s; worst exit code %d", Failures(e.Failed, e.Ranks), e.Code)
	}
	return fmt.Sprintf("lab: rank %d failed first: %s; worst exit code %d", e.Rank, e.State, e.Code)
}

// maxFailures is how many failures an error text has in full.
const maxFailures = 16

// Failures sums up which of so many ranks failed, and how.
func Failures(failed []Failure, ranks int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d ranks failed", len(failed), ranks)
	for i, f := range failed[:min(len(failed), maxFailures)] {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&text, "%srank %d", separator, f.Rank)
		if f.Host != "" {
			fmt.Fprintf(&text, " on host %s", f.Host)
		}
		fmt.Fprintf(&text, ": %s", f.State)
	}
	if n := len(failed) - maxFailures; n > 0 {
		fmt.Fprintf(&text, "; and %d more", n)
	}
	return text.String()
}

// Run runs argv as every rank and returns when all have ended. The first rank
// to fail ends the others, with SIGTERM and two seconds later SIGKILL, unless
// opts.Continue is set. The error is an *ExitError. A rank that ends by these signals does not count
// for the worst exit code. When ctx is done the ranks are ended likewise, and
// the error wraps its cause. A command that cannot be run gives exec.Error.
func (l *Lab) Run(ctx context.Context, argv []string, opts RunOptions) error {
	if len(argv) == 0 {
		return errors.New("lab: no command to run")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	j := &job{lab: l, name: newJob(), path: path, argv: argv, opts: opts, ended: make(chan *Proc, l.cfg.N)}
	j.printer.prefix = opts.Prefix
	if j.opts.Stdout == nil {
		j.opts.Stdout = os.Stdout
	}
	if j.opts.Stderr == nil {
		j.opts.Stderr = os.Stderr
	}
	return j.run(ctx)
}

// job is one call of Run.
type job struct {
	lab     *Lab
	name    string
	path    string
	argv    []string
	opts    RunOptions
	printer printer
	procs   []*Proc
	ended   chan *Proc
	failure *ExitError
}

func (j *job) run(ctx context.Context) error {
	var stopped error // why the ranks were told to end
	for rank := range j.lab.cfg.N {
		if stopped = j.start(rank); stopped != nil {
			break
		}
	}
	var failed <-chan error
	if stopped != nil {
		j.signal(unix.SIGTERM)
	} else {
		var stop func()
		failed, stop = j.lab.cutLinks(j.opts.OnCut)
		defer stop()
	}
	cancelled, kill := ctx.Done(), newGrace(stopped != nil)
	for left := len(j.procs); left > 0; {
		select {
		case p := <-j.ended:
			left--
			if !j.judge(p, stopped != nil) || stopped != nil || j.opts.Continue {
				continue
			}
			stopped = j.failure
		case <-cancelled:
			cancelled = nil
			if stopped != nil {
				continue
			}
			stopped = fmt.Errorf("lab: job interrupted: %w", context.Cause(ctx))
		case err := <-failed:
			if stopped != nil {
				continue
			}
			stopped = err
		case <-kill:
			j.signal(unix.SIGKILL)
			continue
		}
		j.signal(unix.SIGTERM)
		kill = newGrace(true)
	}
	if stopped == nil && j.failure != nil {
		return j.failure
	}
	return stopped
}

// newGrace returns a channel that delivers when the ranks' time to end is up,
// or never.
func newGrace(running bool) <-chan time.Time {
	if !running {
		return nil
	}
	return time.After(grace)
}

// start starts one rank and what carries its output.
func (j *job) start(rank int) error {
	cmd := &exec.Cmd{Path: j.path, Args: j.argv, Env: append(os.Environ(), j.opts.Env...)}
	if j.opts.RankEnv != nil {
		cmd.Env = append(cmd.Env, j.opts.RankEnv(rank)...)
	}
	if rank == 0 && j.opts.Stdin != nil {
		cmd.Stdin = j.opts.Stdin
	}
	var streams []*stream
	defer func() {
		for _, s := range streams {
			s.child.Close()
		}
	}()
	for _, out := range []struct {
		dst io.Writer
		to  *io.Writer
	}{{j.opts.Stdout, &cmd.Stdout}, {j.opts.Stderr, &cmd.Stderr}} {
		file, s, err := j.printer.stream(rank, out.dst)
		if err != nil {
			return fmt.Errorf("lab: output of rank %d: %w", rank, err)
		}
		*out.to = file
		if s != nil {
			streams = append(streams, s)
			go s.copy()
		}
	}
	p, err := j.lab.start(rank, cmd, j.name)
	if err != nil {
		return err
	}
	j.procs = append(j.procs, p)
	go func() {
		p.Wait()
		for _, s := range streams {
			s.finish()
		}
		for _, s := range streams {
			<-s.done
		}
		j.ended <- p
	}()
	return nil
}

// judge takes note of how p ended and reports whether it failed. After a stop
// the ends that the stop itself brings about do not count.
func (j *job) judge(p *Proc, stopping bool) bool {
	code := p.Code()
	if code == 0 || stopping && (code == 128+int(unix.SIGTERM) || code == 128+int(unix.SIGKILL)) {
		return false
	}
	state := p.cmd.ProcessState.String()
	if j.failure == nil {
		j.failure = &ExitError{Rank: p.rank, State: state, Ranks: j.lab.cfg.N}
	}
	if j.opts.Continue {
		j.failure.Failed = append(j.failure.Failed, Failure{Rank: p.rank, State: state})
	}
	j.failure.Code = max(j.failure.Code, code)
	return true
}

// signal sends sig to every rank that has been started.
func (j *job) signal(sig syscall.Signal) {
	for _, p := range j.procs {
		if err := p.Signal(sig); err != nil {
			j.lab.cfg.Log.Warn("ending the job", "err", err)
		}
	}
}
