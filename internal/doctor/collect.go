package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Collect examines the machine, the interface that cfg selects, and the segment. For the segment it
// opens a NIC with cfg for a second. cfg already contains the values of the environment. Errors are
// part of the facts.
func Collect(ctx context.Context, cfg *vipl.Config) *Facts {
	f := &Facts{Driver: cfg.Driver, Rights: collectRights()}
	f.Program, f.Temporary = program()
	f.Interfaces = collectInterfaces(cfg)
	f.Agent = collectAgent(cfg.Driver, &f.Interfaces)
	f.Host = collectHost(files{os.DirFS("/")})
	faults, err := seam.Faults()
	if faults.Active() {
		f.Faults = faults.String()
	}
	if f.FaultsErr = err; f.Interfaces.Err == nil {
		f.collectSegment(ctx, cfg)
	}
	if raw(cfg.Driver) && f.Interfaces.Err == nil {
		typ := cmp.Or(cfg.EtherType, ethertype.Default)
		f.Filter.Drops, f.Filter.Err = Drops(f.Interfaces.Chosen.Name, typ)
		f.Bridges = collectBridges(files{os.DirFS("/")}, typ)
	}
	return f
}

// program returns the path of this program's file, and whether go run will remove it.
func program() (file string, temporary bool) {
	file, err := os.Executable()
	if err != nil {
		return os.Args[0], false
	}
	return file, strings.Contains(file, "/go-build")
}

// capabilities returns the effective capabilities of this thread, as bits.
func capabilities() (bits uint64) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

func collectRights() Rights {
	bits := capabilities()
	return Rights{
		NetRaw:    bits&(1<<unix.CAP_NET_RAW) != 0,
		NetAdmin:  bits&(1<<unix.CAP_NET_ADMIN) != 0,
		IPCLock:   bits&(1<<unix.CAP_IPC_LOCK) != 0,
		RawSocket: trySocket(unix.AF_PACKET),
		XDPSocket: trySocket(unix.AF_XDP),
		Lab:       lab.Check(),
	}
}

// trySocket opens a raw socket of a family and closes it.
func trySocket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// collectAgent requests sockets for the chosen interface from the agent, and returns them.
func collectAgent(driver string, in *Interfaces) Agent {
	path := agent.Path()
	if path == "" || !raw(driver) || in.Err != nil {
		return Agent{}
	}
	err := AskAgent(in.Chosen.Name)
	return Agent{Path: path, None: agent.None(err), Err: err, User: os.Getuid()}
}

// AskAgent returns why the node's agent gives this process no sockets for an interface, or nil.
func AskAgent(name string) error {
	lease, err := agent.Open(context.Background(), agent.Path(), agent.Wish{Interface: name, Long: func(iface.Interface) bool { return false }})
	if err != nil {
		return err
	}
	lease.Close()
	agent.CloseAll(lease.Station.Given)
	lease.Station.Release()
	return nil
}

func collectInterfaces(cfg *vipl.Config) Interfaces {
	in := Interfaces{Want: cfg.Interface}
	if in.List, in.Err = iface.List(); in.Err != nil {
		return in
	}
	if in.Chosen, in.Why, in.Err = Choose(cfg); in.Err == nil && in.Chosen != (iface.Interface{}) {
		in.Driver = askDriver(in.Chosen.Name)
	}
	return in
}

func collectHost(files files) Host {
	h := Host{CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Memlock: Unlimited}
	var set unix.CPUSet
	if h.Affinity = h.CPUs; unix.SchedGetaffinity(0, &set) == nil {
		h.Affinity = set.Count()
	}
	if online := files.cpus(); online > 0 {
		h.CPUs = online
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		h.Memlock = limit.Cur
	}
	h.Share = shm.Try()
	h.Quota = files.quota()
	fmt.Sscan(files.read("proc/loadavg"), &h.Load)
	fmt.Sscan(files.read("proc/sys/net/core/rmem_max"), &h.RmemMax)
	fmt.Sscan(files.read("proc/sys/net/core/wmem_max"), &h.WmemMax)
	return h
}

// Choose returns the interface that vipl.Open would use with cfg, and the reason. cfg already
// contains the values of the environment. The interface is zero if the driver needs none.
func Choose(cfg *vipl.Config) (chosen iface.Interface, why string, err error) {
	only := "no other is up"
	switch {
	case cfg.Driver == "shm" && cfg.Interface == "":
		return chosen, "driver shm needs none", nil
	case cfg.Driver == "udp":
		at, ip, err := iface.FindUDP(cfg.Interface)
		if err != nil {
			return chosen, "", err
		}
		chosen, only = at, fmt.Sprintf("no other with an IP address is up; its address is %v", ip)
	default:
		if chosen, err = iface.Find(cfg.Interface); err != nil {
			return chosen, "", err
		}
		list, _ := iface.List() // it cannot fail, because Find has just called it
		if slices.ContainsFunc(list, func(i iface.Interface) bool { return i.Bridge != "" }) {
			only += " but ports of bridges"
		}
	}
	if cfg.Interface != "" {
		return chosen, fmt.Sprintf("%q names it", cfg.Interface), nil
	}
	return chosen, only, nil
}

// raw reports whether a driver needs raw sockets.
func raw(driver string) bool { return driver != "udp" && driver != "shm" }

// files is the file system with /proc and /sys.
type files struct{ fs.FS }

// read returns the text of a file, or "" if it cannot be read.
func (f files) read(name string) string {
	file, err := f.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	// fs.ReadFile would start with a buffer of the file's size. Files of /proc/sys have size 0, and
	// return no more than fits into the first read.
	text, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// cpus returns the number of processors online, or 0 if it is unknown.
func (f files) cpus() (n int) {
	for part := range strings.SplitSeq(f.read("sys/devices/system/cpu/online"), ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(lo)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(hi)
		}
		if err != nil || last < first {
			return 0
		}
		n += last - first + 1
	}
	return n
}

// quota returns the processor time that this process's control group and its ancestors grant, in
// processors; 0 means no limit.
func (f files) quota() float64 {
	least := 0.0
	keep := func(q float64) {
		if q > 0 && (least == 0 || q < least) {
			least = q
		}
	}
	for line := range strings.Lines(f.read("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			switch {
			case fields[0] == "0": // version 2
				keep(f.ratio(path.Join("sys/fs/cgroup", dir, "cpu.max")))
			case strings.Contains(","+fields[1]+",", ",cpu,"):
				keep(f.legacyRatio(path.Join("sys/fs/cgroup/cpu", dir)))
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// ratio parses "QUOTA PERIOD" or "max PERIOD".
func (f files) ratio(name string) float64 {
	var quota, period float64
	if n, _ := fmt.Sscan(f.read(name), &quota, &period); n != 2 || period <= 0 {
		return 0
	}
	return quota / period
}

// legacyRatio is ratio for a directory of control groups of version 1.
func (f files) legacyRatio(dir string) float64 {
	var quota, period float64
	fmt.Sscan(f.read(path.Join(dir, "cpu.cfs_quota_us")), &quota)
	fmt.Sscan(f.read(path.Join(dir, "cpu.cfs_period_us")), &period)
	if quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}
