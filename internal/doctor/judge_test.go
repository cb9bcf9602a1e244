package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

var (
	eth0 = iface.Interface{Index: 2, Name: "eth0", MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, MTU: 9000, State: iface.Up}
	eth1 = iface.Interface{Index: 3, Name: "eth1", MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, MTU: 1500, State: iface.Down}
)

// healthy returns the facts of a machine on which all is well.
func healthy() *Facts {
	return &Facts{
		Program: "bobnet",
		Rights:  Rights{NetRaw: true},
		Interfaces: Interfaces{List: []iface.Interface{eth0, eth1}, Chosen: eth0, Why: "no other is up",
			Driver: Driver{Name: "mlx5_core", GRO: true, UDPSegments: true, Coalesces: true, CoalesceMicros: 3, RxRing: 1024, RxRingMax: 8192}},
		Host: Host{CPUs: 8, Affinity: 8, GOMAXPROCS: 8, Load: 1, Memlock: Unlimited, RmemMax: 8 << 20, WmemMax: 8 << 20},
		NIC:  NIC{Tried: true, Addr: ethertype.Addr{MAC: eth0.MAC, Port: 1024}, Driver: "ring", MTU: 9000, Slots: 230},
		Segment: Segment{Local: 7, Peers: []Peer{{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: 1024}, Host: "beta", MTU: 9000,
			Small: 9 * time.Microsecond, Full: 20 * time.Microsecond, FullBytes: 8900}}},
	}
}

