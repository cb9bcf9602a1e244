package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
)

// The launchers that clusters have, each the real one, and bobnet run: they start ranks of
// an ordinary program in a lab, which is told nothing but what its launcher tells.

// tool skips a test where a program is missing.
func tool(t testing.TB, name, debian string) string {
	t.Helper()
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	need.Skip(t, "%s, of Debian's package %s", name, debian)
	return ""
}

// asRoot skips a test whose servers want the real root.
func asRoot(t testing.TB) {
	t.Helper()
	users, err := os.ReadFile("/proc/self/uid_map")
	if fields := strings.Fields(string(users)); err != nil || os.Geteuid() != 0 || len(fields) != 3 || fields[2] != "4294967295" {
		need.Skip(t, "root, outside of user namespaces")
	}
}

// bare is a command without what a lab tells its ranks of their job.
func bare(argv ...string) *exec.Cmd {
	argv = append([]string{"env", "-u", job.EnvRank, "-u", job.EnvSize, "-u", job.EnvJob}, argv...)
	path, err := exec.LookPath("env")
	if err != nil {
		path = "/usr/bin/env"
	}
	return &exec.Cmd{Path: path, Args: argv}
}

// in runs a command in the namespace of a rank of l, and returns what it printed and its
// exit code.
func in(t testing.TB, l *lab.Lab, rank int, env []string, argv ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	cmd := bare(argv...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &text, &text
	p, err := l.Start(rank, cmd)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(patience):
		p.Signal(9)
		<-p.Done()
		t.Errorf("%s hangs", strings.Join(argv, " "))
	}
	return text.String(), p.Code()
}

// startRole is a rank that a launcher has started: all ranks meet, add up their numbers,
// and leave. What is set in startEnd has rank 1 end otherwise.
func startRole(ctx context.Context) error {
	switch end := os.Getenv(startEnd); {
	case end == "before" && ends():
		os.Exit(6)
	case end == "well" && ends():
		os.Exit(0)
	}
	comm, err := mplite.Init(ctx, nil)
	if err != nil {
		return err
	}
	if comm.Rank() == 1 {
		switch os.Getenv(startEnd) {
		case "abort":
			comm.Abort(9)
		case "exit":
			os.Exit(5)
		}
	}
	sum := make([]int64, 1)
	if err := mplite.Allreduce(ctx, comm, []int64{int64(comm.Rank())}, sum, mplite.Sum[int64]()); err != nil {
		return err
	}
	if comm.Rank() == 0 {
		fmt.Printf("%d ranks add up to %d\n", comm.Size(), sum[0])
	}
	return comm.Finalize(ctx)
}

const startEnd = "BOBNET_TEST_END"

// ends reports whether this is rank 1, before it has met the others.
func ends() bool {
	for _, name := range []string{job.EnvRank, "PMI_RANK", "PMI_ID", "SLURM_PROCID"} {
		if rank := os.Getenv(name); rank != "" {
			return rank == "1"
		}
	}
	return false
}

// program returns this program as that rank.
func program(t testing.TB, more ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]string{"env", roleEnv + "=start"}, more...), self)
}

// launchers are tested alike: how each starts so many ranks.
type launcher struct {
	name string
	lab  *lab.Lab
	env  []string
	argv func(ranks int) []string
	// The exit codes that the launcher may end with after a rank has aborted with 9, has ended
	// with 5 after Init, and with 6 before; none: any but 0. Others that fail in consequence
	// end with 1, and hydra by itself mixes codes and signals of all ranks.
	abort, exit, before []int
}

// check has a launcher start ranks that meet, and ranks one of which aborts, or exits
// without a word, after Init or before.
func (l *launcher) check(t *testing.T) {
	const ranks = 4
	out, code := in(t, l.lab, 0, l.env, append(l.argv(ranks), program(t)...)...)
	if code != 0 || !strings.Contains(out, "4 ranks add up to 6\n") {
		t.Errorf("%s: exit code %d:\n%s", l.name, code, out)
	}
	for end, want := range map[string][]int{"abort": l.abort, "exit": l.exit, "before": l.before} {
		argv := append(l.argv(ranks), program(t, startEnd+"="+end, "BOBNET_TIMEOUT=2s")...)
		if out, code := in(t, l.lab, 0, l.env, argv...); code == 0 && len(want) == 0 || len(want) > 0 && !slices.Contains(want, code) || strings.Contains(out, "add up") {
			t.Errorf("%s: a rank that ends by %s: exit code %d, want one of %d:\n%s", l.name, end, code, want, out)
		}
	}
}

