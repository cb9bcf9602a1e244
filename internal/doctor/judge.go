package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
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
	case errors.Is(err, unix.EMFILE):
		found.Fix = "ulimit -n 1024   # raises how many files a process of this shell may have open"
	case errors.Is(err, unix.ENFILE):
		found.Fix = "sudo sysctl -w fs.file-max=1000000"
	default:
		found.Fix = lookAt(f.Interfaces.Chosen.Name)
	}
	found.Level, found.Found, found.Means = Fail, err.Error(), "no program can use the interface like this"
	return found
}

// What is enough, in bytes.
const (
	enoughMemlock = 64 << 20
	enoughRmem    = 4 << 20
	goodRmem      = 8 << 20
)

func judgeMemory(f *Facts) []Finding {
	all := []Finding{judgeMemlock(f)}
	if f.Host.Share != nil {
		all = append(all, Finding{Level: Fail, Check: "shared memory", Found: f.Host.Share.Error(), Means: "programs of this host do not reach each other",
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
		found.Found += ", which CAP_IPC_LOCK passes"
	case limit < enoughMemlock:
		found.Level, found.Fix = Note, "ulimit -l unlimited\nsudo systemctl edit UNIT   # [Service] LimitMEMLOCK=infinity"
		found.Means = "more can be registered, but is not locked: the system may page it out, and a message waits for it"
	}
	return found
}

// judgeRing looks at the receive queue of the NIC that was opened.
func judgeRing(f *Facts) Finding {
	found := Finding{Check: "receive queue", Found: fmt.Sprintf("%d frames of %d bytes", f.NIC.Slots, f.NIC.MTU)}
	switch {
	case f.NIC.Slots == 0:
		found.Found = "as many frames as fit the socket's buffer"
	case f.NIC.Slots < 32:
		found.Level = Warn
		found.Means = "a burst of a few senders overflows it, and frames are sent again"
		found.Fix = setMTU(f.Interfaces.Chosen.Name, jumboMTU)
	}
	return found
}

// smallBuffers says who needs large ones: the default driver, ring, receives
// into memory of its own.
var smallBuffers = fmt.Sprintf("below %s the drivers udp and packet lose bursts, and ring carries no frames beyond the MTU; nothing else needs them", size(enoughRmem))

func judgeBuffers(f *Facts) Finding {
	h := &f.Host
	found := Finding{Check: "socket buffers", Found: fmt.Sprintf("up to %s to receive, %s to send", size(uint64(h.RmemMax)), size(uint64(h.WmemMax)))}
	switch {
	case f.Rights.NetAdmin && h.RmemMax == 0:
		found.Found = "without limit: CAP_NET_ADMIN is effective"
	case f.Rights.NetAdmin:
		found.Found += ", which CAP_NET_ADMIN passes"
	case h.RmemMax == 0:
		found.Level, found.Found = Note, "the limits cannot be seen from here"
		found.Means = smallBuffers
		found.Fix = "sysctl net.core.rmem_max net.core.wmem_max   # shows them, outside of the container"
	case h.RmemMax < enoughRmem || h.WmemMax < enoughRmem:
		found.Level = Note
		found.Means = smallBuffers
		found.Fix = fmt.Sprintf("sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", goodRmem, goodRmem)
	}
	return found
}

// judgeCPU compares processors with what spins on them: a wait on a NIC does,
// the NIC that a program is about to open included. NICs of this host that are
// behind other interfaces cannot be told from those of other hosts.
func judgeCPU(f *Facts) []Finding {
	h := &f.Host
	cores := float64(h.Affinity)
	found := Finding{Check: "processors", Found: fmt.Sprintf("%d of %d may be used, Go uses %d", h.Affinity, h.CPUs, h.GOMAXPROCS)}
	if h.Quota > 0 {
		found.Found += fmt.Sprintf(", for %.1f processors' time", h.Quota)
		cores = min(cores, h.Quota)
	}
	spinners := 1 + f.Segment.Local
	if spinners > 1 {
		found.Found += fmt.Sprintf("; %d NICs on %s may spin: %d of other programs, and the next program's", spinners, f.Interfaces.Chosen.Name, f.Segment.Local)
	}
	all := fmt.Sprintf("taskset -c 0-%d PROGRAM", h.CPUs-1)
	switch {
	case h.Quota > 0 && h.Quota < float64(h.Affinity):
		found.Level = Warn
		found.Means = "a program that spins uses up its time and is then stopped for tens of milliseconds"
		found.Fix = fmt.Sprintf("docker update --cpus %d CONTAINER\nsudo systemctl set-property UNIT CPUQuota=", h.Affinity)
	case cores < 2:
		found.Level = Warn
		found.Means = "what waits and what works share a processor: waits do not spin, and each message pays for a switch"
		if found.Fix = all; h.CPUs < 2 {
			found.Fix = "lscpu --all --extended   # shows those that are offline\nsudo chcpu --enable CPU   # if there is one"
		}
	case float64(spinners) > cores:
		found.Level = Warn
		found.Means = "they cannot all spin: waits yield to each other, then block, and messages take tens of microseconds instead of a few"
		if found.Fix = all; h.Affinity >= h.CPUs {
			found.Fix = "sudo ss --packet --processes   # shows whose they are: stop one, or have it block, by vipl.Config{Spin: -1}"
		}
	case h.GOMAXPROCS < 2:
		found.Level = Warn
		found.Means = "the service goroutine and a spinning one take turns"
		found.Fix = "export GOMAXPROCS=" + fmt.Sprint(h.Affinity)
	}
	load := Finding{Check: "load", Found: fmt.Sprintf("%.1f threads runnable on %.4g processors", h.Load, cores)}
	if h.Load > cores+0.5 {
		load.Level = Warn
		load.Means = "waits yield to the others instead of spinning: messages take tens of microseconds instead of a few"
		load.Fix = "top -H   # shows which"
	}
	return []Finding{found, load}
}

// size prints bytes as people do.
func size(n uint64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// judgeInterface looks at the choice, the state and the MTU.
func judgeInterface(f *Facts) []Finding {
	in := &f.Interfaces
	choice := Finding{Check: "interface", Found: "none"}
	if in.Err != nil {
		choice.Level, choice.Found, choice.Fix = Fail, in.Err.Error(), chooseFix(f)
		choice.Means = "no NIC can be opened without saying more, or at all"
		return append([]Finding{choice}, judgeFaults(f)...)
	}
	if in.Chosen == (iface.Interface{}) {
		choice.Found, choice.Means = "none: "+in.Why, "only programs of this host are reached"
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
			Means: "nothing answers at the other end of the wire: the cable, the switch's port, or, of a veth, the other end is off",
			Fix:   fmt.Sprintf("sudo ip link set dev %s down && sudo ip link set dev %s up", in.Chosen.Name, in.Chosen.Name)})
	}
	if in.Chosen.Macvlan != "" {
		all = append(all, Finding{Level: Note, Check: "macvlan", Found: in.Chosen.Name, Means: in.Chosen.Macvlan,
			Fix: "ip -details link show type macvlan   # shows which there are"})
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
	return "ip link   # shows interfaces of every kind\n" + f.Program + " lab -n 1 -- " + f.Program + " doctor   # in a namespace with an Ethernet interface of its own"
}

// lookAt returns the command for what no command is known to change.
func lookAt(name string) string {
	if name == "" {
		return "ss --listening --unix --processes   # shows who has the names of driver shm"
	}
	return "ip -s link show dev " + name + "   # shows its state and what it has lost"
}

// mtuOr returns the command that makes i usable if its MTU is what is wrong.
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
		found.Means = fmt.Sprintf("a NIC needs at least %d", vipl.MinMTU)
	case slices.ContainsFunc(f.Segment.Peers, func(p Peer) bool { return p.FullErr != nil && !p.Gone }):
		found.Found += ", more than passes to every peer" // whose finding has the advice
	case i.MTU < etherMTU:
		found.Level, found.Fix = Warn, setMTU(i.Name, etherMTU)
		found.Means = "less than every Ethernet carries: long messages take more frames than they need"
	case i.MTU < jumboMTU && f.Interfaces.Driver.Name != "veth":
		found.Level, found.Fix = Note, setMTU(i.Name, jumboMTU)
		found.Means = "long messages are faster in jumbo frames, if the card, the switch and every station are set to them"
	}
	return found
}

