package perf

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/lab"
	"golang.org/x/sys/unix"
)

//go:embed c/collectives.c
var collectivesSource []byte

// MPI is a C program that calls the collectives of an MPI library, with the command that starts it.
type MPI struct {
	program string
	agent   string // the script that mpiexec starts in place of ssh
	open    bool   // Open MPI; otherwise MPICH or another library with hydra's mpiexec
}

// BuildMPI builds the program in dir. The directory must exist as long as the program is in use.
// The error names missing packages.
func BuildMPI(ctx context.Context, dir string) (*MPI, error) {
	const hint = "(try: apt-get install mpich libmpich-dev)"
	m := &MPI{program: filepath.Join(dir, "collectives"), agent: filepath.Join(dir, "agent")}
	version, err := exec.CommandContext(ctx, "mpiexec", "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("perf: ask mpiexec for its version: %w: %s %s", err, firstLine(version), hint)
	}
	m.open = bytes.Contains(version, []byte("Open MPI")) || bytes.Contains(version, []byte("OpenRTE"))
	cmd := exec.CommandContext(ctx, "mpicc", "-x", "c", "-O2", "-o", m.program, "-")
	cmd.Stdin = bytes.NewReader(collectivesSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("perf: build a C program with mpicc: %w: %s %s", err, firstLine(out), hint)
	}
	return m, nil
}

func firstLine(text []byte) string {
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return first
}

// Stack returns the name of the library in records.
func (m *MPI) Stack() string {
	if m.open {
		return "openmpi"
	}
	return "mpich"
}

// run runs the program with one rank in each namespace of l, or with all ranks in the namespace if
// there is only one.
func (m *MPI) run(ctx context.Context, l *lab.Lab, args []string, out, errOut io.Writer) error {
	hosts, done, err := m.prepare(l)
	if err != nil {
		return err
	}
	defer done()
	argv := m.hydra(hosts, l.Size())
	if m.open {
		argv = m.orte(hosts, l.Size())
	}
	argv = append(append(argv, m.program), args...)
	if hosts == nil {
		argv = append([]string{"sh", "-c", ownProc}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "UCX_LOG_LEVEL=error")
	if hosts != nil { // UCX would detect that all namespaces are on one machine, and would use shared memory, so allow only TCP
		cmd.Env = append(cmd.Env, "UCX_TLS=tcp,self", "UCX_NET_DEVICES="+lab.Interface)
	}
	cmd.Stdout, cmd.Stderr = out, errOut
	p, err := l.Start(0, cmd)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { p.Signal(unix.SIGKILL) }) // at the end of the lab, the processes that mpiexec started are killed
	defer stop()
	if err := p.Wait(); err != nil {
		return fmt.Errorf("perf: mpiexec: %w", err)
	}
	return nil
}

// ownProc is a shell command that runs another command with a /proc that has the lab's process
// numbers. UCX finds the memory of the host's other ranks there.
const ownProc = `mount -t proc proc /proc; exec "$0" "$@"`

// hydra returns the command line of MPICH's mpiexec.
func (m *MPI) hydra(hosts []string, ranks int) []string {
	n := []string{"-n", strconv.Itoa(ranks)}
	if hosts == nil {
		return append([]string{"mpiexec", "-localhost", "localhost"}, n...)
	}
	return append([]string{"mpiexec", "-launcher", "ssh", "-launcher-exec", m.agent, "-iface", lab.Interface,
		"-hosts", strings.Join(hosts, ","), "-ppn", "1"}, n...)
}

// orte returns the command line of Open MPI's mpiexec.
func (m *MPI) orte(hosts []string, ranks int) []string {
	argv := []string{"mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", strconv.Itoa(ranks)}
	if ranks > runtime.NumCPU() { // Open MPI takes the namespaces for hosts, and does not detect that they share the processors
		argv = append(argv, "--mca", "mpi_yield_when_idle", "1")
	}
	if hosts == nil {
		return argv
	}
	return append(argv, "--host", strings.Join(hosts, ","), "--mca", "plm_rsh_agent", m.agent,
		"--mca", "oob_tcp_if_include", lab.Interface, "--mca", "btl_tcp_if_include", lab.Interface,
		"--mca", "pml", "ob1", "--mca", "btl", "tcp,self")
}

// prepare returns the addresses of the namespaces of l. If there are several, it writes the agent
// script by which mpiexec starts processes in them. A process sleeps in each namespace, so that
// nsenter finds the namespace and its /sys. done ends these processes.
func (m *MPI) prepare(l *lab.Lab) (hosts []string, done func(), err error) {
	var sleepers []*lab.Proc
	done = func() {
		for _, p := range sleepers {
			p.Signal(unix.SIGKILL)
			p.Wait()
		}
	}
	if l.Host(l.Size()-1) == 0 {
		return nil, done, nil
	}
	var cases strings.Builder
	for rank := range l.Size() {
		p, err := l.Start(rank, exec.Command("sleep", "infinity"))
		if err != nil {
			done()
			return nil, nil, err
		}
		sleepers = append(sleepers, p)
		hosts = append(hosts, l.Addr(rank).String())
		fmt.Fprintf(&cases, "%v) pid=%d ;;\n", l.Addr(rank), p.Pid())
	}
	script := fmt.Sprintf(agentScript, cases.String())
	if err := os.WriteFile(m.agent, []byte(script), 0o700); err != nil {
		done()
		return nil, nil, fmt.Errorf("perf: write the agent of mpiexec: %w", err)
	}
	return hosts, done, nil
}

// agentScript is called like ssh: with options, a host, and a shell command.
const agentScript = `#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in
%s*) echo "no namespace has the address $1" >&2; exit 1 ;;
esac
shift
exec nsenter --net=/proc/$pid/ns/net --mount=/proc/$pid/ns/mnt sh -c "$*"
`
