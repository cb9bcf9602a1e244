package job

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/pmi"
)

// Sources of a process's rank and job, in order of priority. The first source that is set wins.
const (
	sourceBobnet     = "BOBNET_*"   // EnvJob, EnvRank and EnvSize
	sourcePMI        = "PMI-1"      // PMI_FD or PMI_PORT: hydra, Flux, srun --mpi=pmi2
	sourceSlurm      = "Slurm"      // srun
	sourceOpenMPI    = "Open MPI"   // mpirun
	sourcePALS       = "PALS"       // HPE's mpiexec and aprun
	sourceKubernetes = "Kubernetes" // an Indexed Job whose manifest sets EnvSize
)

// Place is the rank and the job of a process according to the environment.
type Place struct {
	Source     string // BOBNET_*, PMI-1, Slurm, Open MPI, PALS or Kubernetes; "" if the process is a job of one
	Why        string // human-readable: the variables that decided, or what is missing
	Job        string // its name; "" if unknown, or known only to the launcher of PMI-1
	Rank, Size int
	Others     string // other sources that are set, separated by commas
}

// envCompletion is the variable with the index of a pod in a Kubernetes Indexed Job.
const envCompletion = "JOB_COMPLETION_INDEX"

// FindPlace returns the place that the environment describes. It contacts no launcher. If the
// launcher offers only a port for PMI-1, just the launcher knows rank and size: Rank is then the
// number that it gave the process, and Size is 0. The error names variables that contradict each
// other.
func FindPlace() (Place, error) { return findPlace(os.Getenv, os.Hostname) }

// environment is where variables are looked up.
type environment func(name string) string

// findPlace implements FindPlace for any environment and host name.
func findPlace(env environment, hostname func() (string, error)) (p Place, err error) {
	var read func() (Place, error)
	var others []string
	for _, source := range []struct {
		name string
		says bool
		read func() (Place, error)
	}{
		{sourceBobnet, env(EnvSize) != "" && (env(EnvRank) != "" || env(envCompletion) == ""), env.bobnet},
		{sourcePMI, env(pmi.EnvFD) != "" || env(pmi.EnvPort) != "", env.pmi},
		{sourceSlurm, env("SLURM_STEP_ID") != "" && env("SLURM_PROCID") != "", env.slurm},
		{sourceOpenMPI, env("OMPI_COMM_WORLD_SIZE") != "", env.openMPI},
		{sourcePALS, env("PALS_RANKID") != "", env.pals},
		{sourceKubernetes, env(envCompletion) != "", func() (Place, error) { return env.kubernetes(hostname) }},
	} {
		switch {
		case !source.says:
		case read == nil:
			read = source.read
		default:
			others = append(others, source.name)
		}
	}
	switch {
	case read != nil:
		p, err = read()
		p.Others = strings.Join(others, ", ")
		return p, err
	case env("SLURM_PROCID") != "":
		// Within an allocation every process has these variables, even if srun has not started it.
		return Place{Size: 1, Why: "SLURM_PROCID is set, but SLURM_STEP_ID is not: the process is in an allocation, and was not started by srun"}, nil
	}
	return Place{Size: 1, Why: EnvSize + " is not set, nor are the variables of a launcher"}, nil
}

// bobnet reads this package's own variables.
func (env environment) bobnet() (Place, error) {
	p, err := env.place(sourceBobnet, EnvRank, EnvSize)
	p.Job = env(EnvJob)
	return p, err
}

// pmi reads the variables of a launcher with PMI-1, which provides a descriptor or a port.
func (env environment) pmi() (Place, error) {
	if env(pmi.EnvFD) != "" {
		p, err := env.place(sourcePMI, pmi.EnvRank, pmi.EnvSize)
		p.Why += fmt.Sprintf(", %s=%s", pmi.EnvFD, env(pmi.EnvFD))
		return p, err
	}
	p := Place{Source: sourcePMI, Why: fmt.Sprintf("%s=%s, %s=%s", pmi.EnvPort, env(pmi.EnvPort), pmi.EnvID, env(pmi.EnvID))}
	p.Rank, _ = strconv.Atoi(env(pmi.EnvID)) // often the rank; the launcher provides the real one
	return p, nil
}