// TestHydra: MPICH's mpiexec, with PMI-1 by descriptor and by port.
func TestHydra(t *testing.T) {
	mpiexec := tool(t, "mpiexec.hydra", "mpich")
	l := newLab(t, lab.Config{N: 1})
	for _, mode := range [][]string{nil, {"-pmi-port"}} {
		(&launcher{fmt.Sprint("hydra", mode), l, nil, func(ranks int) []string {
			return append(append([]string{mpiexec, "-localhost", "localhost"}, mode...), "-n", fmt.Sprint(ranks))
		}, []int{9}, []int{5, 1, 9}, []int{6, 1, 7, 9}}).check(t)
	}
}

// TestRunHere: bobnet run on one host, by itself and by hydra; the worst exit code comes
// back.
func TestRunHere(t *testing.T) {
	bobnet := filepath.Join(commands(t), "bobnet")
	l := newLab(t, lab.Config{N: 1})
	(&launcher{"bobnet run", l, nil, func(ranks int) []string {
		return []string{bobnet, "run", "-n", fmt.Sprint(ranks), "--"}
	}, []int{9}, []int{5}, []int{6}}).check(t)
	for end, want := range map[string]int{"abort": 9, "exit": 5} {
		if out, code := in(t, l, 0, nil, append([]string{bobnet, "run", "-n", "3", "--"}, program(t, startEnd+"="+end)...)...); code < want || !strings.Contains(out, "failed first") {
			t.Errorf("%s: exit code %d, want %d:\n%s", end, code, want, out)
		}
	}
	if _, err := exec.LookPath("mpiexec.hydra"); err != nil {
		return // TestHydra says what is missing
	}
	(&launcher{"bobnet run by hydra", l, nil, func(ranks int) []string {
		return []string{bobnet, "run", "--engine", "hydra", "-n", fmt.Sprint(ranks), "--"}
	}, []int{9}, []int{5, 1}, []int{6}}).check(t)
	// A rank that ends well and never meets the others is no failure for hydra. They name it when
	// their time is up.
	argv := append([]string{bobnet, "run", "--engine", "hydra", "-n", "3", "--"}, program(t, startEnd+"=well", "BOBNET_TIMEOUT=8s")...)
	if out, code := in(t, l, 0, nil, argv...); code != 1 || !strings.Contains(out, "rank 1 of job") {
		t.Errorf("a rank ends with 0 before the others have met it: exit code %d, want 1, and that they name it:\n%s", code, out)
	}
}

// TestSlurm: srun, with its own variables alone and with PMI-1, and a process in an
// allocation that srun has not started.
func TestSlurm(t *testing.T) {
	need.Long(t, "Slurm takes seconds to start; TestHydra is the short form")
	for _, name := range []string{"slurmctld", "slurmd", "srun", "sinfo"} {
		tool(t, name, "slurm-wlm")
	}
	tool(t, "munged", "munge")
	asRoot(t)
	l := newLab(t, lab.Config{N: 1})
	env := startSlurm(t, l)
	for _, mode := range []string{"none", "pmi2"} {
		(&launcher{"srun --mpi=" + mode, l, env, func(ranks int) []string {
			return []string{"srun", "--mpi=" + mode, "--kill-on-bad-exit=1", "-n", fmt.Sprint(ranks)}
		}, nil, nil, nil}).check(t)
	}
	bobnet := filepath.Join(commands(t), "bobnet")
	if out, _ := in(t, l, 0, env, "srun", "-n", "2", bobnet, "info"); !strings.Contains(out, ": Slurm (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2)") {
		t.Errorf("srun, and bobnet info says:\n%s", out)
	}
	out, _ := in(t, l, 0, append(env, "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=1"), bobnet, "info")
	if !strings.Contains(out, "was not started by srun") {
		t.Errorf("in an allocation, and bobnet info says:\n%s", out)
	}
}

// slurmConf is the configuration of a Slurm of one host.
const slurmConf = `ClusterName=bobnet
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
AuthType=auth/munge
AuthInfo=socket=DIR/munge.sock
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MpiDefault=none
InactiveLimit=6
KillWait=2
NodeName=HOST NodeAddr=127.0.0.1 CPUs=8
PartitionName=p Nodes=ALL Default=YES State=UP
`

