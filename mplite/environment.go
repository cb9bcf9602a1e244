package mplite

import (
	"fmt"

	"github.com/bobnet-go/bobnet/job"
)

// The environment variables that say which job a process belongs to, as package job
// has them. Whoever starts the ranks sets them; bobnet lab does. Init reads them for
// the fields of Config that are left zero, and vipl.EnvTimeout for Config.Timeout.
// The others of package vipl say how to reach the network.
const (
	EnvJob       = job.EnvJob
	EnvRank      = job.EnvRank
	EnvSize      = job.EnvSize
	EnvInterface = job.EnvInterface
)

// fromEnvironment returns c with what the environment says in the fields that are
// left zero, or what the member is, and with the defaults of a job.
func (c Config) fromEnvironment() (Config, error) {
	if m := c.Member; m != nil {
		if c.Job != "" || c.Rank != 0 || c.Size != 0 || c.Interface != "" || c.NIC != nil {
			return c, opError("init", ErrArgument, "Job, Rank, Size, Interface and NIC are those of Member: leave them zero")
		}
		id := m.Identity()
		c.Job, c.Rank, c.Size, c.NIC = id.Job, id.Rank, id.Size, m.NIC()
	}
	of, err := c.Config.FromEnvironment()
	if err == nil {
		err = of.Check()
	}
	if err != nil {
		return c, fmt.Errorf("mplite: init: %w: %w", ErrArgument, err)
	}
	c.Config = of
	return c, nil
}
