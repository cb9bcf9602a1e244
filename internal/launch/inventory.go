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

// Inventory is what a host says of itself before it is given work.
type Inventory struct {
	Protocol   int    // Protocol
	Version    string // of the bobnet command
	Host       string
	Clock      int64 // of the wall, in nanoseconds since 1970
	CPUs       int
	Interface  string `json:",omitempty"` // that would be used
	MAC        string `json:",omitempty"` // of that interface
	MTU        int    `json:",omitempty"`
	Why        string `json:",omitempty"` // that one
	Trouble    string `json:",omitempty"` // why none can be used
	KeyFile    string `json:",omitempty"` // that was asked for, with the key of sealed frames
	KeyTrouble string `json:",omitempty"` // why it cannot be read
}

// Look returns the inventory of this host. What the environment says is filled into cfg
// already. keyFile is the file with the key of sealed frames, "" for none.
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
			inv.Trouble = "" // the ranks get their sockets as this process would
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

// rawSocket says why a process may open no packet socket.
func rawSocket() string {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Sprintf("raw sockets are refused (%v): see bobnet doctor there", err)
	}
	unix.Close(fd)
	return ""
}

// Answer is what a host answered, or why it did not.
type Answer struct {
	Host    Host
	Err     error
	Inv     *Inventory
	Arrived int64 // when, on the clock here
}

// maxSkew is how far clocks may be apart, which includes the way of the answer.
const maxSkew = 2 * time.Second

// Judge says what is wrong with the hosts of a job, for a head of a version. It is pure.
// The first host that answers is what the others' interfaces are compared with.
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
			fix = "ssh " + a.Host.Name + " command -v bobnet"
		}
		bad(doctor.Fail, a.Err.Error(), "nothing can be started there", fix)
		return all
	}
	inv := a.Inv
	if inv.Protocol != Protocol || inv.Version != version {
		bad(doctor.Fail, fmt.Sprintf("has bobnet %s (protocol %d), and here is %s (protocol %d)", inv.Version, inv.Protocol, version, Protocol),
			"they may not understand each other: install the same there, or name another file by --program", "ssh "+a.Host.Name+" bobnet version")
		return all
	}
	if inv.Trouble != "" {
		level := doctor.Fail
		if !several { // its ranks may do without
			level = doctor.Warn
		}
		bad(level, "has no interface to use: "+inv.Trouble, "its ranks cannot reach the others", "ssh "+a.Host.Name+" bobnet doctor")
	}
	if inv.KeyTrouble != "" {
		bad(doctor.Fail, "cannot read the key of sealed frames: "+inv.KeyTrouble, "its ranks would not start: all hosts have the same file in the same place",
			"scp -p "+inv.KeyFile+" "+a.Host.Name+":"+inv.KeyFile)
	}
	if first != nil && inv.Trouble == "" && first.Inv.Trouble == "" {
		all = append(all, judgeInterfaces(a, *first)...)
	}
	skew := time.Duration(a.Arrived - inv.Clock)
	if skew.Abs() > maxSkew {
		bad(doctor.Warn, fmt.Sprintf("has a clock of the wall that is %v off", (-skew).Round(time.Millisecond)), "times in logs and files will not agree", "ssh "+a.Host.Name+" date")
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

// judgeInterfaces says how the interface of a host differs from that of the first one.
func judgeInterfaces(a, first Answer) (all []doctor.Finding) {
	odd := func(found, means, fix string) {
		all = append(all, doctor.Finding{Level: doctor.Warn, Check: "host " + a.Host.Name, Found: found, Means: means, Fix: fix})
	}
	mine, theirs := a.Inv, first.Inv
	if mine.Interface != theirs.Interface {
		odd(fmt.Sprintf("would use interface %q, and host %s %q", mine.Interface, first.Host.Name, theirs.Interface),
			"they may be on different segments: --iface names one for all hosts", on(a.Host, "bobnet info"))
	}
	if mine.MTU == theirs.MTU || mine.Interface == "" || theirs.Interface == "" {
		return all
	}
	low, high := a, first
	if mine.MTU > theirs.MTU {
		low, high = first, a
	}
	odd(fmt.Sprintf("has MTU %d on interface %s, and host %s has %d on %s", mine.MTU, mine.Interface, first.Host.Name, theirs.MTU, theirs.Interface),
		"one of them sends frames that the other does not take, or messages need more frames: give all hosts, and the switch, one MTU",
		on(low.Host, fmt.Sprintf("sudo ip link set dev %s mtu %d", low.Inv.Interface, max(high.Inv.MTU, vipl.MinMTU))))
	return all
}

// on returns the command that runs another one on a host.
func on(h Host, command string) string {
	if h.local() {
		return command
	}
	return "ssh " + h.Name + " " + command
}
