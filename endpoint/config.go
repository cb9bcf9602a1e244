package endpoint

import (
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Limits. AM-II requires at least 8 arguments, 512 bytes in a medium and 8192 in a bulk message,
// 256 handlers and 256 translations (AM2 reference, section 2).
const (
	MaxShort              = wire.MaxArgs     // maximum number of arguments of a message, 32 bits each
	DefaultMaxMedium      = 4096             // bytes
	maxMediumLimit        = wire.MaxMedium   // bytes, maximum of Config.MaxMedium
	MaxBulk               = provider.MaxBulk // bytes
	NumHandlers           = 256
	defaultTranslations   = 256
	MaxTranslations       = 1 << 20
	MaxCredits            = wire.MaxSlots // requests in flight to one destination
	defaultMaxConnections = 2048          // senders to one endpoint

	// leastConnectionMemory is the minimum default of Config.MaxConnectionMemory: room for one
	// connection of the largest shape, for which one station may use half of it.
	leastConnectionMemory = 512 << 20
)

// Credits bound the requests in flight to one destination: sent, and neither answered nor returned.
// If Medium and Bulk are 0, Short applies to all sizes together. Otherwise each size has its own
// bound.
type Credits struct{ Short, Medium, Bulk int }

// Profiles of credits.
var (
	// DefaultCredits is K_user of the virtual-network paper, section 4.2: the
	// bandwidth-delay product in short messages, rounded up to a power of two.
	DefaultCredits = Credits{Short: 4}
	// AMVIACredits are the credits of AMVIA ("Split-C for the New Millennium", section 4).
	AMVIACredits = Credits{Short: 64, Medium: 8, Bulk: 1}
)

func (c Credits) shared() bool { return c.Medium == 0 && c.Bulk == 0 }

func (c Credits) total() int { return c.Short + c.Medium + c.Bulk }

// Config configures a node. Nil and zero fields mean the defaults.
type Config struct {
	// NIC carries the messages; the node does not close it. Nil means that the node opens a
	// NIC of its own on Interface: a name or MAC address, or empty as in vipl.Config.
	NIC       *vipl.NIC
	Interface string
	// Card carries the messages instead of a NIC: an emulated LANai card that holds the
	// endpoints (package endpoint/lanai). The node does not close it.
	Card *lanai.Card
	// Ports are the ports of the node's own NIC. Each connection to another node takes one. Zero
	// means 9216 ports, enough for 64 endpoints that all communicate with 64 endpoints of another
	// node. If three programs on the interface already have that many ports, zero has the same
	// meaning as in vipl.Config.Ports.
	Ports transport.PortRange
	// Credits apply to every translation; the zero value means DefaultCredits.
	Credits Credits
	// MaxMedium is the longest payload of a medium message, in bytes; 0 means DefaultMaxMedium. A
	// connection takes about (4*credits+2) times as much memory, half of it on each side, so a node
	// refuses values over 64 KiB.
	MaxMedium int
	// MaxConnections is the maximum number of senders to one endpoint; 0 means 2048. One station may have at most half
	// of the senders that the other stations leave, which is 1024 if there is no other station. Messages of further
	// senders return to them with ReasonCongestion.
	MaxConnections int
	// MaxConnectionMemory bounds the memory, in bytes, of the buffers that all endpoints of the node give to senders. 0
	// means the need of MaxConnections senders with this node's Credits and MaxMedium, and at least 512 MiB.
	//
	// Senders choose their credits and message length. A sender gets buffers after it has proven its address. If the
	// bound leaves no room, the sender's messages return with ReasonCongestion. One station may have at most half of
	// what the other stations leave. While half of the memory is left, a sender of a stream of payloads gets at most
	// 600 KB of the rest, and a sender of bulk data of up to 256 KiB at most 1.05 MB.
	MaxConnectionMemory int
	// FailWithoutCredit makes requests and calls that find no credit, after a poll, fail with ErrInUse, as
	// RequestBulkAsync does. Otherwise they wait for a credit. If the destination is silent for PeerTimeout, they are
	// returned after the requests in flight.
	FailWithoutCredit bool
	// PeerTimeout is how long a peer may be silent before it counts as dead; 0 means 15 s, and 10 s
	// on a card. A first message waits for the connection for the same time, but at least for
	// vipl.DefaultConnectTimeout. Time in which this process is not scheduled does not count. A
	// peer on this host counts as alive while its process lives. A peer on another host that is not
	// scheduled for this long counts as dead.
	PeerTimeout time.Duration
	// Exit ends the process when a request returns to an endpoint without a ReturnHandler, as AM-II
	// requires; nil means os.Exit.
	Exit func(code int)
	// ExitForReplies calls Exit for a returned reply, too, as AM-II's default handler 0 does.
	// Any client can then end a server without a ReturnHandler: it need only exit before its
	// reply arrives.
	ExitForReplies bool
	// Logger receives panics of handlers, and messages that returned without a ReturnHandler; nil
	// means slog.Default(). Its handler is called as documented at vipl.Config.Logger, and may
	// block.
	Logger *slog.Logger
	// Seed makes the incarnations in endpoints' names reproducible; 0 means random.
	Seed uint64

	// provider, if not nil, opens the provider that replaces VIs.
	provider func(up provider.Host, memory *provider.Budget, count *provider.Corked) (provider.Provider, error)
}

func (c *Config) withDefaults() (Config, error) {
	var d Config
	if c != nil {
		d = *c
	}
	if d.Credits == (Credits{}) {
		d.Credits = DefaultCredits
	}
	if d.MaxMedium == 0 {
		d.MaxMedium = DefaultMaxMedium
	}
	if d.MaxConnections == 0 {
		d.MaxConnections = defaultMaxConnections
	}
	d.Logger = logqueue.New(d.Logger).Logger()
	if err := d.check(); err != nil {
		return d, err
	}
	if d.MaxConnectionMemory == 0 {
		s := d.Credits.shape(d.MaxMedium)
		d.MaxConnectionMemory = max(leastConnectionMemory, connectionMemory(s)*min(d.MaxConnections, 1<<20))
	}
	return d, nil
}

func (d *Config) check() error {
	k := d.Credits
	if k.Short < 1 || !k.shared() && (k.Medium < 1 || k.Bulk < 1) || k.total() > MaxCredits {
		return provider.OpError("open", ErrArgument, "credits %+v: want at least 1 of each size, or Short alone, and at most %d in all", k, MaxCredits)
	}
	if d.MaxMedium < 1 || d.MaxMedium > maxMediumLimit {
		return provider.OpError("open", ErrArgument, "MaxMedium of %d bytes is not in 1..%d", d.MaxMedium, maxMediumLimit)
	}
	switch {
	case d.NIC != nil && d.Ports != (transport.PortRange{}):
		return provider.OpError("open", ErrArgument, "Ports %d..%d are for a NIC that the node opens, and NIC has its own", d.Ports.Lo, d.Ports.Hi)
	case d.Card != nil && (d.NIC != nil || d.Interface != "" || d.Ports != (transport.PortRange{})):
		return provider.OpError("open", ErrArgument, "NIC, Interface and Ports are for a NIC, and Card carries the messages: leave them out")
	case d.Card != nil && d.MaxMedium > provider.MaxCardMedium:
		return provider.OpError("open", ErrArgument, "MaxMedium of %d bytes: messages of a card have %d at most", d.MaxMedium, provider.MaxCardMedium)
	case d.MaxConnections < 0:
		return provider.OpError("open", ErrArgument, "MaxConnections of %d is negative", d.MaxConnections)
	case d.MaxConnectionMemory < 0:
		return provider.OpError("open", ErrArgument, "MaxConnectionMemory of %d bytes is negative", d.MaxConnectionMemory)
	case d.PeerTimeout < 0:
		return provider.OpError("open", ErrArgument, "PeerTimeout %v is negative", d.PeerTimeout)
	}
	return nil
}