// startSlurm starts a Slurm of one host in the lab's namespace, and returns the environment
// of those who use it.
func startSlurm(t *testing.T, l *lab.Lab) []string {
	dir, err := os.MkdirTemp("", "slurm") // a short name: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	conf := strings.NewReplacer("DIR", dir, "HOST", host).Replace(slurmConf)
	key := make([]byte, 64)
	rand.Read(key)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o755), os.Mkdir(filepath.Join(dir, "spool"), 0o755),
		os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(conf), 0o644), os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	env := []string{"SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}
	munge := []string{tool(t, "munged", "munge"), "--foreground", "--force"}
	for _, file := range []string{"key-file=munge.key", "socket=munge.sock", "pid-file=munge.pid", "log-file=munge.log", "seed-file=munge.seed"} {
		option, name, _ := strings.Cut(file, "=")
		munge = append(munge, "--"+option+"="+filepath.Join(dir, name))
	}
	var said [3]bytes.Buffer
	for i, argv := range [][]string{munge, {tool(t, "slurmctld", "slurm-wlm"), "-D"}, {tool(t, "slurmd", "slurm-wlm"), "-D", "-N", host}} {
		cmd := bare(argv...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = &said[i], &said[i]
		p, err := l.Start(0, cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Signal(9)
			<-p.Done()
			if t.Failed() {
				t.Logf("%s said:\n%s", argv[0], &said[i])
			}
		})
	}
	// The controller takes no jobs before its node has said that it is there.
	end := time.Now().Add(patience)
	for {
		out, code := in(t, l, 0, env, "timeout", "10", "sinfo", "--noheader", "--format=%T")
		if code == 0 && strings.TrimSpace(out) == "idle" {
			return env
		}
		if time.Now().After(end) {
			t.Fatalf("Slurm does not get ready: %s", out)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestRunOverSSH: bobnet run on hosts that are reached by ssh alone, by itself and by hydra;
// a host that is not there, and one that does not know the key, are named.
func TestRunOverSSH(t *testing.T) {
	l := newLab(t, lab.Config{N: 3})
	ssh := startSSH(t, l)
	bobnet := filepath.Join(commands(t), "bobnet")
	hosts := fmt.Sprintf("%v:2,%v:2", l.Addr(1), l.Addr(2))
	run := func(engine string, more ...string) []string {
		return append([]string{bobnet, "run", "--engine", engine, "--ssh", ssh, "--iface", lab.Interface}, more...)
	}
	engines := []string{"ssh"}
	if _, err := exec.LookPath("mpiexec.hydra"); err == nil { // TestHydra says that it is missing
		engines = append(engines, "hydra")
	}
	for _, engine := range engines {
		env, exit := []string{"HYDRA_IFACE=" + lab.Interface}, []int{5}
		if engine == "hydra" {
			exit = append(exit, 1) // of the others, which have heard of it before hydra has
		}
		(&launcher{"bobnet run over ssh by " + engine, l, env, func(ranks int) []string {
			return run(engine, "--host", hosts, "-n", fmt.Sprint(ranks), "--")
		}, []int{9}, exit, []int{6}}).check(t)
	}
	out, code := in(t, l, 0, nil, run("ssh", "--host", hosts, "--map", "node", "--", "cat", "/sys/class/net/bob0/address")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	want := fmt.Sprintf("[0] %v [1] %v [2] %v [3] %v", l.MAC(1), l.MAC(2), l.MAC(1), l.MAC(2))
	if got := strings.Join(lines, " "); code != 0 || got != want {
		t.Errorf("by node: exit code %d, %q, want %q", code, got, want)
	}
	for _, engine := range engines {
		argv := run(engine, "--host", fmt.Sprintf("%v,%v", l.Addr(1), l.Addr(2)), "--bind", "--", "sh", "-c", `echo $BOBNET_PROCESSORS $(grep Cpus_allowed_list /proc/self/status)`)
		out, code := in(t, l, 0, []string{"HYDRA_IFACE=" + lab.Interface}, argv...)
		if n := len(regexp.MustCompile(`(?m)^\[[01]\] 2 Cpus_allowed_list: \d+$`).FindAllString(out, -1)); code != 0 || n != 2 {
			t.Errorf("bound by %s: exit code %d:\n%s", engine, code, out)
		}
	}
	for _, tc := range []struct{ hosts, ssh, says string }{
		{hosts + ",10.88.0.99", ssh, "nothing was started: host 10.88.0.99 is unreachable: ssh: exit status 255"},
		{hosts, strings.Replace(ssh, "IdentityFile=", "IdentityFile=/none", 1), "Permission denied"},
	} {
		argv := []string{bobnet, "run", "--engine", "ssh", "--ssh", tc.ssh, "--host", tc.hosts, "--", "true"}
		if out, code := in(t, l, 0, nil, argv...); code != 1 || !strings.Contains(out, tc.says) {
			t.Errorf("%s: exit code %d:\n%s", tc.says, code, out)
		}
	}
	list := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(list, []byte("# two that are there, and one\n"+strings.ReplaceAll(hosts, ",", "\n")+"\n10.88.0.99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = in(t, l, 0, nil, bobnet, "doctor", "--hosts", list, "--ssh", ssh)
	if code != 1 || !strings.Contains(out, "ok    host 10.88.0.2") || !strings.Contains(out, "interface bob0 of MTU 65535") || !strings.Contains(out, "fail  host 10.88.0.99") {
		t.Errorf("doctor: exit code %d:\n%s", code, out)
	}
}

// TestSSHShared: by hydra a host costs one connection of ssh, as by bobnet itself, and two
// where its server lets nobody share; nothing is left of what they share.
func TestSSHShared(t *testing.T) {
	tool(t, "mpiexec.hydra", "mpich")
	bobnet := filepath.Join(commands(t), "bobnet")
	for conf, want := range map[string]int{"": 2, "MaxSessions 1\n": 4} {
		l := newLab(t, lab.Config{N: 3})
		ssh, connections := countSSH(t, l, conf)
		tmp, err := os.MkdirTemp("", "ssh") // a short name: sockets are in it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(tmp) })
		env := []string{"HYDRA_IFACE=" + lab.Interface, "TMPDIR=" + tmp}
		argv := []string{bobnet, "run", "--engine", "hydra", "--ssh", ssh, "--iface", lab.Interface, "--host", fmt.Sprintf("%v:2,%v:2", l.Addr(1), l.Addr(2)), "--"}
		out, code := in(t, l, 0, env, append(argv, "true")...)
		if n := connections(); code != 0 || n != want {
			t.Errorf("%q: exit code %d after %d connections, want %d:\n%s", conf, code, n, want, out)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%q: %v is left, %v", conf, left, err)
		}
	}
}

// startSSH starts an ssh server in each namespace of the lab, and returns the command that
// gets into them.
func startSSH(t testing.TB, l *lab.Lab) string {
	t.Helper()
	ssh, _ := countSSH(t, l, "")
	return ssh
}

// countSSH is startSSH with more lines of configuration, and returns, too, what counts the
// connections that were made so far.
func countSSH(t testing.TB, l *lab.Lab, conf string) (ssh string, connections func() int) {
	t.Helper()
	more := conf
	sshd, keygen := tool(t, "sshd", "openssh-server"), tool(t, "ssh-keygen", "openssh-client")
	asRoot(t)
	dir := t.TempDir()
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it, and systemd makes it
		t.Fatal(err)
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	for rank := range l.Size() {
		host := l.Host(rank)
		if rank > 0 && host == l.Host(rank-1) {
			continue // its namespace has one
		}
		conf := fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s/user.pub\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nMaxStartups 100\n%s", dir, dir, more)
		name := filepath.Join(dir, fmt.Sprintf("sshd-%d", host))
		if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := l.Start(rank, &exec.Cmd{Path: sshd, Args: []string{sshd, "-D", "-E", name + ".log", "-f", name}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Signal(9)
			<-p.Done()
			if said, err := os.ReadFile(name + ".log"); t.Failed() {
				t.Logf("sshd on host %d said:\n%s %v", host, said, err)
			}
		})
		awaitPort(t, l, rank, 22)
	}
	connections = func() (n int) {
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range logs {
			said, readErr := os.ReadFile(name)
			err = errors.Join(err, readErr)
			n += strings.Count(string(said), "Accepted publickey for")
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return fmt.Sprintf("ssh -T -F none -o BatchMode=yes -o ConnectTimeout=20 -o IdentityFile=%s/user -o IdentitiesOnly=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR", dir), connections
}

// awaitPort waits until something listens on a TCP port of a rank's namespace.
func awaitPort(t testing.TB, l *lab.Lab, rank int, port uint16) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		conn, err := l.Dial(t.Context(), rank, port)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
