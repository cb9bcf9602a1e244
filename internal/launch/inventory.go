package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Inventory describes a host. Each host sends it before it gets work.
type Inventory struct {
	Protocol   int    // Protocol
	Version    string // of the bobnet command
	Host       string
	Clock      int64 // wall clock, in nanoseconds since 1970
	CPUs       int
	Interface  string `json:",omitempty"` // that would be used
	MAC        string `json:",omitempty"` // of that interface
	MTU        int    `json:",omitempty"`
	Why        string `json:",omitempty"` // reason for this interface
	Trouble    string `json:",omitempty"` // why no interface can be used
	KeyFile    string `json:",omitempty"` // path of the requested key file
	KeyTrouble string `json:",omitempty"` // why the key file cannot be read
}

// Look returns the inventory of this host. cfg already contains the values of the environment.
// keyFile is the path of the key file, or "".
func Look(version string, cfg *vipl.Config, keyFile string) *Inventory {
	inv := &Inventory{Protocol: Protocol, Version: version, CPUs: runtime.NumCPU()}
	inv.Host, _ = os.Hostname()
	chosen, why, err := doctor.Choose(cfg)
	switch {
	case err != nil:
		inv.Trouble = err.Error()
	case chosen != (iface.Interface{}):
		inv.Interface, inv.MAC, inv.MTU, inv.Why = chosen.Name, chosen.MAC.String(), chosen.MTU, why
		if chosen.State != iface.Up {
			inv.Trouble = iface.Obstacle(chosen.Name)
		}
	default:
		inv.Why = why
	}
	if inv.Trouble == "" && cfg.Driver != "udp" && cfg.Driver != "shm" {
		if inv.Trouble = rawSocket(); inv.Trouble != "" && agent.Path() != "" && doctor.AskAgent(inv.Interface) == nil {
			inv.Trouble = "" // the ranks get their sockets from the agent
		}
	}
	if inv.KeyFile = keyFile; keyFile != "" {
		if _, err := seal.File(keyFile)(); err != nil {
			inv.KeyTrouble = err.Error()
		}
	}
	inv.Clock = time.Now().UnixNano()
	return inv
}

// rawSocket returns why a process may not open packet sockets, or "".
func rawSocket() string {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Sprintf("raw sockets not permitted: %v", err)
	}
	unix.Close(fd)
	return ""
}

// Answer is the answer of a host, or the error.
type Answer struct {
	Host    Host
	Err     error
	Inv     *Inventory
	Arrived int64 // time of arrival, on this host's clock
}

// maxSkew is the maximum difference between clocks, including the delay of the answer.
const maxSkew = 2 * time.Second

// Judge returns findings about the hosts of a job. version is the head's version. Judge compares the
// interfaces with that of the first host that answers. It is pure.
func Judge(version string, answers []Answer) []doctor.Finding {
	var all []doctor.Finding
	var first *Answer
	for i, a := range answers {
		all = append(all, judgeHost(version, a, first, len(answers) > 1)...)
		if first == nil && a.Err == nil {
			first = &answers[i]
		}
	}
	return all
}

func judgeHost(version string, a Answer, first *Answer, several bool) (all []doctor.Finding) {
	name := "host " + a.Host.Name
	bad := func(level doctor.Level, found, means, fix string) {
		all = append(all, doctor.Finding{Level: level, Check: name, Found: found, Means: means, Fix: fix})
	}
	if a.Err != nil {
		fix := "ssh -o BatchMode=yes " + a.Host.Name + " true"
		if missing := (*noProgram)(nil); errors.As(a.Err, &missing) {
			fix = on(a.Host, "command -v bobnet")
		}
		bad(doctor.Fail, a.Err.Error(), "no rank can be started there", fix)
		return all
	}
	inv := a.Inv
	if inv.Protocol != Protocol || inv.Version != version {
		bad(doctor.Fail, fmt.Sprintf("has bobnet %s (protocol %d), this host has %s (protocol %d)", inv.Version, inv.Protocol, version, Protocol),
			"the versions may be incompatible: install the same version there, or set its path with --program", on(a.Host, "bobnet version"))
		return all
	}
	if inv.Trouble != "" {
		level := doctor.Fail
		if !several { // ranks on one host may not need an interface
			level = doctor.Warn
		}
		bad(level, "has no usable interface: "+inv.Trouble, "its ranks cannot reach the others", on(a.Host, "bobnet doctor"))
	}
	if inv.KeyTrouble != "" {
		bad(doctor.Fail, "cannot read the key file: "+inv.KeyTrouble, "its ranks would not start: all hosts need the same file at the same path",
			"scp -p "+inv.KeyFile+" "+a.Host.Name+":"+inv.KeyFile)
	}
	if first != nil && inv.Trouble == "" && first.Inv.Trouble == "" {
		all = append(all, judgeInterfaces(a, *first)...)
	}
	skew := time.Duration(a.Arrived - inv.Clock)
	if skew.Abs() > maxSkew {
		bad(doctor.Warn, fmt.Sprintf("has a wall clock that is off by %v", (-skew).Round(time.Millisecond)), "times in logs and files will not agree", on(a.Host, "date"))
	}
	if len(all) == 0 {
		found := fmt.Sprintf("bobnet %s, %d processors, clock within %v", inv.Version, inv.CPUs, max(skew.Abs(), time.Millisecond).Round(time.Millisecond))
		if inv.Interface != "" {
			found += fmt.Sprintf(", interface %s of MTU %d: %s", inv.Interface, inv.MTU, inv.Why)
		}
		bad(doctor.OK, found, "", "")
	}
	return all
}

// judgeInterfaces reports how the interface of a host differs from that of the first host.
func judgeInterfaces(a, first Answer) (all []doctor.Finding) {
	odd := func(found, means, fix string) {
		all = append(all, doctor.Finding{Level: doctor.Warn, Check: "host " + a.Host.Name, Found: found, Means: means, Fix: fix})
	}
	mine, theirs := a.Inv, first.Inv
	if mine.Interface != theirs.Interface {
		odd(fmt.Sprintf("would use interface %q, host %s would use %q", mine.Interface, first.Host.Name, theirs.Interface),
			"they may be on different segments: set one for all hosts with --iface", on(a.Host, "bobnet info"))
	}
	if mine.MTU == theirs.MTU || mine.Interface == "" || theirs.Interface == "" {
		return all
	}
	low, high := a, first
	if mine.MTU > theirs.MTU {
		low, high = first, a
	}
	odd(fmt.Sprintf("has MTU %d on interface %s, host %s has %d on %s", mine.MTU, mine.Interface, first.Host.Name, theirs.MTU, theirs.Interface),
		"one of them sends frames that the other drops, or messages need more frames: set the same MTU on all hosts and on the switch",
		on(low.Host, fmt.Sprintf("sudo ip link set dev %s mtu %d", low.Inv.Interface, max(high.Inv.MTU, vipl.MinMTU))))
	return all
}

// on returns a shell command that runs command on a host.
func on(h Host, command string) string {
	if h.local() {
		return command
	}
	return "ssh " + h.Name + " " + command
}
