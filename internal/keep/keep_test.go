package keep

import (
	"os/exec"
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

// TestReapedByOneOnly: the command of a Group is reaped by Reap, whoever reaps orphans meanwhile.
func TestReapedByOneOnly(t *testing.T) {
	for range 100 {
		g := &Group{Cmd: exec.Command("true")}
		if err := g.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		over := make(chan struct{})
		go func() {
			defer close(over)
			for {
				select {
				case <-ended:
					return
				default:
					ReapOrphans(g.Has)
				}
			}
		}()
		err := g.Reap()
		close(ended)
		<-over
		if err != nil || g.ProcessState == nil {
			t.Fatalf("Reap returned %v, and the state %v", err, g.ProcessState)
		}
	}
}
