package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Judge returns the findings for facts, in the order of a manual diagnosis. It is pure.
func Judge(f *Facts) []Finding {
	var all []Finding
	for _, judge := range []func(*Facts) []Finding{judgeRights, judgeInterface, judgeMemory, judgeCard, judgeCPU, judgeFilter, judgeBridges, judgeSegment} {
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
		found.Found, found.Means = "from the node's agent", fmt.Sprintf("this process may not open raw sockets itself (%v), and does not need to", err)
		return found
	case errors.Is(err, unix.EAFNOSUPPORT):
		found.Means, found.Fix = "the kernel has no packet sockets", "sudo modprobe af_packet"
	case f.Rights.NetRaw:
		found.Means = "CAP_NET_RAW is effective, so something else forbids raw sockets, such as a seccomp profile; only driver udp works: BOBNET_DRIVER=udp"
		found.Fix = allow(f)
	default:
		found.Means = "CAP_NET_RAW is missing: the drivers ring and packet need it; driver udp works without: BOBNET_DRIVER=udp"
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

// allow returns the command against EPERM: set the capability, or, if it is effective already, start
// a container that permits raw sockets.
func allow(f *Facts) string {
	if f.Rights.NetRaw {
		return "docker run --security-opt seccomp=unconfined --cap-add NET_RAW ..."
	}
	return setcap(f)
}

// Setcap returns the commands, one per line, that give this program the capability for packet
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
	found.Means = "frames are sent through packet sockets, which takes slightly longer"
	if errors.Is(err, unix.EPERM) { // otherwise the kernel does not support AF_XDP, and there is nothing to fix
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
		Means: "bobnet lab, demo and perf --local do not work for this user; other programs do"}
	// The advice consists of lines "why: command", or of a sentence without a command.
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

// judgeFaults reports injected faults.
func judgeFaults(f *Facts) []Finding {
	switch {
	case f.FaultsErr != nil:
		return []Finding{{Level: Fail, Check: "faults", Found: f.FaultsErr.Error(),
			Means: "no NIC can be opened", Fix: "unset BOBNET_FAULT"}}
	case f.Faults != "":
		return []Finding{{Level: Warn, Check: "faults", Found: "BOBNET_FAULT=" + f.Faults,
			Means: "every program with this environment drops, duplicates or delays frames on purpose", Fix: "unset BOBNET_FAULT"}}
	}
	return nil
}

// judgeNIC reports whether a NIC could be opened. Another finding reports a missing permission.
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
	case errors.Is(err, unix.EMFILE):
		found.Fix = "ulimit -n 1024   # raises the number of open files for processes of this shell"
	case errors.Is(err, unix.ENFILE):
		found.Fix = "sudo sysctl -w fs.file-max=1000000"
	default:
		found.Fix = lookAt(f.Interfaces.Chosen.Name)
	}
	found.Level, found.Found, found.Means = Fail, err.Error(), "no program can use the interface in this state"
	return found
}

// Sufficient sizes, in bytes.
const (
	enoughMemlock = 64 << 20
	enoughRmem    = 4 << 20
	goodRmem      = 8 << 20
)

func judgeMemory(f *Facts) []Finding {
	all := []Finding{judgeMemlock(f)}
	if f.Host.Share != nil {
		all = append(all, Finding{Level: Fail, Check: "shared memory", Found: f.Host.Share.Error(), Means: "programs of this host cannot reach each other",
			Fix: "ulimit -a   # shows the limits of this shell\nfree -m"})
	}
	if f.NIC.Tried && f.NIC.Err == nil {
		all = append(all, judgeRing(f))
	}
	return append(all, judgeBuffers(f))
}

func judgeMemlock(f *Facts) Finding {
	limit := f.Host.Memlock
	found := Finding{Check: "locked memory", Found: size(limit)}
	switch {
	case limit == Unlimited:
		found.Found = "no limit"
	case f.Rights.IPCLock:
		found.Found += ", not limited with CAP_IPC_LOCK"
	case limit < enoughMemlock:
		found.Level, found.Fix = Note, "ulimit -l unlimited\nsudo systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity"
		found.Means = "memory beyond the limit can be registered but not locked: the system may page it out, which delays messages"
	}
	return found
}

