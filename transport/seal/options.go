package seal

import (
	"io"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/internal/logqueue"
)

// Options configure the sealing of a link.
type Options struct {
	// Keys are the keys; see Source. A goroutine of the link calls it when the link is opened, and
	// again every Reload, so that keys can be replaced while programs run. Recv calls it on a
	// virtual link.
	Keys Source
	// Reload is the interval between calls of Keys; 0 means 2 s, negative means never.
	Reload time.Duration
	// Limits bound the use of a session before another one replaces it.
	Limits Limits
	// Random is the source of unpredictable bytes; nil means the system's random source. Only
	// simulations and tests of vectors use another.
	Random io.Reader
	// Logger receives a line when a station's frames cannot be opened, at most once a minute for
	// each, and when keys change. Nil means slog.Default(). Its handler is called on a separate
	// goroutine, and may block.
	Logger *slog.Logger

	suites  suite // that may be used; 0 means what suits the processor
	silence int64 // nanoseconds in which a peer that is sent to is not heard, until the session is replaced; 0 means maxSilence
}

// Limits bound what is sent with one key. At a limit a new session is started. At twice the limit
// nothing more is sent in the old session, even without a new one.
type Limits struct {
	Frames uint64        // 0 means 2^32
	Bytes  uint64        // 0 means 2^42, 4 TiB
	Age    time.Duration // 0 means 5 minutes; at twice this age a session is deleted
}

// defaultReload is the default of Options.Reload.
const defaultReload = 2 * time.Second

// How long things take. Lengths of time are of the link's clock, in nanoseconds.
const (
	cookieLife   = int64(10 * time.Second)       // of a cookie
	firstRetry   = int64(5 * time.Millisecond)   // until a message of the handshake is repeated the first time
	lastRetry    = int64(160 * time.Millisecond) // and at most
	maxTries     = 8                             // of an attempt, then the frames that wait are dropped
	initTries    = 4                             // of them with one cookie
	graceOld     = int64(10 * time.Second)       // for frames of a session that was replaced
	graceConfirm = int64(50 * time.Millisecond)  // for the peer to confirm a session that it has begun
	maxSilence   = int64(5 * time.Second)
	rekeyPause   = int64(time.Second) // between attempts to replace a session that works
	sweepEvery   = int64(10 * time.Second)
	sendAgain    = int64(50 * time.Microsecond) // when the link had no room
)

// Bounds on memory.
const (
	maxPeers     = 1 << 14
	maxSessions  = 4       // of one peer
	maxWaiting   = 32      // frames to one peer without a session
	maxWaitBytes = 4 << 20 // to all together
	maxOut       = 512     // frames that the link had no room for
	maxGroups    = 4096    // stations whose frames to all are told from replays
	maxTroubles  = 256     // stations that are not understood
)

func (o Options) withDefaults() Options {
	if o.Reload == 0 {
		o.Reload = defaultReload
	}
	if o.Limits.Frames == 0 || o.Limits.Frames > 1<<40 {
		o.Limits.Frames = 1 << 32
	}
	if o.Limits.Bytes == 0 || o.Limits.Bytes > 1<<42 {
		o.Limits.Bytes = 1 << 42
	}
	if o.Limits.Age <= 0 {
		o.Limits.Age = 5 * time.Minute
	}
	o.Logger = logqueue.New(o.Logger).Logger()
	if o.silence == 0 {
		o.silence = maxSilence
	}
	if o.suites == 0 {
		o.suites = preferred()
	}
	return o
}
