package launch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"golang.org/x/sys/unix"
)

// What both engines tell a rank of its host: which of the ranks there it is, and of how many.
const (
	envPlace = "MPI_LOCALRANKID"
	envHere  = "MPI_LOCALNRANKS"
)

// bindVerb makes this program one that binds a rank: bobnet bind CMD [ARGS...].
const bindVerb = "bind"

// Bind is what both engines start in place of each rank's command with Config.Bind: this process
// binds itself to the processor of its place among the ranks of its host, and becomes the command.
// It returns only if it cannot, with the exit code that says so.
func Bind(argv []string) (code int, err error) {
	place, placeErr := strconv.Atoi(os.Getenv(envPlace))
	here, hereErr := strconv.Atoi(os.Getenv(envHere))
	if placeErr != nil || hereErr != nil || place < 0 || place >= here {
		return 126, fmt.Errorf("bind: %s is %q, and %s %q, want which rank of this host it is, and of how many: bobnet run has this started by its engine",
			envPlace, os.Getenv(envPlace), envHere, os.Getenv(envHere))
	}
	path, code, err := keep.LookUp(argv[0])
	if err != nil {
		return code, fmt.Errorf("bind: %w", err)
	}
	cpus, err := lab.Bind(here)
	if err != nil {
		return 126, fmt.Errorf("bind: %w", err)
	}
	runtime.LockOSThread() // what is bound here is this thread, which execve keeps
	if err := lab.BindThread(cpus[place]); err != nil {
		return 126, fmt.Errorf("bind: %w", err)
	}
	// The setting of the signal at the parent's death belongs to the thread that began this
	// process, and ends with that thread. So this thread sets it again.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 126, fmt.Errorf("bind: prctl: %w", err)
	}
	env := append(os.Environ(), lab.EnvProcessors+"="+os.Getenv(job.EnvSize)) // each rank of the job has one
	return 126, fmt.Errorf("bind: %s: %w", path, syscall.Exec(path, argv, env))
}

// judge is Judge, and with c.Bind it names hosts that have fewer processors than ranks. The
// answers are of the hosts that seats, the host of each rank, are indices of.
func (c *Config) judge(answers []Answer, seats []int) []doctor.Finding {
	all := Judge(c.Version, answers)
	if !c.Bind {
		return all
	}
	ranks := make([]int, len(answers))
	for _, i := range seats {
		ranks[i]++
	}
	for i, a := range answers {
		if a.Err == nil && ranks[i] > a.Inv.CPUs {
			all = append(all, doctor.Finding{Level: doctor.Fail, Check: "host " + a.Host.Name,
				Found: fmt.Sprintf("has %d processors for %d ranks, each bound to one of its own: ask for fewer ranks, name more hosts, or do not bind them", a.Inv.CPUs, ranks[i])})
		}
	}
	return all
}
