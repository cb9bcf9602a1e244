package mplite

import (
	"errors"
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Defaults of Config, and its limits.
const (
	defaultPeerTimeout = vipl.DefaultPeerTimeout
	defaultSpillLimit  = 64 << 20
	maxEagerSize       = 1 << 20
	maxCredits         = 4096
)

// Config describes a rank. A zero field takes its value from the field's environment variable
// (see package job). Without such a variable the field's default applies. A nil Config means
// that all fields are zero.
type Config struct {
	// Config identifies the job and the rank, and selects the NIC that carries the rank's
	// messages. Timeout bounds Init, in addition to the context. It also bounds how long
	// Finalize waits after its barrier for ranks to leave.
	job.Config
	// Member, if not nil, is the process's membership in the job, which several packages can share
	// (job.Open). Job, Rank, Size, Interface and NIC then come from the member and must be zero.
	// The caller keeps ownership and closes the member after Finalize.
	Member *job.Member
	// EagerSize is the longest message, in bytes, that this rank always receives without a
	// rendezvous; 0 means 16 KiB, and 32 KiB if the MTU is 4000 or more. Longer messages may go to
	// landing memory: see Eager and rendezvous in the package comment.
	EagerSize int
	// Credits is the number of messages that each of the other ranks may have in flight to this
	// rank. 0 means 128 in a job of up to eight ranks. In a larger job it means less, but at
	// least 8. For each of the other ranks, each credit takes 2*EagerSize bytes of memory. With
	// OnUse, a connection begins with at most four credits. Each time a sender runs out of them,
	// it gets as many more as it has had, until it has this number.
	Credits int
	// SpillLimit bounds the memory, in bytes, for unexpected messages beyond
	// the receive buffers; 0 means 64 MiB, negative means none.
	SpillLimit int
	// Connect selects when ranks connect: on first use, or all of them in Init. With the
	// zero value it depends on the size of the job (ConnectBySize). All ranks of a job must
	// use the same value.
	Connect Connect
	// Exit ends the process in Abort, with a code of 1 to 255; nil means os.Exit.
	Exit func(code int)
}

// withDefaults returns c completed and checked.
func (c Config) withDefaults(mtu int) (Config, error) {
	setDefault(&c.PeerTimeout, defaultPeerTimeout)
	setDefault(&c.SpillLimit, defaultSpillLimit)
	setDefault(&c.EagerSize, defaultEager(mtu))
	setDefault(&c.Credits, min(128, max(8, 1024/c.Size)))
	c.Logger = logqueue.New(c.Logger).Logger()
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	return c, c.check()
}

func (c *Config) check() error {
	bad := func(format string, args ...any) error { return opError("init", ErrArgument, format, args...) }
	switch {
	case c.EagerSize < 64 || c.EagerSize > maxEagerSize:
		return bad("EagerSize %d is not in 64..%d", c.EagerSize, maxEagerSize)
	case c.Connect > Ahead:
		return bad("Connect %d: want ConnectBySize, OnUse or Ahead", c.Connect)
	case c.Connect == OnUse && c.Member != nil:
		return bad("Connect is OnUse, which a Config with a Member does not support: use Ahead")
	case c.Credits < 2 || c.Credits > maxCredits:
		return bad("Credits %d is not in 2..%d", c.Credits, maxCredits)
	}
	return nil
}

// defaultEager is about the size at which two copies cost as much as the round trip of a
// rendezvous. Over veth the measured size is two to four times as large, but then the
// buffers of every pair of ranks would be, too.
func defaultEager(mtu int) int {
	if mtu >= 4000 {
		return 32 << 10
	}
	return 16 << 10
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// fromEnvironment returns c with its zero fields set from the environment, or from the
// member, and with the defaults of a job.
func (c Config) fromEnvironment() (Config, error) {
	if m := c.Member; m != nil {
		if c.Job != "" || c.Rank != 0 || c.Size != 0 || c.Interface != "" || c.NIC != nil {
			return c, opError("init", ErrArgument, "Job, Rank, Size, Interface and NIC come from Member and must be zero")
		}
		id := m.Identity()
		c.Job, c.Rank, c.Size, c.NIC = id.Job, id.Rank, id.Size, m.NIC()
	}
	err := joining.Complete(&c.Config)
	switch {
	case errors.Is(err, transport.ErrArgument): // its text states already that a value is invalid
		return c, fmt.Errorf("mplite: init: %w", errclass.With(ErrArgument, errclass.Within("vipl: ", err)))
	case err != nil:
		return c, fmt.Errorf("mplite: init: %w: %w", ErrArgument, err)
	}
	return c, nil
}
