package test

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
)

// joinRole is a rank that meets the others, and leaves.
func joinRole(ctx context.Context) error {
	m, err := job.Open(ctx, nil, job.Program{Name: "Start", Version: 1})
	if err != nil {
		return err
	}
	if me := m.Identity(); me.Rank == 0 {
		fmt.Printf("%d ranks have met\n", me.Size)
	}
	return m.Leave(ctx)
}

// BenchmarkStart measures how long a job of 8, 16, 32 and 64 ranks takes in 8 namespaces,
// from the start of bobnet run in a ninth until it has ended: ssh to each namespace, the
// look at the hosts, the ranks, their connections with each other, and the end. By bobnet's
// own servers of PMI-1, and by hydra. From 32 to 64 ranks it reports by how much it has
// grown, beside what N log N grows by.
//
//	go test ./test -run '^$' -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const hosts = 8
	l := newLab(b, lab.Config{N: hosts + 1})
	ssh := startSSH(b, l)
	bobnet := filepath.Join(commands(b), "bobnet")
	engines := []string{"ssh"}
	if _, err := exec.LookPath("mpiexec.hydra"); err == nil {
		engines = append(engines, "hydra")
	}
	for _, engine := range engines {
		var half time.Duration // what half as many ranks have taken
		for _, ranks := range []int{8, 16, 32, 64} {
			var list []string
			for host := range hosts {
				list = append(list, fmt.Sprintf("%v:%d", l.Addr(host+1), ranks/hosts))
			}
			b.Run(fmt.Sprintf("%s/%d", engine, ranks), func(b *testing.B) {
				for b.Loop() {
					argv := []string{bobnet, "run", "--engine", engine, "--ssh", ssh, "--iface", lab.Interface, "--host", strings.Join(list, ","), "--"}
					out, code := in(b, l, 0, []string{"HYDRA_IFACE=" + lab.Interface}, append(argv, program(b, roleEnv+"=join")...)...)
					if want := fmt.Sprintf("%d ranks have met\n", ranks); code != 0 || !strings.Contains(out, want) {
						b.Fatalf("exit code %d:\n%s", code, out)
					}
				}
				each := b.Elapsed() / time.Duration(b.N)
				if ranks == 64 && half > 0 {
					n := float64(ranks)
					b.ReportMetric(float64(each)/float64(half), "x-of-32")
					b.ReportMetric(n*math.Log2(n)/(n/2*math.Log2(n/2)), "x-by-NlogN")
				}
				half = each
			})
		}
	}
}
