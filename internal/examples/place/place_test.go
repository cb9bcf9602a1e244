package place

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/pmi"
	"golang.org/x/sys/unix"
)

// TestFind: a launcher's variables, Bobnet's own, the rank alone, and what does not fit
// together.
func TestFind(t *testing.T) {
	all := []string{"BOBNET_RANK", "BOBNET_SIZE", "BOBNET_JOB", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "SLURM_STEP_ID", "SLURM_PROCID",
		"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID", "JOB_COMPLETION_INDEX"}
	for env, want := range map[string]Place{
		"":                           {}, // ErrAlone
		"BOBNET_RANK=1":              {1, 2, "default"},
		"BOBNET_RANK=1 BOBNET_JOB=x": {1, 2, "x"},
		"BOBNET_RANK=4 BOBNET_SIZE=5 BOBNET_JOB=x":                                        {4, 5, "x"},
		"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4":            {1, 4, "slurm-7.0"},
		"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=4 BOBNET_JOB=ignored": {1, 4, "slurm-7.0"},
		"BOBNET_RANK=2":                 {},
		"BOBNET_RANK=-1":                {},
		"BOBNET_RANK=one":               {},
		"BOBNET_RANK=5 BOBNET_SIZE=5":   {},
		"BOBNET_RANK=1 BOBNET_SIZE=x":   {},
		"PMI_PORT=127.0.0.1:1 PMI_ID=1": {}, // where nobody listens
	} {
		for _, name := range all {
			t.Setenv(name, "")
		}
		for _, set := range strings.Fields(env) {
			name, value, _ := strings.Cut(set, "=")
			t.Setenv(name, value)
		}
		if have, err := Find(2); have != want || (err == nil) != (want != Place{}) {
			t.Errorf("%s: %+v, %v, want %+v", env, have, err, want)
		}
	}
}

// TestFindAsks: a launcher with PMI-1 is asked for the job's name, which tells jobs apart that
// it runs at the same time, and told that the process ends in order. A name that is given
// counts more.
func TestFindAsks(t *testing.T) {
	for _, name := range []string{"PMI_PORT", "BOBNET_SIZE", "BOBNET_RANK"} {
		t.Setenv(name, "")
	}
	for given, want := range map[string]string{"": "kvs_1", "mine": "mine"} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fds[0]), "launcher")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("BOBNET_JOB", given)
		t.Setenv(pmi.EnvFD, strconv.Itoa(fds[1]))
		t.Setenv(pmi.EnvRank, "2")
		t.Setenv(pmi.EnvSize, "3")
		left := make(chan error, 1)
		s := pmi.NewServer(pmi.ServerConfig{Space: "kvs_1", Size: 3, Ranks: 1, Waits: func() {}, Fence: func([]pmi.Word) {}})
		go func() { left <- s.Serve(2, conn) }()
		if have, err := Find(2); err != nil || have != (Place{2, 3, want}) {
			t.Errorf("%+v, %v, want the name %s", have, err, want)
		}
		if err := <-left; err != nil {
			t.Errorf("it has not left in order: %v", err)
		}
	}
}