// judgeRing judges the receive queue of the opened NIC.
func judgeRing(f *Facts) Finding {
	found := Finding{Check: "receive queue", Found: fmt.Sprintf("%d frames of %d bytes", f.NIC.Slots, f.NIC.MTU)}
	switch {
	case f.NIC.Slots == 0:
		found.Found = "as many frames as fit into the socket's buffer"
	case f.NIC.Slots < 32:
		found.Level = Warn
		found.Means = "a burst of a few senders overflows it, which causes retransmissions"
		found.Fix = setMTU(f.Interfaces.Chosen.Name, jumboMTU)
	}
	return found
}

// smallBuffers lists the consequences of small buffers. The default driver, ring, receives into its
// own memory.
var smallBuffers = fmt.Sprintf("below %s the drivers udp and packet lose frames of a burst, and ring carries no frames beyond the MTU; other uses do not need large buffers", size(enoughRmem))

func judgeBuffers(f *Facts) Finding {
	h := &f.Host
	found := Finding{Check: "socket buffers", Found: fmt.Sprintf("up to %s to receive, %s to send", size(uint64(h.RmemMax)), size(uint64(h.WmemMax)))}
	switch {
	case f.Rights.NetAdmin && h.RmemMax == 0:
		found.Found = "no limit: CAP_NET_ADMIN is effective"
	case f.Rights.NetAdmin:
		found.Found += ", not limited with CAP_NET_ADMIN"
	case h.RmemMax == 0:
		found.Level, found.Found = Note, "the limits are not visible in this namespace"
		found.Means = smallBuffers
		found.Fix = "sysctl net.core.rmem_max net.core.wmem_max   # shows them outside of the container"
	case h.RmemMax < enoughRmem || h.WmemMax < enoughRmem:
		found.Level = Note
		found.Means = smallBuffers
		found.Fix = fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", goodRmem, goodRmem)
	}
	return found
}

// judgeCPU compares the number of processors with the number of spinning NICs. It counts the NIC of
// the next program as well. It cannot distinguish NICs on other interfaces of this host from those
// of other hosts.
func judgeCPU(f *Facts) []Finding {
	h := &f.Host
	cores := float64(h.Affinity)
	found := Finding{Check: "processors", Found: fmt.Sprintf("%d of %d usable, Go uses %d", h.Affinity, h.CPUs, h.GOMAXPROCS)}
	if h.Quota > 0 {
		found.Found += fmt.Sprintf(", with a quota of %.1f processors", h.Quota)
		cores = min(cores, h.Quota)
	}
	spinners := 1 + f.Segment.Local
	if spinners > 1 {
		found.Found += fmt.Sprintf("; %d NICs on %s may spin: %d of other programs and the next program's", spinners, f.Interfaces.Chosen.Name, f.Segment.Local)
	}
	all := fmt.Sprintf("taskset -c 0-%d PROGRAM", h.CPUs-1)
	switch {
	case h.Quota > 0 && h.Quota < float64(h.Affinity):
		found.Level = Warn
		found.Means = "a program that spins uses up its quota, and is then stopped for tens of milliseconds"
		found.Fix = fmt.Sprintf("docker update --cpus %d CONTAINER\nsudo systemctl set-property UNIT CPUQuota=", h.Affinity)
	case cores < 2:
		found.Level = Warn
		found.Means = "waiting and working threads share a processor: waits do not spin, and each message costs a context switch"
		if found.Fix = all; h.CPUs < 2 {
			found.Fix = "lscpu --all --extended   # shows processors that are offline\nsudo chcpu --enable CPU   # if there is one"
		}
	case float64(spinners) > cores:
		found.Level = Warn
		found.Means = "they cannot all spin: waits yield to each other and then block, so messages take tens of microseconds instead of a few"
		if found.Fix = all; h.Affinity >= h.CPUs {
			found.Fix = "sudo ss --packet --processes   # shows their programs: stop one, or make it block with vipl.Config{Spin: -1}"
		}
	case h.GOMAXPROCS < 2:
		found.Level = Warn
		found.Means = "the service goroutine and a spinning goroutine take turns"
		found.Fix = "export GOMAXPROCS=" + fmt.Sprint(h.Affinity)
	}
	load := Finding{Check: "load", Found: fmt.Sprintf("%.1f threads runnable on %.4g processors", h.Load, cores)}
	if h.Load > cores+0.5 {
		load.Level = Warn
		load.Means = "waits yield to other threads instead of spinning: messages take tens of microseconds instead of a few"
		load.Fix = "top -H   # shows the threads"
	}
	return []Finding{found, load}
}

