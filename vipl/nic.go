package vipl

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/stations"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/engine"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
	"github.com/bobnet-go/bobnet/vipl/internal/links"
	"github.com/mdlayher/ethernet"
)

// Config describes a NIC to open. A nil Config and zero fields mean the defaults.
// The environment variable EnvFault adds faults to the links that Open opens.
type Config struct {
	// Interface is a network interface's name or MAC address. Empty means the value of
	// EnvInterface, or else the only usable interface; if there are several, Open fails
	// and names them.
	Interface string
	// EtherType marks Bobnet's frames; 0 means ethertype.Default. Programs that communicate
	// must use the same EtherType.
	EtherType ethernet.EtherType
	// Ports are the ports that VIs and listeners of this NIC use. Zero means the first
	// block of 1024 ports that no other process on the interface uses. If another process
	// uses some of the requested ports, the error wraps EADDRINUSE and names it.
	Ports transport.PortRange
	// Driver selects how frames travel. Empty means the value of EnvDriver, or else ring.
	//
	//	ring     raw Ethernet frames; uses the node's agent if this process may not open
	//	         packet sockets
	//	packet   raw Ethernet frames, a slower driver to compare with
	//	udp      UDP datagrams; needs no privilege; Interface may be an IP address
	//	shm      shared memory of this host only; needs no Interface
	//	myrinet  an emulated card on Interface, as one end of a cable: the card that
	//	         bobnet card serves there, or else a card that only this program uses
	//
	// Programs that need more options open a link themselves and pass it as Link.
	Driver string
	// Peers are the IP addresses of stations that multicast does not reach, behind a router
	// or in a cloud. Driver udp sends them its broadcasts one by one. The list may include
	// this station, so all stations can use the same list. Nil means the value of EnvPeers.
	// Other drivers fail if Peers is set.
	Peers []netip.Addr
	// XDP selects whether driver ring sends through AF_XDP. Queueing disciplines such as netem, and
	// tcpdump on this host, do not see such frames. Auto uses it where Open measures it to be
	// faster (see ring.Config). Other drivers fail with On. Long selects whether driver ring sends
	// frames longer than the MTU. Auto does so where only virtual interfaces and bridges connect
	// the hosts (see ring.Config).
	XDP, Long ring.Choice
	// Link is used instead of opening Interface, for example a simulated one
	// or one with a fault or trace wrapper around it. The NIC closes it, and so does
	// an Open that fails.
	Link transport.Link
	// WireOnly disables shared memory: the NIC then reaches no other program of this host
	// on the same Ethernet interface. Call Open in the network namespace of Link.
	WireOnly bool
	// AnyUser allows programs of every user of this host to connect through shared memory,
	// and to access regions with the default tag. By default only root and this process's
	// own user may. Both sides must allow each other.
	AnyUser bool
	// Wrap, if not nil, is called with the link that Open has opened. The NIC uses the
	// returned link instead, for example one that records frames (packages trace and
	// pcap). It is not called for Link. With a Key it sees encrypted frames, as on the wire.
	Wrap func(transport.Link) transport.Link
	// Key, if not nil, encrypts and authenticates all frames to and from other hosts. The
	// NIC cannot communicate with NICs of other hosts that do not have the key. Package
	// seal has sources of keys: File, Text and Fixed; see docs/security.md. Any goroutine
	// may call Key at any time. Frames between programs of this host pass through memory
	// and are not encrypted; AnyUser is refused. Nil means the value of EnvKeyFile or
	// EnvKey if Link is nil, and otherwise no encryption.
	Key seal.Source
	// Spin is the longest time that a wait polls before it blocks, since it began or since
	// the last arrival; 0 means 50 µs, negative means never. Waits spin less, or not at
	// all, if spinning does not pay: with more runnable threads than cores, or without
	// arrivals for a long time.
	Spin time.Duration
	// NoService disables the service goroutine. The protocol then stops
	// while no goroutine calls Done, Wait or Poll.
	NoService bool
	// Reliability tunes the reliable levels; nil means the defaults. MaxTries ends no
	// connection before the VI's PeerTimeout.
	Reliability *reliability.Config
	// Seed makes all random values reproducible over a link in virtual time (package sim).
	// Over any other link it has no effect: there they come from the system's random source,
	// because predictable values would let attackers break into connections.
	Seed uint64
	// Names configures the name service; nil means the defaults.
	Names *NameConfig
	// Logger receives rare, human-readable events: a few lines in a NIC's life, and the
	// events of each connection at level Debug. Nil means slog.Default(). A goroutine of the
	// logger calls its handler, one line at a time, in order. The handler may call any method
	// and may block: up to 256 lines wait for it, further lines are lost and counted in
	// NICStats.LogsLost, and Close waits for it for at most a tenth of a second.
	Logger *slog.Logger
}

