package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// killed is the rank of killRanks that gets SIGKILL, and killedTag what it waits
// for.
const (
	killRanks = 4
	killed    = 2
	killedTag = 7
)

// What the ranks of a killJob find in their environment.
const (
	suiteEnv   = "BOBNET_TEST_SUITE"   // of killSuites
	doingEnv   = "BOBNET_TEST_DOING"   // what they do when one of them is killed
	driverEnv  = "BOBNET_TEST_DRIVER"  // of their NIC
	firstEnv   = "BOBNET_TEST_FIRST"   // the first of the ranks that were started with this one
	timeoutEnv = "BOBNET_TEST_TIMEOUT" // mplite.Config.PeerTimeout
)

// doings are what ranks do: each calls ready when it is in the middle of it
// and ends with the error that ends it.
var doings = map[string]func(ctx context.Context, c *mplite.Comm, ready func()) error{
	"Exchange":   doExchange,
	"Receive":    doReceive,
	"ReceiveAny": doReceiveAny,
	"Rendezvous": doRendezvous,
	"Barrier":    doBarrier,
}

// killWay is how the ranks of a job reach each other, and what they do in turn
// on it.
type killWay struct {
	name, driver string
	hosts        int           // rank r is on host r % hosts
	timeout      time.Duration // after which a silent rank is dead
	doings       []string
}

// silent is for ranks on different hosts, who learn of a death by hearing
// nothing. Those on the same host hear of it, and tell the others: an hour is
// so long that nobody else does.
const silent, told = 2 * time.Second, time.Hour

var killWays = []killWay{
	{"ring", "ring", killRanks, silent, slices.Sorted(maps.Keys(doings))},
	{"packet", "packet", killRanks, silent, []string{"Exchange"}},
	{"udp", "udp", killRanks, silent, []string{"Exchange"}},
	{"shm", "shm", 1, told, []string{"Exchange", "Receive", "Rendezvous"}},
	{"ring and shm", "ring", 2, told, []string{"Exchange", "Receive", "Rendezvous"}},
}

// killSuite is an interface of Bobnet of which a rank is killed.
type killSuite struct {
	ways []killWay
	// play does what doing says and calls ready in the middle of it. It returns when goOn has ended,
	// with the error that shows that the rank has not learned rightly of the death.
	play func(ctx, goOn context.Context, cfg *mplite.Config, doing string, ready func()) error
}

// killSuites are the interfaces of TestKilled.
var killSuites = map[string]killSuite{
	"mplite":   {killWays, killComm},
	"endpoint": {messageWays, killMessages},
	"splitc":   {processWays, killWorld},
}

// TestKilled: after kill -9 of one rank of four, the operations of each other one end with an error
// that names it, whatever they were doing, on every link. Its ports are free, nobody keeps the
// memory that was shared with it, and in the end nothing is left of the job.
func TestKilled(t *testing.T) {
	needLab(t)
	for _, name := range slices.Sorted(maps.Keys(killSuites)) {
		t.Run(name, func(t *testing.T) { killEach(t, name, killSuites[name].ways) })
	}
}

// killEach kills a rank of each job of a suite.
func killEach(t *testing.T, suite string, ways []killWay) {
	var jobs []*killJob
	for _, way := range ways { // all first, because the survivors take a time-out to notice
		for _, doing := range way.doings {
			jobs = append(jobs, playKill(t, suite, way, doing))
		}
	}
	var namespaces []string
	for _, j := range jobs {
		t.Run(j.way.name+"/"+j.doing, func(t *testing.T) {
			for rank, p := range j.ranks {
				if rank == killed {
					continue
				}
				if line, want := p.line(t), fmt.Sprintf("rank %d failed", killed); line != want {
					p.Signal(unix.SIGUSR1)
					<-p.Done()
					t.Errorf("rank %d says %q, want %q; in full: %s", rank, line, want, &p.stderr)
				}
			}
			j.forgotten(t)
			j.end(t)
			namespaces = append(namespaces, closeLab(t, j.lab)...)
		})
	}
	leaktest.None(t, "network namespaces", func() []string { return leaktest.Namespaces(namespaces) })
}

// killJob is ranks of which one has been killed.
type killJob struct {
	way   killWay
	doing string
	lab   *lab.Lab

	collective bool // the ranks on one host may share memory for collectives
	ranks      []*player
	ports      transport.PortRange // the killed one's
	shared     []string            // the memory that it shared, see sharedMemory
}

