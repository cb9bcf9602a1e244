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

// Environment variables that both engines set: the index of a rank on its host, and the number of
// ranks there.
const (
	envPlace = "MPI_LOCALRANKID"
	envHere  = "MPI_LOCALNRANKS"
)

// bindVerb is the verb that binds a rank: bobnet bind CMD [ARGS...].
const bindVerb = "bind"

// Bind binds this process to a processor and executes the command argv. With Config.Bind both
// engines start it instead of each rank's command. The processor follows from the rank's index on
// its host. Bind returns only on failure, with the exit code.
func Bind(argv []string) (code int, err error) {
	place, placeErr := strconv.Atoi(os.Getenv(envPlace))
	here, hereErr := strconv.Atoi(os.Getenv(envHere))
	if placeErr != nil || hereErr != nil || place < 0 || place >= here {
		return 126, fmt.Errorf("bind: %s is %q and %s is %q: want the rank's index on this host and the number of ranks here (bobnet run starts this verb itself)",
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
	runtime.LockOSThread() // the binding belongs to this thread, which execve keeps
	if err := lab.BindThread(cpus[place]); err != nil {
		return 126, fmt.Errorf("bind: %w", err)
	}
	// The signal at the parent's death was set for the first thread of this process, and is lost
	// with that thread. So this thread sets it again.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 126, fmt.Errorf("bind: prctl: %w", err)
	}
	env := append(os.Environ(), lab.EnvProcessors+"="+os.Getenv(job.EnvSize)) // each rank of the job has one
	return 126, fmt.Errorf("bind: %s: %w", path, syscall.Exec(path, argv, env))
}

// judge is Judge, and with c.Bind it also reports hosts with fewer processors than ranks. seats
// contains the index in answers of each rank's host.
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
				Found: fmt.Sprintf("has %d processors for %d bound ranks (use fewer ranks or more hosts, or omit --bind)", a.Inv.CPUs, ranks[i])})
		}
	}
	return all
}
