// Package place tells an example that needs no package with ranks which process of how many
// it is.
package place

import (
	"cmp"
	"fmt"
	"os"
	"strconv"

	"github.com/bobnet-go/bobnet/job"
)

// Place is which process of a job this is.
type Place struct {
	Rank, Size int
	Name       string // of the job, for names on the segment; never empty
}

// Find returns what the launcher says that has started the process (job.FindPlace), such as
// bobnet run, lab, srun or mpiexec. Where none has, BOBNET_RANK alone will do, with usual as
// the number of processes: so an example is started by hand. It fails where the two do
// not fit together, or only the launcher could tell.
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
	case p.Size == 0:
		return Place{}, fmt.Errorf("%s: only the launcher could tell how many processes there are, and this program does not ask it: start it by bobnet run, or set %s, %s and %s",
			found.Why, job.EnvJob, job.EnvRank, job.EnvSize)
	}
	if p.Rank < 0 || p.Rank >= p.Size {
		return Place{}, fmt.Errorf("there is no rank %d among %d processes: set %s and %s, the same number of processes for all", p.Rank, p.Size, job.EnvRank, job.EnvSize)
	}
	return p, nil
}
