package mplite

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/bobnet-go/bobnet/vipl"
)

// The environment variables that say which job a process belongs to. Whoever
// starts the ranks sets them; bobnet lab does. Init reads them for the fields of
// Config that are left zero, and vipl.EnvTimeout for Config.Timeout. The others of
// package vipl say how to reach the network.
const (
	EnvJob       = "BOBNET_JOB"  // name of the job, one of its own for every run
	EnvRank      = "BOBNET_RANK" // this process's rank
	EnvSize      = "BOBNET_SIZE" // number of ranks
	EnvInterface = vipl.EnvInterface
)

// fromEnvironment returns c with what the environment says in the fields that
// are left zero. Rank belongs to Size: where Size is given, so is Rank. Without
// either the process is a job of its own.
func (c Config) fromEnvironment() (Config, error) {
	c.Job = cmp.Or(c.Job, os.Getenv(EnvJob))
	var err error
	if c.Timeout == 0 {
		if c.Timeout, err = vipl.TimeoutWanted(); err != nil {
			return c, fmt.Errorf("mplite: init: %w: %w", ErrArgument, err)
		}
	}
	if c.Size != 0 || os.Getenv(EnvSize) == "" {
		return c, nil
	}
	if c.Size, err = envInt(EnvSize); err == nil && c.Rank == 0 {
		c.Rank, err = envInt(EnvRank)
	}
	return c, err
}

func envInt(name string) (int, error) {
	s := os.Getenv(name)
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, opError("init", ErrArgument, "environment variable %s is %q, want a number", name, s)
	}
	return n, nil
}

// sayAlone tells a person that nothing has said which job this process belongs
// to, so that it is one by itself: who has started several of them meant another
// thing. It does so once in a process.
var sayAlone = sync.OnceFunc(func() {
	fmt.Fprintf(os.Stderr, "mplite: %s is not set: this process is a job of one rank; to start several as one job, set %s, %s and %s for each\n",
		EnvSize, EnvJob, EnvRank, EnvSize)
})