// judgeCard looks at what the card's driver does to frames. The offloads of
// segmentation and merging concern TCP and UDP; frames of another EtherType
// pass by them as they are, whatever their state.
func judgeCard(f *Facts) []Finding {
	d := &f.Interfaces.Driver
	if f.Interfaces.Err != nil || f.Interfaces.Chosen == (iface.Interface{}) {
		return nil
	}
	name := f.Interfaces.Chosen.Name
	var all []Finding
	if f.Driver == "udp" { // frames of another EtherType pass by these offloads
		all = append(all, judgeOffloads(d, name))
	}
	if d.Coalesces {
		all = append(all, judgeCoalescing(d, name))
	}
	if d.RxRing > 0 && d.RxRing < 512 && d.RxRing < d.RxRingMax {
		all = append(all, Finding{Level: Note, Check: "card's queue", Found: fmt.Sprintf("%d frames of %d", d.RxRing, d.RxRingMax),
			Means: "bursts of many senders overflow it, and frames are sent again",
			Fix:   fmt.Sprintf("sudo ethtool -G %s rx %d", name, min(4096, d.RxRingMax))})
	}
	return all
}

func judgeOffloads(d *Driver, name string) Finding {
	if d.Err != nil {
		return Finding{Check: "offloads", Found: fmt.Sprintf("the driver does not say: %v", d.Err), Means: "whether datagrams are merged as they come is not known"}
	}
	found := Finding{Check: "offloads", Found: fmt.Sprintf("%s: GRO %s, UDP segmentation %s", d.Name, onOff(d.GRO), onOff(d.UDPSegments))}
	if !d.GRO {
		found.Level, found.Fix = Note, "sudo ethtool -K "+name+" gro on"
		found.Means = "datagrams are taken one by one"
	}
	return found
}