// NIC is an open network interface (VIP_NIC_HANDLE) and the protocol engine on
// it. It may be shared between goroutines.
type NIC struct {
	log  *slog.Logger // that of logs
	logs *logqueue.Queue
	hw   string // see NICAttributes.HardwareVersion

	eng       progress.Engine // whose lock guards everything below
	m         engine.Machine  // what it drives
	calls     progress.Calls[call]
	errs      errorState
	numCQs    int
	sealedBy  stations.Table[struct{}]
	speaker   links.Speaker
	left      VIStats // sum over VIs that have been closed
	saidMlock bool
	ended     ended
	done      chan struct{} // closed when Close has finished
}

// Open opens a NIC (VipOpenNic). A nil cfg means the defaults. If the interface is unknown,
// ambiguous or down, the error wraps ErrArgument and lists the candidates. If a privilege is
// missing, the error names the remedy.
//
// ctx bounds the call alone, not the life of the NIC. Open may wait for the node's agent, or for
// ports that another process is about to release. If ctx ends before or during the call, the error
// wraps both ErrTimeout and the context's error.
func Open(ctx context.Context, cfg *Config) (*NIC, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	logs, with := logqueue.New(cfg.Logger), *cfg
	with.Logger = logs.Logger() // that of the link, too
	cfg = &with
	link, err := openLink(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n := &NIC{log: with.Logger, logs: logs, ended: ended{ch: make(chan struct{})}, done: make(chan struct{})}
	n.sealedBy.Max = maxForeignSealed
	if err := n.init(link, cfg); err != nil {
		link.Close()
		return nil, err
	}
	if err := n.StartNames(cfg.Names); err != nil {
		n.log.Warn("the ethers file has errors", "err", err)
	}
	n.answerAgent()
	n.eng.Start()
	n.log.Debug("NIC open", "interface", n.m.Info.Interface, "driver", n.m.Info.Driver, "addr", n.Addr(), "mtu", n.m.Info.MTU)
	return n, nil
}

// openLink opens the link that cfg and the environment select.
func openLink(ctx context.Context, cfg *Config) (link transport.Link, err error) {
	key, faults, with := cfg.Key, fault.Options{}, *cfg
	if cfg.Link == nil {
		if key == nil {
			if key, err = keyWanted(); err != nil {
				return nil, err
			}
		}
		if faults, err = faultsWanted(); err == nil {
			with, err = cfg.FromEnvironment()
		}
		if err != nil {
			return nil, code.Within("open NIC", err)
		}
	}
	return links.Open(ctx, &links.Config{
		Interface: with.Interface, EtherType: cfg.EtherType, Ports: cfg.Ports, Driver: with.Driver, Peers: with.Peers,
		XDP: cfg.XDP, Long: cfg.Long, Link: cfg.Link, WireOnly: cfg.WireOnly, AnyUser: cfg.AnyUser, Wrap: cfg.Wrap,
		Key: key, Seed: cfg.Seed, Logger: cfg.Logger, Faults: faults,
	})
}

func (n *NIC) init(link transport.Link, cfg *Config) error {
	info := link.Info()
	if info.MTU < MinMTU {
		return opError("open NIC", ErrInvalidMTU, "interface %s has an MTU of %d, Bobnet needs at least %d: ip link set dev %s mtu %d",
			info.Interface, info.MTU, MinMTU, info.Interface, 1500)
	}
	if err := cfg.Reliability.Validate(); err != nil {
		return opError("open NIC", ErrArgument, "%v", err)
	}
	if !info.Virtual {
		driver, firmware := iface.Driver(info.Interface)
		n.hw = strings.TrimSpace(driver + " " + firmware)
	}
	var speaks func(now int64) bool
	if !info.Virtual { // in virtual time each station has its own MAC
		if err := n.speaker.Init(&info); err != nil {
			return opError("open NIC", ErrResource, "no socket: %v", err)
		}
		speaks = n.speaker.Speaks
	}
	n.m.Init(link, &n.eng, n.log, cfg.Reliability.Resolve(), cfg.Seed, engine.Hooks{
		Dead: func(cause error) {
			n.end(cause)
			n.raise(CodeCatastrophic, nil, nil, 0, cause)
		},
		Damaged: func(c *conn.Conn) { n.raise(CodeRDMAWData, viOf(c), nil, StatusOpRemoteRDMAWrite, errDamaged) },
		Sealed:  n.receiveSealed,
		Speaks:  speaks,
	})
	n.eng.Init(link, &n.m, &progress.Config{Spin: cfg.Spin, NoService: cfg.NoService})
	n.calls.Init(&n.eng, (*call).run)
	return nil
}

// MinMTU is the smallest MTU, in bytes, of an interface that Open accepts. The frames of the
// connection handshake fit it.
const MinMTU = handshake.MinMTU

// Addr returns the NIC's own address. Its port is the lowest of the NIC's
// range and belongs to the NIC itself.
func (n *NIC) Addr() ethertype.Addr { return n.m.Addr() }

// Now returns the current time of the NIC's clock, in nanoseconds: the host's monotonic clock, or
// the simulator's.
func (n *NIC) Now() int64 { return n.m.Link.Now() }

// Query returns the NIC's attributes (VipQueryNic).
func (n *NIC) Query() NICAttributes {
	return NICAttributes{
		Name: n.m.Info.Interface, Driver: n.m.Info.Driver, Addr: n.Addr(), Ports: n.m.Info.Ports,
		HardwareVersion: n.hw, ProviderVersion: ethertype.Version,
		NativeMTU: n.m.Info.MTU, MaxTransferSize: MaxTransferSize, MaxDiscriminatorLen: maxDiscriminator,
		MaxVI:                  min(maxVIs, n.m.Info.Ports.Len()-1),
		MaxDescriptorsPerQueue: MaxQueueDepth, MaxSegmentsPerDesc: MaxSegments,
		MaxRegisterRegions: maxRegions, MaxRegisterBytes: maxRegisterBytes, MaxRegisterBlockBytes: maxRegisterBytes,
		MaxPtags: maxPtags, MaxCQ: maxCQs, MaxCQEntries: MaxCQEntries,
		ReliabilityLevels: reliability.Unreliable | reliability.ReliableDelivery | reliability.ReliableReception,
		RDMAReadSupport:   true,
		ThreadSafe:        true, Incarnation: n.m.Incarnation(),
	}
}

// Close closes the NIC (VipCloseNic). It notifies connected peers. Calls that wait return
// ErrClosed, posted descriptors complete flushed and can still be taken, and waiting handlers are
// cancelled. Close frees the memory from AllocMem, which then reads as zeros. The addresses stay
// reserved until DeregisterMem. Close may be called in any state, during traffic, from a handler,
// and more than once: later calls wait for the first one and return nil.
//
// The last frame of a connection also acknowledges the data that have arrived, and it may be lost.
// So Close repeats it until each peer has answered, normally one round trip later, for at most a
// quarter of a second. This includes connections that were closed before. Close returns at once if
// all peers have answered.
func (n *NIC) Close() error {
	err := n.close()
	n.logs.Flush(closeFlush)
	return err
}

// timeWait is how long after the end of a connection its peer may still wait for the end. After
// that time the peer has detected it by itself.
const timeWait = int64(DefaultPeerTimeout)

// closeFlush is how long Close waits for the logger's handler to finish the last lines.
const closeFlush = 100 * time.Millisecond

func (n *NIC) close() error {
	n.eng.Lock()
	if n.m.Closed {
		n.eng.Unlock()
		if !n.m.Info.Virtual { // in virtual time the first call continues when this one has returned
			<-n.done
		}
		return nil
	}
	n.calls.Shut()
	for c := range n.m.Ports.Conns() {
		viOf(c).leave()
	}
	n.m.Flush()
	n.m.Closed = true
	n.end(ErrClosed)
	n.eng.Shut()
	for _, l := range n.m.Ports.Listeners {
		listenerOf(l).shut()
	}
	clear(n.m.Ports.Listeners)
	n.m.Dir.WithdrawAll()
	n.eng.WakeAll()
	n.m.Ended.TellAll(timeWait)
	n.eng.Unlock()

	err := n.m.Link.Close() // returns when no goroutine is inside Wait any more
	n.eng.Stop()
	n.eng.Lock()
	defer n.eng.Unlock()
	defer close(n.done)
	if !n.m.Info.Virtual {
		n.speaker.Release()
	}
	n.m.Mem.Close()
	n.log.Debug("NIC closed", "interface", n.m.Info.Interface, "addr", n.Addr())
	return err
}

// Poll drives the protocol once. It processes received frames, runs due timers and sends the frames
// that may be sent. It never blocks.
func (n *NIC) Poll() {
	n.eng.Lock()
	defer n.eng.Unlock()
	if !n.m.Closed && !n.eng.Poll() {
		n.m.Uncork()
	}
}