// TestHealthy: where all is well everything is ok, and nothing is advised.
func TestHealthy(t *testing.T) {
	for _, f := range Judge(healthy()) {
		if f.Level != OK || f.Fix != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
}

var errRefused = fmt.Errorf("%w: open packet socket on eth0: %w", transport.ErrPermission, unix.EPERM)

// judgements change one fact, or a few, and name the finding that must follow.
var judgements = []struct {
	name   string
	change func(f *Facts)
	level  Level
	check  string
	words  string // of the fix, or, where all is well, of what it means
}{
	{"no right", func(f *Facts) { f.Rights.NetRaw, f.Rights.RawSocket = false, unix.EPERM }, Fail, "raw sockets", "setcap cap_net_raw=ep bobnet"},
	{"no right under go run", func(f *Facts) {
		f.Rights.NetRaw, f.Rights.RawSocket, f.Program, f.Temporary = false, unix.EPERM, "/tmp/go-build1/b001/exe/bobnet", true
	}, Fail, "raw sockets", "go build -o bobnet ./cmd/bobnet   # go run removes its program\nsudo setcap cap_net_raw=ep ./bobnet"},
	{"no right, and no need of it", func(f *Facts) {
		f.Driver, f.Rights.NetRaw, f.Rights.RawSocket, f.Rights.XDPSocket = "udp", false, unix.EPERM, unix.EPERM
	}, Note, "raw sockets", "setcap"},
	{"no interface, and no need of one", func(f *Facts) {
		f.Driver, f.Interfaces = "shm", Interfaces{List: []iface.Interface{eth0, eth1}, Why: "driver shm needs none"}
	}, OK, "interface", "this host"},
	{"right, but forbidden", func(f *Facts) { f.Rights.RawSocket = unix.EPERM }, Fail, "raw sockets", "seccomp"},
	{"no right, but an agent", func(f *Facts) {
		f.Rights.NetRaw, f.Rights.RawSocket, f.Agent.Path = false, unix.EPERM, "/run/a"
	}, OK, "raw sockets", "does not need to"},
	{"an agent that serves", func(f *Facts) { f.Agent.Path = "/run/a" }, OK, "agent", "get sockets from it"},
	{"no right, and no agent", func(f *Facts) {
		f.Rights.NetRaw, f.Rights.RawSocket, f.Agent = false, unix.EPERM, Agent{Path: "/run/a", None: true, Err: unix.ENOENT, User: 1000}
	}, Fail, "raw sockets", "sudo setcap cap_net_raw=ep bobnet\nsudo bobnet agent --allow user:1000"},
	{"no right, and an agent that does not let in", func(f *Facts) {
		f.Rights.NetRaw, f.Rights.RawSocket, f.Agent = false, unix.EPERM, Agent{Path: "/run/a", Err: errRefused, User: 1000}
	}, Fail, "raw sockets", "echo user:1000 | sudo tee -a /etc/bobnet/agent.policy"},
	{"a right, and an agent that is busy", func(f *Facts) { f.Agent = Agent{Path: "/run/a", Err: unix.EAGAIN} }, Note, "agent", "systemctl status bobnet-agent"},
	{"no packet sockets", func(f *Facts) { f.Rights.RawSocket = unix.EAFNOSUPPORT }, Fail, "raw sockets", "modprobe af_packet"},
	{"no AF_XDP", func(f *Facts) { f.Rights.XDPSocket = unix.EAFNOSUPPORT }, OK, "AF_XDP", "packet sockets"},
	{"no right to AF_XDP", func(f *Facts) { f.Rights.NetRaw, f.Rights.XDPSocket = false, unix.EPERM }, Note, "AF_XDP", "setcap"},
	{"right to AF_XDP, but forbidden", func(f *Facts) { f.Rights.XDPSocket = unix.EPERM }, Note, "AF_XDP", "seccomp"},
	{"no namespaces", func(f *Facts) {
		f.Rights.Lab = errors.New("lab: forbidden\nAppArmor withholds: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	}, Note, "namespaces", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
	{"no namespaces, no advice", func(f *Facts) { f.Rights.Lab = errors.New("lab: forbidden\nrun it as root") }, Note, "namespaces", "sudo bobnet demo"},
	{"no interface", func(f *Facts) { f.Interfaces = Interfaces{Err: transport.ErrInterface} }, Fail, "interface", "ip link"},
	{"all down", func(f *Facts) {
		f.Interfaces = Interfaces{List: []iface.Interface{eth1}, Err: transport.ErrInterface}
	}, Fail, "interface", "ip link set dev eth1 up"},
	{"the named one is down", func(f *Facts) {
		f.Interfaces = Interfaces{Want: "eth1", List: []iface.Interface{eth0, eth1}, Err: transport.ErrInterface}
	}, Fail, "interface", "ip link set dev eth1 up"},
	{"too many", func(f *Facts) {
		f.Interfaces = Interfaces{List: []iface.Interface{eth0, {Index: 9, Name: "eth9", State: iface.Up, MTU: 1500}}, Err: transport.ErrInterface}
	}, Fail, "interface", "doctor -i eth0"},
	{"unknown name", func(f *Facts) {
		f.Interfaces = Interfaces{Want: "eth7", List: []iface.Interface{eth0, eth1}, Err: transport.ErrInterface}
	}, Fail, "interface", "doctor -i eth0"},
	{"named with an MTU that no frame fits", func(f *Facts) {
		tiny := eth0
		tiny.MTU = 20
		f.Interfaces = Interfaces{Want: "eth0", List: []iface.Interface{tiny}, Err: transport.ErrInterface}
	}, Fail, "interface", "ip link set dev eth0 mtu 1500"},
	{"no carrier", func(f *Facts) { f.Interfaces.Chosen.State = iface.NoCarrier }, Fail, "carrier", "ip link set dev eth0"},
	{"port of a bridge", func(f *Facts) {
		port := eth0
		port.Bridge = "br0"
		f.Interfaces = Interfaces{Want: "eth0", List: []iface.Interface{port, eth1}, Err: transport.ErrInterface}
	}, Fail, "interface", "doctor -i br0"},
	{"macvlan", func(f *Facts) { f.Interfaces.Chosen.Macvlan = "eth0 is a macvlan on eth1" }, Note, "macvlan", "type macvlan"},
	{"MTU too small for a NIC", func(f *Facts) { f.Interfaces.Chosen.MTU = 200 }, Fail, "MTU", "mtu 1500"},
	{"small MTU", func(f *Facts) { f.Interfaces.Chosen.MTU = 1400 }, Warn, "MTU", "mtu 1500"},
	{"no jumbo frames", func(f *Facts) { f.Interfaces.Chosen.MTU = 1500 }, Note, "MTU", "mtu 9000"},
	{"NIC refused", func(f *Facts) { f.Rights.NetRaw, f.NIC = false, NIC{Tried: true, Err: errRefused} }, Fail, "NIC", "setcap"},
	{"NIC refuses the MTU", func(f *Facts) { f.NIC = NIC{Tried: true, Err: vipl.ErrInvalidMTU} }, Fail, "NIC", "mtu 1500"},
	{"no memory for the ring", func(f *Facts) { f.NIC = NIC{Tried: true, Err: unix.ENOMEM} }, Fail, "NIC", "vm.compact_memory"},
	{"no descriptors for the NIC", func(f *Facts) { f.NIC = NIC{Tried: true, Err: unix.EMFILE} }, Fail, "NIC", "ulimit -n"},
	{"no descriptors on the host", func(f *Facts) { f.NIC = NIC{Tried: true, Err: unix.ENFILE} }, Fail, "NIC", "fs.file-max"},
	{"faults", func(f *Facts) { f.Faults = "loss=0.1" }, Warn, "faults", "unset BOBNET_FAULT"},
	{"bad faults", func(f *Facts) { f.FaultsErr = errors.New("loss=x") }, Fail, "faults", "unset BOBNET_FAULT"},
	{"little locked memory", func(f *Facts) { f.Host.Memlock = 8 << 20 }, Note, "locked memory", "ulimit -l"},
	{"no shared memory", func(f *Facts) { f.Host.Share = unix.EMFILE }, Fail, "shared memory", "ulimit -a"},
	{"small ring", func(f *Facts) { f.NIC.Slots = 16 }, Warn, "receive queue", "mtu 9000"},
	{"small buffers", func(f *Facts) { f.Host.RmemMax = 212992 }, Note, "socket buffers", "net.core.rmem_max="},
	{"hidden buffers", func(f *Facts) { f.Host.RmemMax = 0 }, Note, "socket buffers", "sysctl"},
	{"long frames by a card", func(*Facts) {}, OK, "long frames", "frames of the MTU"},
	{"long frames cut by the kernel", func(f *Facts) { f.Interfaces.Driver.Name, f.Interfaces.Driver.Cuts = "veth", Cut{By: "eth0"} }, Note, "long frames", "ethtool -K eth0 tso on"},
	{"long frames cut below a VLAN", func(f *Facts) {
		f.Interfaces.Driver.Name, f.Interfaces.Driver.Cuts = "802.1Q VLAN Support", Cut{By: "eth1"}
	}, Note, "long frames", "ethtool -K eth1 tso on"},
	{"long frames cut by the card below", func(f *Facts) {
		f.Interfaces.Driver.Name, f.Interfaces.Driver.Cuts = "macvlan", Cut{By: "eth1", Card: true}
	}, OK, "long frames", "receivers join"},
	{"silent driver", func(f *Facts) { f.Driver, f.Interfaces.Driver = "udp", Driver{Err: unix.EOPNOTSUPP} }, OK, "offloads", "unknown"},
	{"GRO off", func(f *Facts) { f.Driver, f.Interfaces.Driver.GRO = "udp", false }, Note, "offloads", "gro on"},
	{"a rule drops frames", func(f *Facts) {
		f.Filter.Drops = []Drop{{Family: "netdev", Table: "t", Chain: "c", Hook: "egress of eth0", Handle: 4}}
	}, Fail, "filter", "nft delete rule netdev t c handle 4"},
	{"a policy drops frames", func(f *Facts) {
		f.Filter.Drops = []Drop{{Family: "netdev", Table: "t", Chain: "c", Hook: "egress of eth0"}}
	}, Fail, "filter", "policy accept"},
	{"a rule may drop frames", func(f *Facts) {
		f.Filter.Drops = []Drop{{Family: "bridge", Table: "t", Chain: "c", Hook: "forward", Handle: 4, Maybe: true}}
	}, Warn, "filter", "nft -a list chain bridge t c"},
	{"a bridge calls ip6tables", func(f *Facts) { f.Bridges = Bridges{Calling: []string{"br0"}, Every: true} }, Note, "bridges", "sysctl -w net.bridge.bridge-nf-call-ip6tables=0"},
	{"a bridge's own switch calls ip6tables", func(f *Facts) {
		f.Bridges = Bridges{Calling: []string{"br0"}, Own: []string{"br0"}}
	}, Note, "bridges", "sudo ip link set dev br0 type bridge nf_call_ip6tables 0"},
	{"a bridge drops long frames", func(f *Facts) {
		f.Bridges = Bridges{Calling: []string{"br0"}, Every: true, Drops: []Drop{{Family: "ip6", Table: "filter", Chain: "FORWARD", Hook: "forward"}}}
	}, Note, "bridges", "ip6tables -I FORWARD -d ff10::/16 -j ACCEPT"},
	{"a bridge drops long frames perhaps", func(f *Facts) {
		f.Bridges = Bridges{Calling: []string{"br0"}, Every: true, Drops: []Drop{{Family: "ip6", Table: "filter", Chain: "FORWARD", Hook: "forward", Handle: 3, Maybe: true}}}
	}, Note, "bridges", "sysctl -w net.bridge.bridge-nf-call-ip6tables=0"},
	{"nothing leaves", func(f *Facts) { f.Traffic = Traffic{Sent: 9, Came: 3} }, Fail, "filter", "nft list ruleset netdev"},
	{"the interface drops", func(f *Facts) { f.Traffic = Traffic{Sent: 9, Left: 9, RxDropped: 2} }, Note, "drops", "ip -s link"},
	{"late interrupts", func(f *Facts) { f.Interfaces.Driver.CoalesceMicros = 50 }, Note, "interrupts", "rx-usecs 0"},
	{"adaptive interrupts", func(f *Facts) { f.Interfaces.Driver.AdaptiveRx = true }, Note, "interrupts", "adaptive-rx off"},
	{"short queue of the card", func(f *Facts) { f.Interfaces.Driver.RxRing = 256 }, Note, "card's queue", "rx 4096"},
	{"quota", func(f *Facts) { f.Host.Quota = 1.5 }, Warn, "processors", "CPUQuota"},
	{"one core", func(f *Facts) { f.Host.Affinity = 1 }, Warn, "processors", "taskset -c 0-7"},
	{"one processor", func(f *Facts) { f.Host.CPUs, f.Host.Affinity, f.Host.GOMAXPROCS = 1, 1, 1 }, Warn, "processors", "lscpu"},
	{"more NICs than processors", func(f *Facts) { f.Segment.Local = 8 }, Warn, "processors", "ss --packet"},
	{"more NICs than cores of ours", func(f *Facts) { f.Host.Affinity = 4 }, Warn, "processors", "taskset -c 0-7"},
	{"one P", func(f *Facts) { f.Host.GOMAXPROCS = 1 }, Warn, "processors", "GOMAXPROCS=8"},
	{"busy", func(f *Facts) { f.Host.Load = 9 }, Warn, "load", "top"},
	{"nobody there", func(f *Facts) { f.Segment.Peers = nil }, Note, "segment", "bobnet ping --listen"},
	{"segment error", func(f *Facts) { f.Segment.Err = errors.New("closed") }, Fail, "segment", "ip -s link"},
	{"peer does not answer", func(f *Facts) { f.Segment.Peers[0].SmallErr = errors.New("time-out") }, Fail, "peer", "bridge fdb"},
	{"peer has ended", func(f *Facts) { f.Segment.Peers[0].SmallErr, f.Segment.Peers[0].Gone = errors.New("time-out"), true }, Note, "peer", "bobnet doctor"},
	{"peer has ended later", func(f *Facts) { f.Segment.Peers[0].FullErr, f.Segment.Peers[0].Gone = errors.New("time-out"), true }, Note, "peer", "bobnet doctor"},
	{"full frames are lost", func(f *Facts) { f.Segment.Peers[0].FullErr, f.Segment.Peers[0].Carries = errors.New("time-out"), 1472 }, Fail, "peer", "mtu 1472"},
	{"full frames are lost, and those of the smallest MTU", func(f *Facts) {
		f.Segment.Peers[0].FullErr, f.Segment.Peers[0].Carries = errors.New("time-out"), vipl.MinMTU-1
	}, Fail, "peer", "ip link   #"},
	{"full frames are lost, and the MTU is small", func(f *Facts) {
		f.Interfaces.Chosen.MTU, f.Segment.Peers[0].MTU = 1400, 1400
		f.Segment.Peers[0].FullErr, f.Segment.Peers[0].Carries = errors.New("time-out"), 1004
	}, Fail, "peer", "mtu 1004"},
	{"nothing but short frames", func(f *Facts) { f.Segment.Peers[0].FullErr = errors.New("time-out") }, Fail, "peer", "bobnet doctor"},
	{"peer with less", func(f *Facts) { f.Segment.Peers[0].MTU = 1500 }, Note, "peer", "mtu 9000   # at beta"},
	{"peer with more", func(f *Facts) { f.Segment.Peers[0].MTU = 65535 }, Note, "peer", "dev eth0 mtu 65535"},
}

// TestJudge: the one finding follows, and all others stay well.
func TestJudge(t *testing.T) {
	for _, tt := range judgements {
		t.Run(tt.name, func(t *testing.T) {
			facts := healthy()
			tt.change(facts)
			found := false
			for _, f := range Judge(facts) {
				if (f.Level > OK) != (f.Fix != "") {
					t.Errorf("not ok without a fix, or the other way round: %+v", f)
				}
				if f.Check == tt.check {
					found = true
					text := f.Fix
					if f.Level == OK {
						text = f.Means
					}
					if f.Level != tt.level || tt.words == "" || !strings.Contains(text, tt.words) || f.Means == "" {
						t.Errorf("%+v", f)
					}
				} else if f.Level > OK {
					t.Errorf("and besides: %+v", f)
				}
			}
			if !found {
				t.Errorf("no finding about %q", tt.check)
			}
		})
	}
}

// TestSmallBuffers: what is said of them holds for the drivers as they are: ring,
// unless it is told otherwise, has no use for a socket buffer.
func TestSmallBuffers(t *testing.T) {
	facts := healthy()
	for _, facts.Host.RmemMax = range []int{0, 212992} {
		means := judgeBuffers(facts).Means
		if !strings.Contains(means, "udp and packet lose frames of a burst") || strings.Contains(means, "ring copies") {
			t.Errorf("a limit of %d means: %s", facts.Host.RmemMax, means)
		}
	}
}

func TestWorst(t *testing.T) {
	if Worst(nil) != OK || Worst([]Finding{{Level: Note}, {Level: Fail}, {Level: Warn}}) != Fail {
		t.Error("wrong")
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	err := Write(&b, []Finding{
		{Check: "MTU", Found: "9000 bytes"},
		{Level: Warn, Check: "processors", Found: "one\nof two", Means: "slow", Fix: "a\nb"},
	})
	want := `ok    MTU         9000 bytes
warn  processors  one
                  of two
                  slow
                  $ a
                  $ b
`
	if err != nil || b.String() != want {
		t.Errorf("%v, printed:\n%swant:\n%s", err, b.String(), want)
	}
	if text, err := json.Marshal(Finding{Level: Fail, Check: "c", Found: "f"}); err != nil || string(text) != `{"level":"fail","check":"c","found":"f"}` {
		t.Errorf("%s, %v", text, err)
	}
}
