package keep

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// RankVerb is the verb that makes a program that imports this package run a rank under hydra:
// bobnet rank CMD [ARGS...].
const RankVerb = "rank"

// FailedLine is the last line that the guard of a failed rank prints, with the rank's number, host
// and exit code. The guard does not use PMI-1's abort to make hydra end the job, because mpiexec of
// MPICH 4.0 then waits for its proxies, and if the second of the clock changes meanwhile, it reads
// beyond the end of a list and kills process groups with arbitrary numbers.
const FailedLine = "bobnet run: rank %s on host %s ended with exit code %d, which ends the job\n"

// StartedLine is the line that the guard of a rank prints when hydra has started it, with the
// rank's number.
const StartedLine = "bobnet run: rank %s has started\n"

// The names of packages job and internal/pmi, which this package does not import.
const (
	envRank    = "BOBNET_RANK"
	envSize    = "BOBNET_SIZE"
	envJob     = "BOBNET_JOB"
	envPMIRank = "PMI_RANK"
	envPMISize = "PMI_SIZE"
	envPMIJob  = "PMI_JOBID"
)

func init() {
	if len(os.Args) > 2 && os.Args[1] == RankVerb {
		fmt.Fprintln(os.Stderr, "bobnet:", rank(os.Args[2:]))
		os.Exit(1)
	}
}

// rank runs a rank that hydra starts. It adds BOBNET_* to the environment that hydra sets, runs the
// command and forwards signals to it. When the command ends, rank kills the processes that the
// command has left running, because they may hold the rank's output and its connection to hydra,
// and hydra waits until both are closed. Then this process exits with the rank's exit code. If that
// is not 0, it first prints a line that makes the head end the job, because hydra does not end the
// job if the failed rank has not called Init. rank returns only if it fails before that.
//
// Rank 0 does not end before its input: mpiexec sends the end of its own input to that host, and if
// hydra's proxy there has already ended, SIGPIPE kills mpiexec.
//
// If hydra's proxy is killed this process gets SIGTERM, and its guard kills it.
//
// rank locks the calling thread, because the command ends with the thread that has started it.
func rank(argv []string) error {
	number := os.Getenv(envPMIRank)
	if number == "" {
		return fmt.Errorf("rank: %s is not set (bobnet run starts this verb through %s)", envPMIRank, "hydra's mpiexec")
	}
	if _, guarded := os.LookupEnv(envGuard); !guarded {
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	}
	err := Guard(func(code int) {
		if code != 0 {
			host, _ := os.Hostname()
			fmt.Fprintf(os.Stderr, FailedLine, number, host, code)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, StartedLine, number)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	runtime.LockOSThread()
	code, err := runRank(argv, number, signals)
	KillLeft(Grace)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bobnet: rank:", err)
	}
	if number == "0" {
		drain()
	}
	os.Exit(code)
	return nil
}

// runRank runs the command until it ends, and then kills its process group. It returns the exit
// code, and an error if the command could not be started.
func runRank(argv []string, number string, signals <-chan os.Signal) (int, error) {
	path, code, err := LookUp(argv[0])
	if err != nil {
		return code, err
	}
	r := &Group{Cmd: &exec.Cmd{
		Path: path, Args: argv, Stdout: os.Stdout, Stderr: os.Stderr,
		Env:         append(os.Environ(), envRank+"="+number, envSize+"="+os.Getenv(envPMISize), envPMIJob+"="+os.Getenv(envJob)),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD) // before the rank can leave orphans
	defer signal.Stop(children)
	if err := r.Start(); err != nil {
		return 126, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		AwaitEnd(r.Process.Pid)
	}()
	lost := Lost()
	for running := true; running; {
		select {
		case <-children:
			ReapOrphans(r.Has)
		case sig := <-signals:
			r.Signal(sig.(syscall.Signal))
		case <-lost: // hydra has killed the rank
			lost = nil
			r.Signal(unix.SIGKILL)
		case <-ended:
			running = false
		}
	}
	r.Signal(unix.SIGKILL)
	var exit *exec.ExitError
	if err := r.Reap(); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	return ExitCode(r.ProcessState), nil
}

// drain waits for the end of this process's input, or of its guard.
func drain() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-Lost():
	case <-ended:
	}
}
