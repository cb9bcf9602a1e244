package job_test

import (
	"context"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/job"
	"golang.org/x/sys/unix"
)

// vars reads "A=1 B=2".
func vars(text string) map[string]string {
	env := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		env[name] = value
	}
	return env
}

// TestFindPlace: what each launcher's variables say, which are believed where there are
// several, and what does not fit together.
func TestFindPlace(t *testing.T) {
	const (
		slurm = "SLURM_PROCID=3 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=12 SLURM_STEP_ID=0"
		ompi  = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=prterun-a-7@1"
		pals  = "PALS_RANKID=5 PMI_SIZE=3 PALS_APID=ab-cd"
		own   = "BOBNET_JOB=j BOBNET_RANK=1 BOBNET_SIZE=2"
		fd    = "PMI_FD=7 PMI_RANK=2 PMI_SIZE=3"
	)
	for _, tc := range []struct {
		env  string
		want job.Place // without Why
		why  string    // part of it, or of the error if want is zero
	}{
		{"", job.Place{Size: 1}, "BOBNET_SIZE is not set"},
		{own, job.Place{Source: job.SourceBobnet, Job: "j", Rank: 1, Size: 2}, "BOBNET_RANK=1, BOBNET_SIZE=2"},
		{own + " " + fd + " " + slurm, job.Place{Source: job.SourceBobnet, Job: "j", Rank: 1, Size: 2, Others: "PMI-1, Slurm"}, ""},
		{own + " " + pals + " JOB_COMPLETION_INDEX=7", job.Place{Source: job.SourceBobnet, Job: "j", Rank: 1, Size: 2, Others: "PALS, Kubernetes"}, ""},
		{fd + " BOBNET_SIZE=4 JOB_COMPLETION_INDEX=1", job.Place{Source: job.SourcePMI, Rank: 2, Size: 3, Others: "Kubernetes"}, ""},
		{ompi + " BOBNET_SIZE=4 JOB_COMPLETION_INDEX=3", job.Place{Source: job.SourceOpenMPI, Job: "ompi-prterun-a-7@1", Rank: 1, Size: 4, Others: "Kubernetes"}, ""},
		{fd + " " + slurm + " " + pals, job.Place{Source: job.SourcePMI, Rank: 2, Size: 3, Others: "Slurm, PALS"}, "PMI_FD=7"},
		{"PMI_PORT=a:1 PMI_ID=4", job.Place{Source: job.SourcePMI, Rank: 4}, "PMI_PORT=a:1, PMI_ID=4"},
		{"PMI_FD=7", job.Place{}, `PMI_SIZE is ""`},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=1929773057", job.Place{Source: job.SourceOpenMPI, Job: "ompi-1929773057", Size: 2}, "OMPI_COMM_WORLD_RANK=0"}, // 4.1.4
		{slurm + " " + ompi, job.Place{Source: job.SourceSlurm, Job: "slurm-12.0", Rank: 3, Size: 8, Others: "Open MPI"}, "SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=8"},
		{"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=12", job.Place{Size: 1}, "was not started by srun"},
		{"SLURM_PROCID=8 SLURM_NTASKS=8 SLURM_STEP_ID=1", job.Place{}, "are inconsistent"},
		{ompi, job.Place{Source: job.SourceOpenMPI, Job: "ompi-prterun-a-7@1", Rank: 1, Size: 4}, ""},
		{"OMPI_COMM_WORLD_SIZE=4", job.Place{}, `OMPI_COMM_WORLD_RANK is ""`},
		{strings.Replace(pals, "=3", "=6", 1), job.Place{Source: job.SourcePALS, Job: "pals-ab-cd", Rank: 5, Size: 6}, ""},
		{"PALS_RANKID=5", job.Place{}, "PMI_SIZE or PALS_SIZE is not set"},
		{"PALS_RANKID=0 PALS_SIZE=1 PALS_APID=" + strings.Repeat("x", 300), job.Place{Source: job.SourcePALS, Job: "job-2aea0db562cb289a", Size: 1}, ""},
		{"JOB_COMPLETION_INDEX=2 BOBNET_SIZE=4", job.Place{Source: job.SourceKubernetes, Job: "k8s-heat", Rank: 2, Size: 4}, "JOB_COMPLETION_INDEX=2, BOBNET_SIZE=4"},
		{"JOB_COMPLETION_INDEX=2 BOBNET_SIZE=4 BOBNET_JOB=uid", job.Place{Source: job.SourceKubernetes, Job: "uid", Rank: 2, Size: 4}, ""},
		{"JOB_COMPLETION_INDEX=3 BOBNET_SIZE=4", job.Place{Source: job.SourceKubernetes, Rank: 3, Size: 4}, ""}, // another host's name
		{"JOB_COMPLETION_INDEX=4 BOBNET_SIZE=4", job.Place{}, "are inconsistent"},
		{"JOB_COMPLETION_INDEX=2", job.Place{}, "to the job's parallelism"},
	} {
		got, err := job.FindPlaceIn(vars(tc.env), "heat-2")
		why := got.Why
		got.Why = ""
		switch {
		case tc.want == job.Place{}:
			if err == nil || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%s: %+v, %v, want %q", tc.env, got, err, tc.why)
			}
		case err != nil || got != tc.want || !strings.Contains(why, tc.why):
			t.Errorf("%s: %+v because of %q, %v, want %+v because of %q", tc.env, got, why, err, tc.want, tc.why)
		}
	}
}