// coalesceMicros is how long an interrupt may be held back without a word: a
// few times the way of a message.
const coalesceMicros = 8

func judgeCoalescing(d *Driver, name string) Finding {
	found := Finding{Check: "interrupts", Found: fmt.Sprintf("held back for up to %d us", d.CoalesceMicros)}
	if d.AdaptiveRx {
		found.Found += ", adaptively"
	}
	if d.CoalesceMicros > coalesceMicros || d.AdaptiveRx {
		found.Level, found.Means = Note, "that much is added to the time of a message, since frames reach the ring after the interrupt"
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

// judgeAgent says what the node's agent does for this process. Where raw sockets are refused
// and the agent gives none either, that finding says so (agentAdvice). Where there is no agent
// and no need of one, there is nothing to be said.
func judgeAgent(f *Facts) []Finding {
	a := &f.Agent
	found := Finding{Check: "agent"}
	switch {
	case a.Path == "", a.Err != nil && (a.None || f.Rights.RawSocket != nil):
		return nil
	case a.Err == nil:
		found.Found = "it serves at " + a.Path
		found.Means = "programs of this user without the right to raw sockets get theirs from it"
	default:
		found.Level, found.Found = Note, a.Err.Error()
		found.Means, found.Fix = agentAdvice(a)
	}
	return []Finding{found}
}

// agentAdvice says what it means that an agent gives no sockets, and what changes it.
func agentAdvice(a *Agent) (means, fix string) {
	switch {
	case a.None:
		return "no agent serves at " + a.Path + " that could open them", fmt.Sprintf("sudo bobnet agent --allow user:%d", a.User)
	case errors.Is(a.Err, transport.ErrPermission):
		return "the agent gives this user none", fmt.Sprintf("echo user:%d | sudo tee -a /etc/bobnet/agent.policy   # or what its --allow says", a.User)
	}
	return fmt.Sprintf("the agent gives none (%v)", a.Err), "systemctl status bobnet-agent"
}

// judgeFilter looks for what drops frames on this host.
func judgeFilter(f *Facts) []Finding {
	name := f.Interfaces.Chosen.Name
	all := JudgeDrops("filter", f.Filter.Drops)
	if t := &f.Traffic; len(all) == 0 && t.Sent > 0 && t.Left == 0 {
		all = append(all, Finding{Level: Fail, Check: "filter", Found: fmt.Sprintf("%d frames were sent, and %s has counted none that left", t.Sent, name),
			Means: "something on this host drops them as they leave: a rule of nftables (hook egress), or of traffic control",
			Fix:   fmt.Sprintf("sudo nft list ruleset netdev\nsudo tc -s filter show dev %s egress", name)})
	}
	if t := &f.Traffic; t.TxDropped+t.RxDropped > 0 {
		all = append(all, Finding{Level: Note, Check: "drops", Found: fmt.Sprintf("%s dropped %d frames that came and %d that were to leave, within a second", name, t.RxDropped, t.TxDropped),
			Means: "its queues overflow, or nobody wanted the frames: they may be of other programs", Fix: lookAt(name)})
	}
	return all
}

// JudgeDrops returns a finding for each rule that drops Bobnet's frames. It is pure.
func JudgeDrops(check string, drops []Drop) (all []Finding) {
	for _, d := range drops {
		found := Finding{Level: Fail, Check: check, Found: "nftables drops Bobnet's frames: " + d.String(),
			Means: "programs do not reach each other through this interface", Fix: d.fix()}
		switch {
		case d.Others:
			found.Level, found.Means = Warn, "programs whose frames this host bridges do not reach each other; its own interface is not concerned"
		case d.Maybe:
			found.Level, found.Found = Warn, "nftables may drop Bobnet's frames: "+d.String()
			found.Means = "the rule asks for more than the EtherType, such as an address, a set or a rate: see whether it means Bobnet's frames"
		}
		all = append(all, found)
	}
	return all
}

// judgeSegment looks at the peers that have answered.
func judgeSegment(f *Facts) []Finding {
	if !f.NIC.Tried || f.NIC.Err != nil {
		return nil
	}
	if f.Segment.Err != nil {
		return []Finding{{Level: Fail, Check: "segment", Found: f.Segment.Err.Error(),
			Means: "nobody could be asked", Fix: lookAt(f.Interfaces.Chosen.Name)}}
	}
	if len(f.Segment.Peers) == 0 {
		return []Finding{{Level: Note, Check: "segment", Found: "no other Bobnet program answers",
			Means: "none is running, or switch, filter or EtherType keep frames apart; start one on another machine and look again",
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
		found.Level, found.Found = Note, fmt.Sprintf("%v %s: is gone", p.Addr, p.Host)
		found.Means = "it answered at first, and then neither alone nor with all others: its program has ended meanwhile"
		found.Fix = f.Program + " doctor   # looks again"
	case p.SmallErr != nil:
		found.Level, found.Found = Fail, fmt.Sprintf("%v %s: %v", p.Addr, p.Host, p.SmallErr)
		found.Means = "it answers broadcasts and not what is sent to it alone: a switch or a filter knows its MAC elsewhere, or two stations have the same"
		found.Fix = fmt.Sprintf("bridge fdb show | grep -i %v   # where the bridge is: shows behind which PORT it takes it to be", p.Addr.MAC) +
			fmt.Sprintf("\nsudo bridge fdb del %v dev PORT master   # if that is wrong", p.Addr.MAC)
	case p.FullErr != nil:
		found.Level = Fail
		found.Found = fmt.Sprintf("%v %s, MTU %d: short frames %v, full ones (%d bytes) do not come back", p.Addr, p.Host, p.MTU, micros(p.Small), p.FullBytes)
		found.Means = "something between the two carries less than both interfaces say: connections fail with ErrInvalidMTU"
		found.Fix = f.Program + " doctor   # looks again: what the path carries was not found out"
		if p.Carries > 0 {
			found.Found += fmt.Sprintf("; the path carries an MTU of %d", p.Carries)
			found.Fix = setMTU(name, p.Carries) + "   # here and at every station; or raise that of what is between"
		}
		if p.Carries > 0 && p.Carries < vipl.MinMTU {
			found.Means = fmt.Sprintf("something between the two carries less than a NIC needs (%d bytes): raise its MTU", vipl.MinMTU)
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

// ShowLinks is the command that shows which interface of a switch or bridge on Linux has a small MTU.
const ShowLinks = "ip link   # on the switch or bridge between: shows the MTU of each interface"

// orAddr names the peer's machine.
func orAddr(p *Peer) string {
	if p.Host != "" {
		return p.Host
	}
	return p.Addr.MAC.String()
}

// micros prints a round trip.
func micros(d time.Duration) string { return fmt.Sprintf("%.1f us", float64(d)/1e3) }
