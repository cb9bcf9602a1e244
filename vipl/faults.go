package vipl

import (
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/transport/fault"
)

// EnvFault is the environment variable that injects faults into every link that Open opens. The
// link then loses, duplicates, delays, reorders or corrupts frames that it sends, to test a
// program. `bobnet lab --loss 2%` sets it:
//
//	BOBNET_FAULT=loss=2%,dup=1%,reorder=1%,corrupt=0.1%,delay=100us,jitter=20us,seed=7
//
// Omitted faults do not occur. Each link mixes its own address into the seed. EnvFault does not
// affect Config.Link.
const EnvFault = "BOBNET_FAULT"

// faultsWanted returns the options in EnvFault, or the zero Options if it is not set.
func faultsWanted() (fault.Options, error) {
	opts, err := fault.Parse(os.Getenv(EnvFault))
	if err != nil {
		err = fmt.Errorf("vipl: environment variable %s: %w", EnvFault, err)
	}
	return opts, err
}
