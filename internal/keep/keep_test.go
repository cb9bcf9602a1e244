package keep

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/job"
)

// TestNames: the names here are those of the packages that this one does not import.
func TestNames(t *testing.T) {
	for have, want := range map[string]string{envRank: job.EnvRank, envSize: job.EnvSize, envJob: job.EnvJob, envPMIRank: pmi.EnvRank, envPMISize: pmi.EnvSize, envPMIJob: pmi.EnvJob} {
		if have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}
