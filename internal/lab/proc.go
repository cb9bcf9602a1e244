package lab

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The variables in a rank's environment.
const (
	EnvRank       = "BOBNET_RANK"       // 0..size-1
	EnvSize       = "BOBNET_SIZE"       // number of ranks
	EnvJob        = "BOBNET_JOB"        // the job's name, unique on the segment
	EnvInterface  = "BOBNET_IFACE"      // the name of the interface to use
	EnvHost       = plain.EnvHost       // the host's name, with Config.Fabric
	EnvProcessors = "BOBNET_PROCESSORS" // number of processors of all ranks, with Config.Bind; each rank sees only its own
)

// grace is the time between SIGTERM and SIGKILL, and the time that descendants may write to a rank's
// output after the rank has ended.
const grace = 2 * time.Second

// Proc is a running process of a rank. It may be shared between goroutines.
type Proc struct {
	rank int // -1 for a switch
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of cmd.Wait; valid when done is closed

	mu     sync.Mutex
	reaped bool // the process number may belong to another process
}

// Start starts cmd in rank's namespace, in a new session. It adds the rank's variables to cmd.Env, or
// to this process's environment if cmd.Env is nil. The lab then owns cmd; Close kills it if it
// still runs.
func (l *Lab) Start(rank int, cmd *exec.Cmd) (*Proc, error) {
	return l.startProc(rank, cmd, l.job)
}

func (l *Lab) startProc(rank int, cmd *exec.Cmd, job string) (*Proc, error) {
	ns, err := l.handle(rank)
	if err != nil {
		return nil, err
	}
	defer l.mu.RUnlock()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if l.bound != nil {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], EnvProcessors+"="+strconv.Itoa(len(l.bound)))
	}
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], EnvRank+"="+strconv.Itoa(rank),
		EnvSize+"="+strconv.Itoa(l.cfg.N), EnvJob+"="+job, EnvInterface+"="+Interface)
	if f := l.cfg.Fabric; f != nil {
		cmd.Env = append(cmd.Env, EnvHost+"="+f.Hosts[l.Host(rank)])
	}
	return l.launch(ns, rank, fmt.Sprintf("rank %d", rank), cmd)
}

// launch starts cmd in a namespace of the lab. The caller must hold l.mu for reading.
func (l *Lab) launch(ns netns.NsHandle, rank int, name string, cmd *exec.Cmd) (*Proc, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = grace
	}
	err := inside(ns, func() error {
		if err := privateSys(); err != nil {
			l.cfg.Log.Debug("process sees the host's /sys", "process", name, "err", err)
		}
		if err := l.keeper.enter(); err != nil {
			return err
		}
		if l.bound != nil && rank >= 0 {
			if err := BindThread(l.bound[rank]); err != nil {
				return err
			}
		}
		return cmd.Start()
	})
	if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ESRCH) {
		// The errors of fork and setns for a process namespace whose first process is dead.
		err = fmt.Errorf("%w: its keeper was killed", ErrClosed)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	p := &Proc{rank: rank, name: name, cmd: cmd, done: make(chan struct{})}
	l.procs.Add(1)
	l.note(p, true)
	go func() {
		defer l.procs.Done()
		p.reap()
		l.note(p, false)
	}()
	return p, nil
}

func (l *Lab) note(p *Proc, alive bool) {
	l.liveMu.Lock()
	defer l.liveMu.Unlock()
	if alive {
		l.live[p] = true
	} else {
		delete(l.live, p)
	}
}

// Signal sends sig to every rank that runs, as Proc.Signal does.
func (l *Lab) Signal(sig syscall.Signal) error {
	l.liveMu.Lock()
	defer l.liveMu.Unlock()
	var all []error
	for p := range l.live {
		all = append(all, p.Signal(sig))
	}
	return errors.Join(all...)
}

// reap waits for the process, and kills the rest of its process group while the group's number
// cannot belong to another group.
func (p *Proc) reap() {
	defer close(p.done)
	keep.AwaitEnd(p.Pid())
	p.Signal(unix.SIGKILL)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	p.err = p.cmd.Wait()
}

// privateSys gives the calling thread a /sys that shows its own network
// namespace, with the control groups where they were.
func privateSys() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount --make-rslave /: %w", err)
	}
	const groups = "/sys/fs/cgroup"
	fd, openErr := unix.Open(groups, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if openErr == nil {
		defer unix.Close(fd)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if openErr != nil {
		return nil
	}
	old := fmt.Sprintf("/proc/thread-self/fd/%d", fd)
	if err := unix.Mount(old, groups, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", groups, err)
	}
	return nil
}

// Rank returns the rank that p runs as, -1 for a switch.
func (p *Proc) Rank() int { return p.rank }

// Pid returns the process number as seen from this process.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the process and to what it has started, unless that
// went into another session or process group. It is no error if all have ended.
func (p *Proc) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	if err := unix.Kill(-p.Pid(), sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("lab: signal %s: %w", p.name, err)
	}
	return nil
}

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait returns when the process has ended. The error is that of exec.Cmd's
// Wait: nil if it ended with exit code 0.
func (p *Proc) Wait() error {
	<-p.done
	return p.err
}

// Code returns the exit code of a process that has ended, or 128 plus the
// signal that killed it.
func (p *Proc) Code() int {
	<-p.done
	return keep.ExitCode(p.cmd.ProcessState)
}

// errGoexit is what onThread returns when fn ended its goroutine.
var errGoexit = errors.New("lab: the function ended its goroutine")

// onThread calls fn on a new thread. fn may change the thread's namespaces, because the thread ends
// with fn: a goroutine that exits while locked to its thread ends the thread.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self refers to it. Occupy it, so that the next
			// goroutine gets another thread.
			done <- onThread(fn)
			runtime.UnlockOSThread()
			return
		}
		err := errGoexit
		defer func() { done <- err }()
		err = fn()
	}()
	return <-done
}

// inside calls fn on a new thread in network namespace ns.
func inside(ns netns.NsHandle, fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return fn()
	})
}

// newNamespace creates a network namespace, calls setup in it and returns a descriptor, which keeps
// the namespace alive. It finds the thread through /proc/thread-self, because in a lab within a lab
// /proc has other process numbers.
func newNamespace(setup func() error) (netns.NsHandle, error) {
	ns := netns.None()
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		var err error
		if ns, err = netns.GetFromPath("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return setup()
	})
	return ns, err
}

// Processors returns the numbers of the processors that this process may run on.
func Processors() (all []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for cpu := range len(set) * bits.UintSize {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// Bind returns a processor for each of n ranks of this host. Ranks of one job compute at the same
// time, so no two get the same.
func Bind(n int) ([]int, error) {
	all, err := Processors()
	if err != nil {
		return nil, err
	}
	if n > len(all) {
		return nil, fmt.Errorf("cannot bind %d ranks to %d processors (use fewer ranks, or do not bind them)", n, len(all))
	}
	return all[:n], nil
}

// BindThread restricts the calling thread, and the processes that it starts, to one processor.
func BindThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bind to processor %d: sched_setaffinity: %w", cpu, err)
	}
	return nil
}