// playKill starts the ranks and kills one when all are at it.
func playKill(t *testing.T, suite string, way killWay, doing string) *killJob {
	t.Helper()
	j := &killJob{way: way, doing: doing, collective: suite == "mplite", lab: newLab(t, lab.Config{N: way.hosts})}
	for first := 0; first < killRanks; first += way.hosts {
		j.ranks = append(j.ranks, play(t, j.lab, "kill", suiteEnv+"="+suite, doingEnv+"="+doing, driverEnv+"="+way.driver,
			fmt.Sprintf("%s=%d", firstEnv, first), fmt.Sprintf("%s=%v", timeoutEnv, way.timeout))...)
	}
	for rank, p := range j.ranks {
		var ports transport.PortRange
		line := p.line(t)
		if _, err := fmt.Sscan(line, &ports.Lo, &ports.Hi); err != nil {
			t.Fatalf("%s, %s: rank %d says %q: %v", way.name, doing, rank, line, err)
		}
		if rank == killed {
			j.ports = ports
		}
	}
	victim := j.ranks[killed]
	j.shared = sharedMemory(victim)
	for rank, p := range j.ranks {
		if together := rank != killed && rank%way.hosts == killed%way.hosts; together && len(j.kept(p)) == 0 {
			t.Fatalf("%s, %s: rank %d shares no memory with rank %d, which is on its host", way.name, doing, rank, killed)
		}
	}
	kill(t, victim.Proc)
	return j
}

// killRole is a rank of TestKilled.
func killRole(ctx context.Context) error {
	goOn, stop := signal.NotifyContext(ctx, unix.SIGUSR1)
	defer stop()
	cfg, err := killConfig()
	if err != nil {
		return err
	}
	defer cfg.NIC.Close()
	return killSuites[os.Getenv(suiteEnv)].play(ctx, goOn, cfg, os.Getenv(doingEnv), func() { sayReady(cfg.NIC) })
}

// killComm is a rank of MPLite.
func killComm(ctx, goOn context.Context, cfg *mplite.Config, doing string, ready func()) error {
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	if err := comm.Barrier(ctx); err != nil {
		return err
	}
	return outlive(ctx, goOn, doings[doing](ctx, comm, ready), comm.Finalize)
}

// outlive wants that err, which has ended what a rank did, names a rank, and that the error of leave
// names the killed one. It returns when goOn ends, with the NIC open.
func outlive(ctx, goOn context.Context, err error, leave func(context.Context) error) error {
	var dead *job.RankError
	if !errors.As(err, &dead) {
		return fmt.Errorf("ended with %v, which names no rank", err)
	}
	fmt.Fprintln(os.Stderr, err)
	ended := dead.Rank
	if err := leave(ctx); !errors.As(err, &dead) || dead.Rank != killed {
		return fmt.Errorf("the end of the job returned %v, want that rank %d failed", err, killed)
	}
	fmt.Printf("rank %d failed\n", ended)
	<-goOn.Done()
	return nil
}

// sayReady tells the test that the rank is in the middle of it, and its ports.
func sayReady(nic *vipl.NIC) {
	ports := nic.Query().Ports
	fmt.Println(ports.Lo, ports.Hi)
}

// killConfig is that of a rank of TestKilled, with its NIC.
func killConfig() (*mplite.Config, error) {
	first, err := strconv.Atoi(os.Getenv(firstEnv))
	if err != nil {
		return nil, err
	}
	cfg := config()
	cfg.Rank, cfg.Size = cfg.Rank+first, killRanks
	if cfg.PeerTimeout, err = time.ParseDuration(os.Getenv(timeoutEnv)); err != nil {
		return nil, err
	}
	cfg.NIC, err = vipl.Open(context.Background(), killNIC(os.Getenv(driverEnv)))
	return cfg, err
}

// killNIC describes a NIC in a lab.
func killNIC(driver string) *vipl.Config {
	cfg := &vipl.Config{Driver: driver}
	if driver != "shm" {
		cfg.Interface = lab.Interface
	}
	return cfg
}

// doExchange is the traffic of a simulation: edges, small and large, to the
// neighbours in a grid, and a sum over all ranks.
func doExchange(ctx context.Context, c *mplite.Comm, ready func()) error {
	grid, err := c.CartCreate(ctx, []int{2, 2}, []bool{true, true})
	if err != nil {
		return err
	}
	var out, in [1 << 15]float64
	for step := 0; ; step++ {
		if step == 50 {
			ready()
		}
		n := 100
		if step%8 == 0 {
			n = len(out) // 256 KiB, a rendezvous
		}
		for dim := range 2 {
			for _, disp := range []int{-1, 1} {
				src, dst, err := grid.Shift(dim, disp)
				if err != nil {
					return err
				}
				if _, err := mplite.Sendrecv(ctx, grid.Comm, out[:n], dst, dim, in[:n], src, dim); err != nil {
					return err
				}
			}
		}
		if err := mplite.Allreduce(ctx, grid.Comm, nil, out[:1], mplite.Sum[float64]()); err != nil {
			return err
		}
	}
}

