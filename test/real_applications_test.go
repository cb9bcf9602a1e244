package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc"
)

// Short runs of the applications, each of which checks its result.
var checkedRuns = map[string][]string{
	"fft3d":    {"-n", "32", "-check"},
	"cg":       {"-n", "300", "-row", "20", "-check"},
	"cholesky": {"-n", "192", "-check"},
	"em3d":     {"-steps", "10", "-particles", "100", "-check"},
	"raytrace": {"-width", "64", "-height", "48", "-check"},
}

// TestApplications: applications over shared memory within a host and messages between
// hosts, over every other layer, and on sixteen ranks have the result that they compare
// theirs with.
func TestApplications(t *testing.T) {
	needLab(t)
	dir := commands(t) // built before the clocks start
	for _, tt := range []struct {
		app, layer     string
		ranks, perHost int
	}{
		{"fft3d", "shm", 4, 2}, {"cg", "shm", 4, 2}, {"cholesky", "shm", 4, 2}, {"em3d", "shm", 4, 2}, {"raytrace", "shm", 4, 2},
		{"cg", "am", 4, 1}, {"cholesky", "am", 4, 2},
		{"em3d", "reliable", 4, 1}, {"fft3d", "reliable", 4, 2},
		{"cholesky", "unreliable", 4, 1}, {"raytrace", "unreliable", 4, 2},
		{"fft3d", "rdma", 4, 1}, {"em3d", "rdma", 4, 2},
		{"em3d", "shm", 16, 2},
	} {
		if !need.Full() && tt.perHost != 2 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%d/%d", tt.app, tt.layer, tt.ranks, tt.perHost), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			args := []string{"lab", "-n", fmt.Sprint(tt.ranks), "--per-host", fmt.Sprint(tt.perHost), "--", filepath.Join(dir, tt.app)}
			cmd := exec.CommandContext(ctx, filepath.Join(dir, "bobnet"), append(args, checkedRuns[tt.app]...)...)
			cmd.Env = append(os.Environ(), splitc.EnvLayer+"="+tt.layer)
			out, err := cmd.CombinedOutput()
			if ran := fmt.Sprintf(": %d ranks over %s took", tt.ranks, tt.layer); err != nil || !strings.Contains(string(out), ran) || !strings.Contains(string(out), "checked: ") {
				t.Errorf("%v: want %q, and that the result was checked:\n%s", err, ran, out)
			}
		})
	}
}
