package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RunOptions configures a job.
type RunOptions struct {
	Env []string // added to this process's environment, "KEY=value"
	// RankEnv, if not nil, returns additional variables for a rank.
	RankEnv func(rank int) []string
	Stdin   *os.File  // for rank 0; nil and the other ranks read an empty input
	Stdout  io.Writer // nil = os.Stdout
	Stderr  io.Writer // nil = os.Stderr
	// Prefix puts "[rank] " before every line, in colour on a terminal. With
	// or without it lines are never mixed, unless the writers are files and
	// there is no prefix: then the ranks get the files themselves.
	Prefix bool
	// Continue lets the other ranks continue when one fails.
	Continue bool
	// OnCut, if not nil, is called when one of Config.Cuts has begun or ended.
	OnCut func(c Cut, begun bool)
}

// ExitError reports that a job failed.
type ExitError struct {
	Rank  int    // the first rank to fail
	State string // how it ended: "exit status 3" or "signal: killed"
	Code  int    // the worst exit code of any rank; 128 plus the signal for a killed one
	// Failed lists all failed ranks in order of failure, with RunOptions.Continue. Otherwise it is nil.
	Failed []Failure
	Ranks  int // number of ranks of the job
}

// Failure describes how a rank failed.
type Failure struct {
	Rank  int
	Host  string // its host; "" if all ranks run on one host
	State string
}

// Error names the first failed rank, or all failed ranks.
func (e *ExitError) Error() string {
	if e.Failed != nil {
		return fmt.Sprintf("lab: %s; worst exit code %d", Failures(e.Failed, e.Ranks), e.Code)
	}
	return fmt.Sprintf("lab: rank %d failed first: %s; worst exit code %d", e.Rank, e.State, e.Code)
}

// maxFailures is the maximum number of failures that an error text lists.
const maxFailures = 16

// Failures describes which ranks failed, and how. ranks is the number of all ranks.
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

// Run runs argv as every rank and returns when all ranks have ended. Unless opts.Continue is set, the
// first rank that fails ends the others, by SIGTERM and two seconds later by SIGKILL. The error is an
// *ExitError. Ranks that end by these signals do not count for the worst exit code. When ctx is done,
// Run ends the ranks in the same way, and the error wraps the cause of ctx. If the command cannot be
// executed, the error is an *exec.Error.
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
	var stopped error // why the ranks were ended
	for rank := range j.lab.cfg.N {
		if stopped = j.startRank(rank); stopped != nil {
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

// newGrace returns a channel that fires when the ranks' grace time is over, or never.
func newGrace(running bool) <-chan time.Time {
	if !running {
		return nil
	}
	return time.After(grace)
}

// startRank starts one rank and the goroutines for its output.
func (j *job) startRank(rank int) error {
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
			return fmt.Errorf("lab: open output of rank %d: %w", rank, err)
		}
		*out.to = file
		if s != nil {
			streams = append(streams, s)
			go s.copy()
		}
	}
	p, err := j.lab.startProc(rank, cmd, j.name)
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

// judge records how p ended and reports whether it failed. After a stop, it ignores ends that the stop
// itself causes.
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
			j.lab.cfg.Log.Warn("cannot signal a rank", "err", err)
		}
	}
}

// maxLine is the maximum length of a line of output in bytes; a longer line is split.
const maxLine = 64 << 10

// printer writes the ranks' lines, whole and one at a time.
type printer struct {
	mu     sync.Mutex
	prefix bool
}

// stream is one output of one rank on its way to a printer.
type stream struct {
	printer *printer
	prefix  string
	dst     io.Writer
	src     *os.File
	child   *os.File  // the rank's end; closed once the rank has it
	rest    io.Reader // content of the pipe at the end of the grace time; nil before
	done    chan struct{}
}