// slurm reads the variables of srun.
func (env environment) slurm() (Place, error) {
	p, err := env.checked(sourceSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
	p.Job = fmt.Sprintf("slurm-%s.%s", env("SLURM_JOB_ID"), env("SLURM_STEP_ID"))
	return p, err
}

// openMPI reads the variables of Open MPI's mpirun.
func (env environment) openMPI() (Place, error) {
	p, err := env.checked(sourceOpenMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
	if space := env("PMIX_NAMESPACE"); space != "" {
		p.Job = nameOf("ompi-" + space)
	}
	return p, err
}

// pals reads the variables of HPE's mpiexec and aprun.
func (env environment) pals() (Place, error) {
	p, err := env.checked(sourcePALS, "PALS_RANKID", "PMI_SIZE", "PALS_SIZE")
	if id := env("PALS_APID"); id != "" {
		p.Job = nameOf("pals-" + id)
	}
	return p, err
}

// place reads rank and size from two variables.
func (env environment) place(source, rank, size string) (p Place, err error) {
	p = Place{Source: source, Why: fmt.Sprintf("%s=%s, %s=%s", rank, env(rank), size, env(size))}
	if p.Size, err = env.number(size); err == nil {
		p.Rank, err = env.number(rank)
	}
	return p, err
}

// checked is place for a launcher's variables, with the first set variable of sizes. It also checks
// that rank and size are consistent.
func (env environment) checked(source, rank string, sizes ...string) (Place, error) {
	size := sizes[0]
	for _, other := range sizes[1:] {
		if env(size) == "" {
			size = other
		}
	}
	if env(size) == "" {
		return Place{}, fmt.Errorf("environment variable %s is %q, as %s sets it, but %s is not set: start all ranks by one launcher, or set %s, %s and %s for each",
			rank, env(rank), source, strings.Join(sizes, " or "), EnvJob, EnvRank, EnvSize)
	}
	p, err := env.place(source, rank, size)
	if err == nil && (p.Rank < 0 || p.Rank >= p.Size) {
		err = fmt.Errorf("environment variables %s are inconsistent: no such rank", p.Why)
	}
	return p, err
}

// number returns the value of a variable.
func (env environment) number(name string) (int, error) {
	n, err := strconv.Atoi(env(name))
	if err != nil {
		return 0, fmt.Errorf("environment variable %s is %q, want a number", name, env(name))
	}
	return n, nil
}

// kubernetes reads the variables of a pod in an Indexed Job. Kubernetes provides no variable for
// the number of pods. A pod's host name consists of the job's name and the index.
func (env environment) kubernetes(hostname func() (string, error)) (Place, error) {
	if env(EnvSize) == "" {
		return Place{}, fmt.Errorf("environment variable %s is %q, as in a Kubernetes Indexed Job, but %s is not set: set it in the manifest to the job's parallelism (1 for pods that work alone)",
			envCompletion, env(envCompletion), EnvSize)
	}
	p, err := env.checked(sourceKubernetes, envCompletion, EnvSize)
	if err != nil {
		return p, err
	}
	if p.Job = env(EnvJob); p.Job != "" {
		return p, nil
	}
	host, err := hostname()
	name, ok := strings.CutSuffix(host, "-"+env(envCompletion))
	if err == nil && ok {
		p.Job = nameOf("k8s-" + name)
	}
	return p, nil
}

// nameOf returns a valid job name for a launcher's name: a hash if that is long or has unprintable
// characters.
func nameOf(name string) string {
	odd := strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' })
	if !odd && len(name) <= maxName/2 {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return fmt.Sprintf("job-%016x", h.Sum64())
}
