// Package place tells an example that needs no package with ranks which process of how many
// it is.
package place

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/job/pmi"
)

// Place is which process of a job this is.
type Place struct {
	Rank, Size int
	Name       string // of the job, for names on the segment; never empty
}

// Find returns what the launcher says that has started the process (job.FindPlace), such as
// bobnet run, lab, srun or mpiexec. One that speaks PMI-1 is asked for what only it knows,
// as the job's name, which is its own for each job, and told that the process ends in order:
// a process asks once. Where no launcher has started it, BOBNET_RANK alone will do, with usual as
// the number of processes: so an example is started by hand. It fails where the two do
// not fit together, or the launcher does not answer.
func Find(usual int) (Place, error) {
	found, err := job.FindPlace()
	if err != nil {
		return Place{}, err
	}
	p := Place{Rank: found.Rank, Size: found.Size, Name: cmp.Or(found.Name, os.Getenv(job.EnvJob), "default")}
	switch {
	case found.Source == "":
		p.Size = usual
		if p.Rank, err = strconv.Atoi(cmp.Or(os.Getenv(job.EnvRank), "0")); err != nil {
			return Place{}, fmt.Errorf("%s is %q: want a number from 0", job.EnvRank, os.Getenv(job.EnvRank))
		}
	case found.Source == job.SourcePMI:
		if p, err = ask(); err != nil {
			return Place{}, fmt.Errorf("%s: %w: start the processes by bobnet run, or set %s, %s and %s", found.Why, err, job.EnvJob, job.EnvRank, job.EnvSize)
		}
	}
	if p.Rank < 0 || p.Rank >= p.Size {
		return Place{}, fmt.Errorf("there is no rank %d among %d processes: set %s and %s, the same number of processes for all", p.Rank, p.Size, job.EnvRank, job.EnvSize)
	}
	return p, nil
}

// askFor bounds how long the launcher may take to answer.
const askFor = 30 * time.Second

// ask has the launcher say which process this is.
func ask() (Place, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	c, err := pmi.Open(ctx, os.Getenv)
	if err != nil {
		return Place{}, err
	}
	p := Place{Rank: c.Rank(), Size: c.Size(), Name: cmp.Or(os.Getenv(job.EnvJob), c.Space())}
	return p, c.Finalize(ctx)
}
