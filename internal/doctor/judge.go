package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Judge returns what is to be said of the facts, in the order in which a
// person would look. It is pure.
func Judge(f *Facts) []Finding {
	var all []Finding
	for _, judge := range []func(*Facts) []Finding{judgeRights, judgeInterface, judgeMemory, judgeCard, judgeCPU, judgeFilter, judgeSegment} {
		all = append(all, judge(f)...)
	}
	return all
}

func judgeRights(f *Facts) []Finding {
	all := append([]Finding{judgeRaw(f)}, judgeAgent(f)...)
	if raw(f.Driver) {
		all = append(all, judgeXDP(f))
	}
	return append(all, judgeLab(f))
}

func judgeRaw(f *Facts) Finding {
	found := Finding{Check: "raw sockets", Found: "allowed"}
	if f.Rights.NetRaw {
		found.Found += ": CAP_NET_RAW is effective"
	}
	err := f.Rights.RawSocket
	switch {
	case err == nil:
		return found
	case f.Agent.Path != "" && f.Agent.Err == nil:
		found.Found, found.Means = "from the node's agent", fmt.Sprintf("this process itself may open none (%v), and has no need to", err)
		return found
	case errors.Is(err, unix.EAFNOSUPPORT):
		found.Means, found.Fix = "the kernel has no packet sockets", "sudo modprobe af_packet"
	case f.Rights.NetRaw:
		found.Means = "CAP_NET_RAW is effective, so something else forbids it, a seccomp profile for example; only the driver udp works: BOBNET_DRIVER=udp"
		found.Fix = allow(f)
	default:
		found.Means = "CAP_NET_RAW is missing: a program needs it for the drivers ring and packet; the driver udp works without: BOBNET_DRIVER=udp"
		found.Fix = allow(f)
	}
	if f.Agent.Path != "" {
		means, fix := agentAdvice(&f.Agent)
		found.Means, found.Fix = found.Means+"; "+means, found.Fix+"\n"+fix
	}
	found.Level, found.Found = Fail, fmt.Sprintf("refused: %v", err)
	if !raw(f.Driver) {
		found.Level = Note
	}
	return found
}

// allow returns the command against EPERM: the capability, or, where that is
// effective and refused all the same, a container that lets it be used.
func allow(f *Facts) string {
	if f.Rights.NetRaw {
		return "docker run --security-opt seccomp=unconfined --cap-add NET_RAW ..."
	}
	return setcap(f)
}

// Setcap returns the commands, a line each, that let this program open packet
// sockets.
func Setcap() string {
	f := new(Facts)
	f.Program, f.Temporary = program()
	return setcap(f)
}

func setcap(f *Facts) string {
	if f.Temporary {
		return "go build -o bobnet ./cmd/bobnet   # go run removes its program\nsudo setcap cap_net_raw=ep ./bobnet"
	}
	return "sudo setcap cap_net_raw=ep " + f.Program
}

func judgeXDP(f *Facts) Finding {
	found := Finding{Check: "AF_XDP", Found: "allowed"}
	err := f.Rights.XDPSocket
	if err == nil {
		return found
	}
	found.Found = fmt.Sprintf("refused: %v", err)
	found.Means = "frames leave by packet sockets, which takes a little longer"
	if errors.Is(err, unix.EPERM) { // else the kernel has none, and that is all right
		found.Level, found.Fix = Note, allow(f)
	}
	return found
}

func judgeLab(f *Facts) Finding {
	if f.Rights.Lab == nil {
		return Finding{Check: "namespaces", Found: "allowed"}
	}
	text, advice, _ := strings.Cut(f.Rights.Lab.Error(), "\n")
	found := Finding{Level: Note, Check: "namespaces", Found: text,
		Means: "bobnet lab, demo and perf --local do not work for this user; programs do"}
	// The advice is lines of "why: command", or a sentence without a command.
	for line := range strings.Lines(advice) {
		line = strings.TrimSuffix(line, "\n")
		if _, command, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(command, "sudo ") {
			found.Fix += command + "\n"
		} else {
			found.Means += "\n" + line
		}
	}
	found.Fix = strings.TrimSuffix(found.Fix, "\n")
	if found.Fix == "" {
		found.Fix = "sudo " + f.Program + " demo"
	}
	return found
}

// judgeFaults says that frames are lost on purpose.
func judgeFaults(f *Facts) []Finding {
	switch {
	case f.FaultsErr != nil:
		return []Finding{{Level: Fail, Check: "faults", Found: f.FaultsErr.Error(),
			Means: "no NIC can be opened", Fix: "unset BOBNET_FAULT"}}
	case f.Faults != "":
		return []Finding{{Level: Warn, Check: "faults", Found: "BOBNET_FAULT=" + f.Faults,
			Means: "every program with this in its environment loses, doubles or delays frames on purpose", Fix: "unset BOBNET_FAULT"}}
	}
	return nil
}

// judgeNIC says whether one could be opened. When it could not because of a
// right, that has been said.
func judgeNIC(f *Facts) Finding {
	err := f.NIC.Err
	found := Finding{Check: "NIC", Found: fmt.Sprintf("%v by driver %s", f.NIC.Addr, f.NIC.Driver)}
	switch {
	case err == nil:
		return found
	case f.FaultsErr != nil:
		found.Fix = "unset BOBNET_FAULT"
	case errors.Is(err, transport.ErrPermission):
		found.Fix = allow(f)
	case errors.Is(err, vipl.ErrInvalidMTU):
		found.Fix = setMTU(f.Interfaces.Chosen.Name, etherMTU)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		found.Fix = "sudo sysctl -w vm.compact_memory=1"
	default:
		found.Fix = lookAt(f.Interfaces.Chosen.Name)
	}
	found.Level, found.Found, found.Means = Fail, err.Error(), "no program can use the interface like this"
	return found
}