// wait waits for a request that has been started.
func wait(ctx context.Context, r mplite.Request, err error, ready func()) error {
	if err != nil {
		return err
	}
	ready()
	_, err = r.Wait(ctx)
	return err
}

// doReceive: all wait for the rank that will be killed, and it for another.
// Nothing is under way.
func doReceive(ctx context.Context, c *mplite.Comm, ready func()) error {
	src := killed
	if c.Rank() == killed {
		src = 0
	}
	r, err := c.Irecv(make([]byte, 1), src, killedTag)
	return wait(ctx, r, err, ready)
}

// doReceiveAny: all wait for a message from anybody.
func doReceiveAny(ctx context.Context, c *mplite.Comm, ready func()) error {
	r, err := c.Irecv(make([]byte, 1), mplite.AnySource, killedTag)
	return wait(ctx, r, err, ready)
}

// doRendezvous: all have announced a large message to the rank that will be
// killed; it does not take any.
func doRendezvous(ctx context.Context, c *mplite.Comm, ready func()) error {
	if c.Rank() == killed {
		return doReceive(ctx, c, ready)
	}
	r, err := c.Isend(make([]byte, 1<<20), killed, killedTag+1)
	return wait(ctx, r, err, ready)
}

// doBarrier: all but one have entered a barrier.
func doBarrier(ctx context.Context, c *mplite.Comm, ready func()) error {
	ready()
	if c.Rank() == killed {
		return doReceive(ctx, c, func() {})
	}
	return c.Barrier(ctx)
}

// What a killed rank, and its job, must not leave.

// forgotten checks that the ports of the killed rank are free, and that no survivor keeps memory that it shared with
// the killed rank. The ranks of an MPLite job on one host keep the memory of their collectives, which all of them share.
func (j *killJob) forgotten(t *testing.T) {
	t.Helper()
	leaktest.None(t, "memory shared with the killed rank", func() (left []string) {
		holders := map[string]int{}
		for rank, p := range j.ranks {
			for _, inode := range j.kept(p) {
				if rank != killed {
					holders[inode]++
				}
			}
		}
		ofJob := 0
		for inode, n := range holders {
			if j.collective && n == len(j.ranks)-1 {
				ofJob++
				continue
			}
			left = append(left, fmt.Sprintf("%d ranks map %s", n, inode))
		}
		if ofJob > 1 {
			left = append(left, fmt.Sprintf("all ranks map %d files", ofJob))
		}
		return left
	})
	err := j.lab.Exec(killed%j.way.hosts, func() error {
		cfg := killNIC(j.way.driver)
		cfg.Ports = j.ports
		nic, err := vipl.Open(t.Context(), cfg)
		if err != nil {
			return err
		}
		return nic.Close()
	})
	if err != nil {
		t.Errorf("another NIC with the ports of the killed rank: %v", err)
	}
}

// end lets the survivors go, which must succeed, and wants that they leave no
// socket.
func (j *killJob) end(t *testing.T) {
	t.Helper()
	for rank, p := range j.ranks {
		if rank != killed {
			p.Signal(unix.SIGUSR1)
		}
	}
	for rank, p := range j.ranks {
		if rank != killed {
			p.end(t)
		}
	}
	noSockets(t, j.lab)
}

// kept returns what p maps of the memory that the killed rank shared.
func (j *killJob) kept(p *player) []string {
	return slices.DeleteFunc(sharedMemory(p), func(inode string) bool { return !slices.Contains(j.shared, inode) })
}

// stillMapped returns which processes of this machine map some of this memory.
func stillMapped(shared []string) (left []string) {
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		for _, inode := range sharedBy(pid) {
			if slices.Contains(shared, inode) {
				left = append(left, fmt.Sprintf("process %d maps %s", pid, inode))
			}
		}
	}
	return left
}

// sharedMemory returns what p maps of the memory that links share, by inode:
// nothing when it has ended.
func sharedMemory(p *player) (inodes []string) { return sharedBy(p.Pid()) }

// sharedBy is sharedMemory of any process of this machine.
func sharedBy(pid int) (inodes []string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 5 && strings.HasPrefix(f[5], "/memfd:bobnet") {
			inodes = append(inodes, f[4])
		}
	}
	return slices.Compact(inodes)
}
