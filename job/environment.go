package job

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// Environment variables that select the job of a process. The launcher of the ranks sets them, for
// example bobnet lab. The variables of package vipl configure the network.
const (
	EnvJob  = "BOBNET_JOB"  // name of the job, unique for each run
	EnvRank = "BOBNET_RANK" // this process's rank
	EnvSize = "BOBNET_SIZE" // number of ranks
)

func init() {
	joining.New = func(p joining.Program, name string, rank, size int) joining.Job {
		id := Identity{Job: name, Rank: rank, Size: size, Program: p.Name, Version: p.Version}
		return newMembership(id, p.Links, p.Timeout)
	}
	joining.On = func(p joining.Program, member any) (joining.Job, error) {
		j, err := member.(*Member).addProgram(p)
		if err != nil {
			return nil, err
		}
		return j, nil
	}
	joining.SayAlone = sayAlone
	joining.Complete = func(cfg any) error { return cfg.(*Config).complete() }
	joining.OpenNIC = func(ctx context.Context, cfg any) (*vipl.NIC, bool, error) { return cfg.(*Config).openNIC(ctx) }
}

// sayAlone prints a notice to stderr if no launcher (FindPlace) has set a rank: this process is a
// job of one rank. A user who has started several processes probably did not intend that. It prints
// at most one line per process, for the first program (the name of a package) that calls it.
func sayAlone(program string) {
	place, err := FindPlace()
	if place.Source != "" || err != nil {
		return
	}
	alone.Do(func() {
		fmt.Fprintf(os.Stderr, "%s: %s: this process is a job of one rank; to start several as one job, use bobnet run or another launcher, or set %s, %s and %s for each\n",
			strings.ToLower(program), place.Why, EnvJob, EnvRank, EnvSize)
	})
}

var alone sync.Once
