package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
)

// BenchmarkStart measures how long a job of 8, 16, 32 and 64 ranks takes in 8 namespaces,
// from the start of bobnet run in a ninth until it has ended: ssh to each namespace, the
// look at the hosts, the ranks, their connections with each other, one sum over all, and
// the end. By bobnet's own servers of PMI-1, and by hydra.
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
		for _, ranks := range []int{8, 16, 32, 64} {
			var list []string
			for host := range hosts {
				list = append(list, fmt.Sprintf("%v:%d", l.Addr(host+1), ranks/hosts))
			}
			b.Run(fmt.Sprintf("%s/%d", engine, ranks), func(b *testing.B) {
				for b.Loop() {
					argv := []string{bobnet, "run", "--engine", engine, "--ssh", ssh, "--iface", lab.Interface, "--host", strings.Join(list, ","), "--"}
					out, code := in(b, l, 0, []string{"HYDRA_IFACE=" + lab.Interface}, append(argv, program(b)...)...)
					if want := fmt.Sprintf("%d ranks add up to %d\n", ranks, ranks*(ranks-1)/2); code != 0 || !strings.Contains(out, want) {
						b.Fatalf("exit code %d:\n%s", code, out)
					}
				}
			})
		}
	}
}
