package place

import (
	"strings"
	"testing"
)

// TestFind: a launcher's variables, Bobnet's own, the rank alone, and what does not fit
// together.
func TestFind(t *testing.T) {
	all := []string{"BOBNET_RANK", "BOBNET_SIZE", "BOBNET_JOB", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "SLURM_STEP_ID", "SLURM_PROCID",
		"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID", "JOB_COMPLETION_INDEX"}
	for env, want := range map[string]Place{
		"":                           {0, 2, "default"},
		"BOBNET_RANK=1":              {1, 2, "default"},
		"BOBNET_RANK=1 BOBNET_JOB=x": {1, 2, "x"},
		"BOBNET_RANK=4 BOBNET_SIZE=5 BOBNET_JOB=x":                                        {4, 5, "x"},
		"PMI_FD=3 PMI_RANK=2 PMI_SIZE=3":                                                  {2, 3, "default"},
		"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4":            {1, 4, "slurm-7.0"},
		"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=4 BOBNET_JOB=ignored": {1, 4, "slurm-7.0"},
		"BOBNET_RANK=2":               {},
		"BOBNET_RANK=-1":              {},
		"BOBNET_RANK=one":             {},
		"BOBNET_RANK=5 BOBNET_SIZE=5": {},
		"BOBNET_RANK=1 BOBNET_SIZE=x": {},
		"PMI_PORT=host:1 PMI_ID=1":    {},
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
