// Package seam holds what public packages offer to Bobnet's other packages, but not to users. A public
// package sets its variables when it is initialized, so each caller imports that package, too.
package seam

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// Package vipl sets these.
var (
	// EngineOf returns the engine of a *vipl.NIC, for packages whose goroutines wait at gates of their
	// own. The engine's lock is the NIC's. Hold it for a moment, and never while calling package vipl.
	EngineOf func(nic any) *progress.Engine

	// Key returns the source of keys that the environment names, nil if it names none.
	Key func() (seal.Source, error)

	// Faults returns what vipl.EnvFault asks for, the zero Options if it is not set.
	Faults func() (fault.Options, error)

	// Timeout returns what vipl.EnvTimeout asks for, 0 if it is not set.
	Timeout func() (time.Duration, error)
)

// SayAlone reports on stderr that this process is a job of one rank, unless a launcher started it
// (job.FindPlace): a user who started several processes wanted something else. Only the first call in
// a process prints. Package job sets SayAlone.
var SayAlone func(program string)
