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

// member returns what of c says which rank of which job this is.
func (c *Config) member() job.Config {
	return job.Config{Name: c.Job, Rank: c.Rank, Size: c.Size, Interface: c.Interface, NIC: c.NIC, Timeout: c.Timeout, PeerTimeout: c.PeerTimeout, Logger: c.Logger}
}

// fromEnvironment returns c with what the environment says in the fields that are
// left zero, and with the defaults of a job.
func (c Config) fromEnvironment() (Config, error) {
	member, err := c.member().FromEnvironment()
	if err == nil {
		err = member.Check()
	}
	if err != nil {
		return c, fmt.Errorf("mplite: init: %w: %w", ErrArgument, err)
	}
	c.Job, c.Rank, c.Size, c.Timeout = member.Name, member.Rank, member.Size, member.Timeout
	return c, nil
}