// launch has a server of PMI-1 as this process's launcher, and returns what it returns
// when the process has left.
func launch(t *testing.T, space string, rank, size int, more string) (left chan error) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "launcher")
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	env := vars(more)
	maps.Copy(env, map[string]string{pmi.EnvFD: strconv.Itoa(fds[1]), pmi.EnvRank: strconv.Itoa(rank), pmi.EnvSize: strconv.Itoa(size)})
	clean(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
	job.ForgetLaunchers() // descriptors are used again
	left = make(chan error, 1)
	s := pmi.NewServer(pmi.ServerConfig{Space: space, Size: size, Ranks: 1, Waits: func() {}, Fence: func([]pmi.Word) {}})
	go func() { left <- s.Serve(rank, conn) }()
	return left
}

// TestAsksLauncher: rank, size and name are those that the launcher tells, however often
// the environment is read; a name that is given remains; and the ranks of bobnet run
// have theirs by the environment, and the launcher's space all the same.
func TestAsksLauncher(t *testing.T) {
	for _, tc := range []struct {
		space, more string
		cfg         job.Config
		want        string
	}{
		{"kvs_1", "", job.Config{}, "kvs_1"},
		{"kvs 2", "", job.Config{}, "job-ce867c5df7ad1857"},
		{"kvs_3", "", job.Config{Job: "mine"}, "mine"},
		{"j4", "BOBNET_JOB=j4 BOBNET_RANK=1 BOBNET_SIZE=3 PMI_JOBID=j4", job.Config{}, "j4"},
	} {
		left := launch(t, tc.space, 1, 3, tc.more)
		for range 2 {
			cfg, err := tc.cfg.FromEnvironment()
			if err != nil || cfg.Rank != 1 || cfg.Size != 3 || cfg.Job != tc.want {
				t.Errorf("%+v: %+v, %v", tc, cfg, err)
			}
		}
		id := job.Identity{Job: tc.want, Rank: 1, Size: 3}
		if !job.TakeLauncher(&id) || job.TakeLauncher(&id) {
			t.Fatalf("%+v: the connection is not there once", tc)
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
}

// TestOthersLauncher: variables that are inherited from a launcher of another job, as in
// bobnet lab under mpiexec, are left alone.
func TestOthersLauncher(t *testing.T) {
	left := launch(t, "outer", 1, 3, "BOBNET_JOB=inner BOBNET_RANK=1 BOBNET_SIZE=3 PMI_JOBID=outer")
	cfg, err := job.Config{}.FromEnvironment()
	if err != nil || cfg.Job != "inner" || job.TakeLauncher(&job.Identity{Job: "inner", Rank: 1, Size: 3}) {
		t.Errorf("%+v, %v", cfg, err)
	}
	c, err := pmi.Open(context.Background(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finalize(bg); err != nil {
		t.Error(err)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// TestAloneUnderLauncher: a job of one rank takes its leave at once, because nothing of
// it comes later that the launcher could hear of.
func TestAloneUnderLauncher(t *testing.T) {
	left := launch(t, "single", 0, 1, "")
	cfg, err := job.Config{}.FromEnvironment()
	if err != nil || cfg.Size != 1 {
		t.Fatalf("%+v, %v", cfg, err)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// TestDeadLauncher: the variables of one that has gone are an error that says so.
func TestDeadLauncher(t *testing.T) {
	clean(t)
	for name, value := range vars("PMI_FD=1000000 PMI_RANK=0 PMI_SIZE=2") {
		t.Setenv(name, value)
	}
	if cfg, err := (job.Config{}).FromEnvironment(); !contains(err, "PMI_FD is 1000000, which is not an open socket") {
		t.Errorf("%+v, %v", cfg, err)
	}
}
