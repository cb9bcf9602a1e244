package job

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// Defaults and limits of Config.
const (
	DefaultTimeout = 30 * time.Second
	MaxRanks       = 4096
	maxName        = 128 // bytes
)

// Config describes one rank of a job. The zero value takes everything from the environment.
type Config struct {
	// Job is the job's name. Its ranks use it to find each other on the segment. Ranks of different
	// jobs never connect.
	Job string
	// Rank is this process's rank, and Size the number of ranks. If Size is set, Rank is not read
	// from the environment. If Size is 0 and no launcher (FindPlace) sets it, the job has one rank
	// and needs no network.
	Rank, Size int
	// Interface is the network interface, by name or MAC address; empty means the value of
	// vipl.EnvInterface, or else the only usable interface.
	Interface string
	// NIC is used instead of opening Interface. The caller keeps ownership.
	NIC *vipl.NIC
	// Timeout bounds how long ranks wait for each other when they start and when they end, in
	// addition to the context; 0 means the value of vipl.EnvTimeout, or else DefaultTimeout.
	Timeout time.Duration
	// PeerTimeout is how long a rank may be silent before it counts as dead; 0 means
	// vipl.DefaultPeerTimeout. A rank on this host counts as alive while its process lives.
	PeerTimeout time.Duration
	// Logger receives rare, human-readable events, such as ranks that are missing for
	// a long time; nil means slog.Default(). See vipl.Config.Logger about its handler, which
	// may block.
	Logger *slog.Logger
}

// fromEnvironment returns c with the fields Job, Rank, Size and Timeout from the environment where
// they are zero; vipl.Open reads the interface. If Size is set, Rank counts as set too. Otherwise
// FindPlace determines the variables. If these belong to a launcher with PMI-1, the first call in
// the process connects to it, for at most Timeout. It fails if the launcher does not answer, or if
// a required variable is not a valid number or duration; the error names the variable.
func (c Config) fromEnvironment() (Config, error) {
	c.Job = cmp.Or(c.Job, os.Getenv(EnvJob))
	var err error
	if c.Timeout == 0 {
		if c.Timeout, err = seam.Timeout(); err != nil {
			return c, err
		}
	}
	switch {
	case c.Size != 0:
		return c, nil
	case c.Rank != 0 && os.Getenv(EnvSize) != "":
		c.Size, err = environment(os.Getenv).number(EnvSize)
		return c, err
	}
	place, err := FindPlace()
	if err == nil && place.Source != "" {
		err = c.ask(place)
	}
	return c, err
}

// complete fills in zero fields from the environment or with their defaults, and checks c.
func (c *Config) complete() (err error) {
	if *c, err = c.fromEnvironment(); err != nil {
		return err
	}
	return c.check()
}

// check fills in the defaults, and returns an error if a value is invalid.
func (c *Config) check() error {
	c.Size = cmp.Or(c.Size, 1)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	switch {
	case c.Size < 1 || c.Size > MaxRanks:
		return fmt.Errorf("a job of %d ranks is not in 1..%d", c.Size, MaxRanks)
	case c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("rank %d is not in 0..%d", c.Rank, c.Size-1)
	case c.Size > 1 && c.Job == "":
		return fmt.Errorf("a job of several ranks needs a name: give it one by the configuration or by %s, the same for all its ranks", EnvJob)
	case len(c.Job) > maxName:
		return fmt.Errorf("the job's name has %d bytes, at most %d are allowed", len(c.Job), maxName)
	case c.Timeout < 0 || c.PeerTimeout < 0:
		return fmt.Errorf("a time limit is negative: Timeout %v, PeerTimeout %v", c.Timeout, c.PeerTimeout)
	}
	return nil
}

// openNIC returns the NIC to use. If it has opened the NIC itself, own is true, and the caller must
// close it. ctx bounds only the call. Even if ctx has ended, openNIC tries briefly to open the NIC
// if the job has other ranks. They wait for this rank, and Meet can then tell them why it does not
// join.
func (c *Config) openNIC(ctx context.Context) (nic *vipl.NIC, own bool, err error) {
	if c.NIC != nil {
		return c.NIC, false, nil
	}
	cfg := &vipl.Config{Interface: c.Interface, Logger: c.Logger}
	nic, err = vipl.Open(ctx, cfg)
	if err != nil && ctx.Err() != nil && c.Size > 1 {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellFor)
		defer cancel()
		if late, failed := vipl.Open(soon, cfg); failed == nil {
			nic, err = late, nil
		}
	}
	return nic, err == nil, err
}
