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

	suites  suite // suites to offer; 0 means the best ones for the processor
	silence int64 // nanoseconds without a frame from a peer that is sent to, after which the session is replaced; 0 means maxSilence
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

// Times, in nanoseconds of the link's clock.
const (
	cookieLife   = int64(10 * time.Second)       // validity of a cookie
	firstRetry   = int64(5 * time.Millisecond)   // before the first repetition of a handshake message
	lastRetry    = int64(160 * time.Millisecond) // before later repetitions, at most
	maxTries     = 8                             // of an attempt; then the waiting frames are dropped
	initTries    = 4                             // of a handshake with one cookie
	graceOld     = int64(10 * time.Second)       // during which frames of a replaced session are accepted
	graceConfirm = int64(50 * time.Millisecond)  // for the peer to confirm a session that it has started
	maxSilence   = int64(5 * time.Second)
	rekeyPause   = int64(time.Second) // between attempts to replace a session that still works
	sweepEvery   = int64(10 * time.Second)
	sendAgain    = int64(50 * time.Microsecond) // after the link had no room
)

// Bounds on memory.
const (
	maxPeers     = 1 << 14
	maxSessions  = 4       // for each peer
	maxWaiting   = 32      // frames to one peer that wait for a session
	maxWaitBytes = 4 << 20 // for all peers together
	maxOut       = 512     // frames that wait for room in the link
	maxGroups    = 4096    // senders whose broadcasts are checked for replays
	maxTroubles  = 256     // stations whose frames cannot be opened
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
