// Package place finds the rank of a process and the number of processes, for examples that need no
// package with ranks.
package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/job"
)

// Place is the place of a process in its job.
type Place struct {
	Rank, Size int
	Name       string // name of the job, for names on the segment; never empty
}

// ErrAlone means that a process has no place: no launcher started it, and BOBNET_RANK is not set.
var ErrAlone = errors.New("no launcher started this process")

// Find returns the process's place in its job, as the launcher that started it gives it
// (job.FindPlace): bobnet run, lab, srun or mpiexec. From a launcher that speaks PMI-1 it gets the
// job's name, which is unique to each job, and leaves the job in order, so a process may call Find
// once. To start an example by hand, without a launcher, set only BOBNET_RANK: the number of
// processes is then usual. If BOBNET_RANK is not set either, Find returns rank 0 if usual is 1, and
// ErrAlone otherwise. Find also fails if the rank is not in the job, or if the launcher does not
// answer.
func Find(usual int) (Place, error) {
	found, err := job.FindPlace()
	if err != nil {
		return Place{}, err
	}
	p := Place{Rank: found.Rank, Size: found.Size, Name: cmp.Or(found.Job, os.Getenv(job.EnvJob), "default")}
	switch {
	case found.Source == "" && usual > 1 && os.Getenv(job.EnvRank) == "":
		return Place{}, ErrAlone
	case found.Source == "":
		p.Size = usual
		if p.Rank, err = strconv.Atoi(cmp.Or(os.Getenv(job.EnvRank), "0")); err != nil {
			return Place{}, fmt.Errorf("%s is %q: want a rank, 0 or greater", job.EnvRank, os.Getenv(job.EnvRank))
		}
	case found.Source == "PMI-1":
		if p, err = ask(); err != nil {
			return Place{}, fmt.Errorf("%s: %w: start the processes with bobnet run, or set %s, %s and %s", found.Why, err, job.EnvJob, job.EnvRank, job.EnvSize)
		}
	}
	if p.Rank < 0 || p.Rank >= p.Size {
		return Place{}, fmt.Errorf("rank %d is not in a job of %d processes: set %s and %s (the latter to the same number for all processes)", p.Rank, p.Size, job.EnvRank, job.EnvSize)
	}
	return p, nil
}

// askFor is the maximum time that the launcher may take to answer.
const askFor = 30 * time.Second

// ask asks the launcher for this process's place.
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
