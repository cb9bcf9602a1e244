package job

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/bobnet-go/bobnet/vipl"
)

// The environment variables that say which job a process belongs to. Whoever
// starts the ranks sets them; bobnet lab does. Those of package vipl say how to
// reach the network.
const (
	EnvJob       = "BOBNET_JOB"  // name of the job, one of its own for every run
	EnvRank      = "BOBNET_RANK" // this process's rank
	EnvSize      = "BOBNET_SIZE" // number of ranks
	EnvInterface = vipl.EnvInterface
)

// envInt returns the number that an environment variable holds.
func envInt(name string) (int, error) {
	s := os.Getenv(name)
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("environment variable %s is %q, want a number", name, s)
	}
	return n, nil
}

// SayAlone tells a person on stderr, if EnvSize is not set, that the process is a
// job of one rank: whoever has started several processes meant another thing. It
// prints one line in a process, whichever program (a package's name) calls it first.
func SayAlone(program string) {
	if os.Getenv(EnvSize) != "" {
		return
	}
	alone.Do(func() {
		fmt.Fprintf(os.Stderr, "%s: %s is not set: this process is a job of one rank; to start several as one job, set %s, %s and %s for each\n",
			strings.ToLower(program), EnvSize, EnvJob, EnvRank, EnvSize)
	})
}

var alone sync.Once