// size formats a number of bytes.
func size(n uint64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// judgeInterface judges the choice of the interface, its state and its MTU.
func judgeInterface(f *Facts) []Finding {
	in := &f.Interfaces
	choice := Finding{Check: "interface", Found: "none"}
	if in.Err != nil {
		choice.Level, choice.Found, choice.Fix = Fail, in.Err.Error(), chooseFix(f)
		choice.Means = "no NIC can be opened, or only with an explicit interface"
		return append([]Finding{choice}, judgeFaults(f)...)
	}
	if in.Chosen == (iface.Interface{}) {
		choice.Found, choice.Means = "none: "+in.Why, "only programs of this host are reachable"
		return append(append([]Finding{choice}, judgeFaults(f)...), judgeNIC(f))
	}
	choice.Found = fmt.Sprintf("%v: %s", in.Chosen, in.Why)
	for _, other := range in.List {
		if other.Index != in.Chosen.Index {
			choice.Found += fmt.Sprintf("\nnot %v", other)
		}
	}
	all := []Finding{choice}
	if in.Chosen.State != iface.Up {
		all = append(all, Finding{Level: Fail, Check: "carrier", Found: fmt.Sprintf("%s: %s", in.Chosen.Name, in.Chosen.State),
			Means: "the other end of the link is down: the cable, the switch's port, or the other end of a veth pair",
			Fix:   fmt.Sprintf("sudo ip link set dev %s down && sudo ip link set dev %s up", in.Chosen.Name, in.Chosen.Name)})
	}
	if in.Chosen.Macvlan != "" {
		all = append(all, Finding{Level: Note, Check: "macvlan", Found: in.Chosen.Name, Means: in.Chosen.Macvlan,
			Fix: "ip -details link show type macvlan   # lists them"})
	}
	all = append(all, judgeMTU(f))
	all = append(all, judgeFaults(f)...)
	if f.NIC.Tried {
		all = append(all, judgeNIC(f))
	}
	return all
}

// chooseFix returns a command for the case that no interface was chosen.
func chooseFix(f *Facts) string {
	list := f.Interfaces.List
	var up, named []iface.Interface
	mac, macErr := ethertype.ParseMAC(f.Interfaces.Want)
	for _, i := range list {
		if i.State == iface.Up && i.Bridge == "" {
			up = append(up, i)
		}
		if i.Name == f.Interfaces.Want || macErr == nil && i.MAC == mac {
			named = append(named, i)
		}
	}
	switch {
	case len(named) == 1 && named[0].State == iface.Down:
		return fmt.Sprintf("sudo ip link set dev %s up", named[0].Name)
	case len(named) == 1 && named[0].Bridge != "":
		return f.Program + " doctor -i " + named[0].Bridge
	case len(named) == 1:
		return setMTU(named[0].Name, min(max(named[0].MTU, etherMTU), ethertype.MaxMTU))
	case len(up) == 1:
		return mtuOr(up[0], f.Program+" doctor -i "+up[0].Name)
	case len(up) > 1:
		return f.Program + " doctor -i " + up[0].Name
	}
	for _, i := range list {
		if i.State == iface.Down && i.Bridge == "" {
			return fmt.Sprintf("sudo ip link set dev %s up", i.Name)
		}
	}
	if len(list) > 0 {
		return lookAt(list[0].Name)
	}
	return "ip link   # shows all kinds of interfaces\n" + f.Program + " lab -n 1 -- " + f.Program + " doctor   # in a namespace with its own Ethernet interface"
}

// lookAt returns the command that shows the state of an interface, for problems without a known fix.
func lookAt(name string) string {
	if name == "" {
		return "ss --listening --unix --processes   # shows the owners of the names of driver shm"
	}
	return "ip -s link show dev " + name + "   # shows its state and its drops"
}

// mtuOr returns the command that sets a valid MTU if i has an invalid one, and otherwise the second
// argument.
func mtuOr(i iface.Interface, otherwise string) string {
	if i.MTU < ethertype.MinMTU || i.MTU > ethertype.MaxMTU {
		return setMTU(i.Name, min(max(i.MTU, etherMTU), ethertype.MaxMTU))
	}
	return otherwise
}

// The usual MTUs of Ethernet, in bytes.
const (
	etherMTU = 1500
	jumboMTU = 9000
)

func setMTU(name string, mtu int) string {
	return fmt.Sprintf("sudo ip link set dev %s mtu %d", name, mtu)
}

func judgeMTU(f *Facts) Finding {
	i := f.Interfaces.Chosen
	found := Finding{Check: "MTU", Found: fmt.Sprintf("%d bytes", i.MTU)}
	switch {
	case i.MTU < vipl.MinMTU:
		found.Level, found.Fix = Fail, setMTU(i.Name, etherMTU)
		found.Means = fmt.Sprintf("a NIC needs at least %d bytes", vipl.MinMTU)
	case slices.ContainsFunc(f.Segment.Peers, func(p Peer) bool { return p.FullErr != nil && !p.Gone }):
		found.Found += ", more than the path to some peer carries" // the peer's finding has the advice
	case i.MTU < etherMTU:
		found.Level, found.Fix = Warn, setMTU(i.Name, etherMTU)
		found.Means = "less than any Ethernet carries: long messages need more frames than necessary"
	case i.MTU < jumboMTU && f.Interfaces.Driver.Name != "veth":
		found.Level, found.Fix = Note, setMTU(i.Name, jumboMTU)
		found.Means = "long messages are faster with jumbo frames, if the card, the switch and every station are configured for them"
	}
	return found
}

// judgeCard judges the settings of the card's driver. Offloads that segment or merge packets affect
// TCP and UDP only; frames of another EtherType pass unchanged.
func judgeCard(f *Facts) []Finding {
	d := &f.Interfaces.Driver
	if f.Interfaces.Err != nil || f.Interfaces.Chosen == (iface.Interface{}) {
		return nil
	}
	name := f.Interfaces.Chosen.Name
	var all []Finding
	if f.Driver == "udp" { // the offloads do not affect other EtherTypes
		all = append(all, judgeOffloads(d, name))
	}
	if raw(f.Driver) && d.Err == nil && f.Interfaces.Chosen.MTU < framing.LongMTU {
		all = append(all, judgeLong(f, d, name))
	}
	if d.Coalesces {
		all = append(all, judgeCoalescing(d, name))
	}
	if d.RxRing > 0 && d.RxRing < 512 && d.RxRing < d.RxRingMax {
		all = append(all, Finding{Level: Note, Check: "card's queue", Found: fmt.Sprintf("%d frames of %d", d.RxRing, d.RxRingMax),
			Means: "bursts of many senders overflow it, which causes retransmissions",
			Fix:   fmt.Sprintf("sudo ethtool -G %s rx %d", name, min(4096, d.RxRingMax))})
	}
	return all
}

func judgeOffloads(d *Driver, name string) Finding {
	if d.Err != nil {
		return Finding{Check: "offloads", Found: fmt.Sprintf("cannot query the driver: %v", d.Err), Means: "it is unknown whether the card merges received datagrams"}
	}
	found := Finding{Check: "offloads", Found: fmt.Sprintf("%s: GRO %s, UDP segmentation %s", d.Name, onOff(d.GRO), onOff(d.UDPSegments))}
	if !d.GRO {
		found.Level, found.Fix = Note, "sudo ethtool -K "+name+" gro on"
		found.Means = "datagrams are received one by one"
	}
	return found
}

// judgeLong reports whether the interface itself carries long frames whole.
func judgeLong(f *Facts, d *Driver, name string) Finding {
	const joined = "receivers join the segments: this costs more processor time than whole frames, and less than frames of the MTU"
	found := Finding{Check: "long frames"}
	switch {
	case !iface.Virtual(d.Name):
		found.Found, found.Means = "none: the card would cut them", "long messages use frames of the MTU"
	case f.Agent.Path != "" && !f.Agent.None && f.Agent.Err == nil && !f.Rights.NetRaw:
		found.Found, found.Means = "none through the agent's sockets, unless the agent runs with --unguarded", "long messages use frames of the MTU"
	case d.Cuts.Card:
		found.Found, found.Means = "cut by the card "+d.Cuts.By+", on which "+name+" is", joined
	case d.Cuts.By != "":
		found.Level, found.Found = Note, "cut by the kernel, because segmentation offload is off"
		if d.Cuts.By != name {
			found.Found += " on " + d.Cuts.By
		}
		found.Means, found.Fix = joined, "sudo ethtool -K "+d.Cuts.By+" tso on gso on"
	default:
		found.Found = "leave whole; bobnet doctor --hosts shows which paths carry them"
	}
	return found
}

// coalesceMicros is the interrupt delay, in microseconds, above which there is a note: a few times
// the latency of a message.
const coalesceMicros = 8

func judgeCoalescing(d *Driver, name string) Finding {
	found := Finding{Check: "interrupts", Found: fmt.Sprintf("delayed by up to %d us", d.CoalesceMicros)}
	if d.AdaptiveRx {
		found.Found += ", adaptively"
	}
	if d.CoalesceMicros > coalesceMicros || d.AdaptiveRx {
		found.Level, found.Means = Note, "this delay adds to the latency of each message, because frames reach the ring after the interrupt"
		found.Fix = "sudo ethtool -C " + name + " adaptive-rx off rx-usecs 0"
	}
	return found
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// judgeAgent reports whether the node's agent gives sockets to this process. It returns no finding if
// there is no agent and none is needed, or if the finding about raw sockets covers it (agentAdvice).
func judgeAgent(f *Facts) []Finding {
	a := &f.Agent
	found := Finding{Check: "agent"}
	switch {
	case a.Path == "", a.Err != nil && (a.None || f.Rights.RawSocket != nil):
		return nil
	case a.Err == nil:
		found.Found = "serves at " + a.Path
		found.Means = "programs of this user without permission for raw sockets get sockets from it"
	default:
		found.Level, found.Found = Note, a.Err.Error()
		found.Means, found.Fix = agentAdvice(a)
	}
	return []Finding{found}
}

// agentAdvice returns the consequence and the fix if the agent gives no sockets.
func agentAdvice(a *Agent) (means, fix string) {
	switch {
	case a.None:
		return "no agent that could open them serves at " + a.Path, fmt.Sprintf("sudo bobnet agent --allow user:%d", a.User)
	case errors.Is(a.Err, transport.ErrPermission):
		return "the agent's policy does not allow this user", fmt.Sprintf("echo user:%d | sudo tee -a /etc/bobnet/agent.policy   # or extend its --allow", a.User)
	}
	return fmt.Sprintf("the agent gives no sockets (%v)", a.Err), "systemctl status bobnet-agent"
}

// judgeFilter reports rules and counters that show drops on this host.
func judgeFilter(f *Facts) []Finding {
	name := f.Interfaces.Chosen.Name
	all := JudgeDrops("filter", f.Filter.Drops)
	if t := &f.Traffic; len(all) == 0 && t.Sent > 0 && t.Left == 0 {
		all = append(all, Finding{Level: Fail, Check: "filter", Found: fmt.Sprintf("%d frames were sent, but %s counted none of them", t.Sent, name),
			Means: "this host drops them on egress: by a rule of nftables (hook egress) or of traffic control",
			Fix:   fmt.Sprintf("sudo nft list ruleset netdev\nsudo tc -s filter show dev %s egress", name)})
	}
	if t := &f.Traffic; t.TxDropped+t.RxDropped > 0 {
		all = append(all, Finding{Level: Note, Check: "drops", Found: fmt.Sprintf("%s dropped %d received and %d outgoing frames within a second", name, t.RxDropped, t.TxDropped),
			Means: "its queues overflow, or no program receives the frames; they may belong to other programs", Fix: lookAt(name)})
	}
	return all
}

// JudgeDrops returns a finding for each rule that drops Bobnet's frames. It is pure.
func JudgeDrops(check string, drops []Drop) (all []Finding) {
	for _, d := range drops {
		found := Finding{Level: Fail, Check: check, Found: "nftables drops Bobnet's frames: " + d.String(),
			Means: "programs cannot reach each other through this interface", Fix: d.fix()}
		switch {
		case d.Others:
			found.Level, found.Means = Warn, "programs whose frames this host bridges cannot reach each other; its own interface is not affected"
		case d.Maybe:
			found.Level, found.Found = Warn, "nftables may drop Bobnet's frames: "+d.String()
			found.Means = "the rule has other conditions than the EtherType, such as an address, a set or a rate: check whether it matches Bobnet's frames"
		}
		all = append(all, found)
	}
	return all
}

// judgeSegment judges the peers that have answered.
func judgeSegment(f *Facts) []Finding {
	if !f.NIC.Tried || f.NIC.Err != nil {
		return nil
	}
	if f.Segment.Err != nil {
		return []Finding{{Level: Fail, Check: "segment", Found: f.Segment.Err.Error(),
			Means: "no station could be asked", Fix: lookAt(f.Interfaces.Chosen.Name)}}
	}
	if len(f.Segment.Peers) == 0 {
		return []Finding{{Level: Note, Check: "segment", Found: "no other Bobnet program answers",
			Means: "none is running, or a switch, a filter or another EtherType separates them; start one on another machine and check again",
			Fix:   "bobnet ping --listen"}}
	}
	var all []Finding
	for i := range f.Segment.Peers {
		all = append(all, judgePeer(f, &f.Segment.Peers[i]))
	}
	return all
}

func judgePeer(f *Facts, p *Peer) Finding {
	name, here := f.Interfaces.Chosen.Name, f.NIC.MTU
	found := Finding{Check: "peer", Found: fmt.Sprintf("%v %s, MTU %d: %v", p.Addr, p.Host, p.MTU, micros(p.Small))}
	switch {
	case p.Gone:
		found.Level, found.Found = Note, fmt.Sprintf("%v %s: no longer answers", p.Addr, p.Host)
		found.Means = "it answered the first broadcast, and then neither unicast frames nor another broadcast: its program has probably ended"
		found.Fix = f.Program + " doctor   # checks again"
	case p.SmallErr != nil:
		found.Level, found.Found = Fail, fmt.Sprintf("%v %s: %v", p.Addr, p.Host, p.SmallErr)
		found.Means = "it answers broadcasts but not unicast frames: a switch or bridge has its MAC at another port, or two stations have the same MAC"
		found.Fix = fmt.Sprintf("bridge fdb show | grep -i %v   # on the bridge's host: shows the PORT where the bridge expects the MAC", p.Addr.MAC) +
			fmt.Sprintf("\nsudo bridge fdb del %v dev PORT master   # if that is wrong", p.Addr.MAC)
	case p.FullErr != nil:
		found.Level = Fail
		found.Found = fmt.Sprintf("%v %s, MTU %d: short frames %v, full ones (%d bytes) do not come back", p.Addr, p.Host, p.MTU, micros(p.Small), p.FullBytes)
		found.Means = "the path carries shorter frames than both interfaces: connections fail with ErrInvalidMTU"
		found.Fix = f.Program + " doctor   # checks again: the MTU of the path could not be determined"
		if p.Carries > 0 {
			found.Found += fmt.Sprintf("; the path carries an MTU of %d", p.Carries)
			found.Fix = setMTU(name, p.Carries) + "   # here and at every station; or raise the MTU of the path"
		}
		if p.Carries > 0 && p.Carries < vipl.MinMTU {
			found.Means = fmt.Sprintf("the path carries less than a NIC needs (%d bytes): raise its MTU", vipl.MinMTU)
			found.Fix = ShowLinks
		}
	case p.MTU < here:
		found.Level = Note
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
		found.Means = fmt.Sprintf("connections use its MTU, %d, not this side's %d", p.MTU, here)
		found.Fix = fmt.Sprintf("sudo ip link set dev IFACE mtu %d   # at %s", here, orAddr(p))
	case p.MTU > here:
		found.Level = Note
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
		found.Means = fmt.Sprintf("connections use this side's MTU, %d, not its %d", here, p.MTU)
		found.Fix = setMTU(name, p.MTU)
	default:
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
	}
	return found
}

// ShowLinks is the command that shows the MTU of each interface of a Linux switch or bridge.
const ShowLinks = "ip link   # on the switch or bridge between them: shows the MTU of each interface"

// orAddr names the peer's machine.
func orAddr(p *Peer) string {
	if p.Host != "" {
		return p.Host
	}
	return p.Addr.MAC.String()
}

// micros formats a round-trip time.
func micros(d time.Duration) string { return fmt.Sprintf("%.1f us", float64(d)/1e3) }