// stream returns the file to which the rank writes, and the stream that copies its lines to dst. The
// stream is nil if the file is dst itself.
func (p *printer) stream(rank int, dst io.Writer) (*os.File, *stream, error) {
	if file, ok := dst.(*os.File); ok && !p.prefix {
		return file, nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	s := &stream{printer: p, dst: dst, src: r, child: w, done: make(chan struct{})}
	if p.prefix {
		s.prefix = Prefix(rank, IsTerminal(dst) && os.Getenv("NO_COLOR") == "")
	}
	return w, s, nil
}

// Lines returns a file for the output of a process. Each line goes to dst in one call of Write. The
// caller closes the file after the process has inherited it, and calls finish after the process has
// ended. finish returns when the rest of the output has been written; it waits at most two seconds
// for output of descendants.
func Lines(dst io.Writer) (child *os.File, finish func(), err error) {
	file, s, err := (&printer{}).stream(0, dst)
	if err != nil {
		return nil, nil, err
	}
	if s == nil { // dst is a file
		return file, func() {}, nil
	}
	go s.copy()
	return file, func() {
		s.finish()
		<-s.done
	}, nil
}

// Prefix returns the prefix of a rank's lines.
func Prefix(rank int, colour bool) string {
	if !colour {
		return fmt.Sprintf("[%d] ", rank)
	}
	colours := [...]int{36, 33, 32, 35, 34, 31}
	return fmt.Sprintf("\x1b[%dm[%d]\x1b[0m ", colours[rank%len(colours)], rank)
}

// copy copies lines until no process has the rank's end open, or until the grace time after the
// rank's end is over.
func (s *stream) copy() {
	defer close(s.done)
	defer s.src.Close()
	in := bufio.NewReaderSize(s, maxLine)
	out := make([]byte, 0, 256)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			out = append(append(out[:0], s.prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			s.printer.write(s.dst, out)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Read reads the rank's output, until no process has the rank's end open, or until the grace time
// after the rank's end is over. A daemon that inherited the output therefore delays nothing. Read
// returns everything that the rank itself has written, however late.
func (s *stream) Read(b []byte) (int, error) {
	if s.rest == nil {
		n, err := s.src.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		inPipe, err := s.waiting()
		if err == nil {
			err = s.src.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return 0, err
		}
		s.rest = io.LimitReader(s.src, int64(inPipe))
	}
	return s.rest.Read(b)
}

// waiting returns the number of bytes in the pipe, which include the rank's output.
func (s *stream) waiting() (n int, err error) {
	raw, err := s.src.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(failed, err)
}

// finish notifies the stream that its rank has ended. done is closed when the rest of the output has
// been written.
func (s *stream) finish() { s.src.SetReadDeadline(time.Now().Add(grace)) }

// write writes one line. It ignores errors: a reader of the output that is gone must not stop a job.
func (p *printer) write(dst io.Writer, line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst.Write(line)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(interface{ Fd() uintptr }) // an os.File, or what wraps one
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// obstacles lists settings under /proc/sys that can forbid namespaces to users, with the forbidding
// value and a permitting one.
var obstacles = []struct{ path, forbids, allows, why string }{
	{"kernel/apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor withholds capabilities in user namespaces"},
	{"kernel/unprivileged_userns_clone", "0", "1", "user namespaces are restricted to root"},
	{"user/max_user_namespaces", "0", "15000", "no user namespaces are allowed"},
	{"user/max_net_namespaces", "0", "15000", "no network namespaces are allowed"},
	{"user/max_pid_namespaces", "0", "15000", "no process namespaces are allowed"},
	{"user/max_mnt_namespaces", "0", "15000", "no mount namespaces are allowed"},
}

// readOnlyProc is the advice for EROFS: a lab writes no other file.
const readOnlyProc = "/proc is mounted read-only, so the user mapping of a new namespace cannot be written; " +
	"run it as root, which needs no mapping, or allow it: sudo mount -o remount,rw /proc"

// explain wraps an error of the operation what, and adds a hint for known causes.
func explain(what string, err error) error {
	found := fmt.Sprintf("%s: %v", what, err)
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %s\n%s", ErrForbidden, found, readOnlyProc)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return forbidden(found)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("lab: %s: %w (load the drivers: sudo modprobe -a veth bridge)", what, err)
	}
	return fmt.Errorf("lab: %s: %w", what, err)
}

// forbidden returns the error for missing permissions, with the cause and a fix for this machine.
func forbidden(found string) error {
	return fmt.Errorf("%w: %s\n%s", ErrForbidden, found, advice(os.DirFS("/proc/sys")))
}

// advice returns the commands that would permit a lab on the machine with the given /proc/sys.
func advice(sys fs.FS) string {
	var lines []string
	for _, o := range obstacles {
		value, err := fs.ReadFile(sys, o.path)
		if err == nil && strings.TrimSpace(string(value)) == o.forbids {
			name := strings.ReplaceAll(o.path, "/", ".")
			lines = append(lines, fmt.Sprintf("%s: sudo sysctl -w %s=%s", o.why, name, o.allows))
		}
	}
	if lines == nil {
		lines = []string{"run it as root; in a container, start that with --privileged, or with" +
			" --cap-add=SYS_ADMIN --cap-add=NET_ADMIN --cap-add=NET_RAW and a seccomp profile that allows unshare and setns"}
	}
	return strings.Join(lines, "\n")
}
