package seal

import (
	"io"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/internal/logqueue"
)

// Options say how to seal the frames of a link.
type Options struct {
	// Keys are the keys; see Source. It is asked when the link is opened, and from then
	// on every Reload, by a goroutine of the link's, so that keys can be replaced while
	// programs run. Over a virtual link it is asked within Recv.
	Keys Source
	// Reload is how often Keys is asked again; 0 means every 2 s, negative means never.
	Reload time.Duration
	// Limits are what a session is used for before another one replaces it.
	Limits Limits
	// Random is where all that must not be guessed comes from; nil means the system's
	// random source. Only simulations and tests of vectors have another.
	Random io.Reader
	// Logger receives a line when a station cannot be understood, at most one a minute
	// for each, and when keys change. Nil means slog.Default().
	// Its handler is called on a goroutine of the logger's own, and may block.
	Logger *slog.Logger

	suites  suite // that may be used; 0 means what suits the processor
	silence int64 // nanoseconds in which a peer that is sent to is not heard, until the session is replaced; 0 means maxSilence
}

// Limits bound what is sent with one key. Each is where a new session is begun; at twice of
// it nothing more is sent in the old one, even if there is no new one yet.
type Limits struct {
	Frames uint64        // 0 means 2^32
	Bytes  uint64        // 0 means 2^42, 4 TiB
	Age    time.Duration // 0 means 5 minutes; twice as old a session is forgotten
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
