package vipl

import (
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/transport/fault"
)

// EnvFault names the environment variable that makes every link that Open opens
// lose, copy, delay, reorder or corrupt the frames that it sends, for tries of
// how a program takes it (`bobnet lab --loss 2%` sets it):
//
//	BOBNET_FAULT=loss=2%,dup=1%,reorder=1%,corrupt=0.1%,delay=100us,jitter=20us,seed=7
//
// What is left out does not happen. Each link mixes its own address into the
// seed. A link in Config.Link is left as it is.
const EnvFault = "BOBNET_FAULT"

// faultsWanted returns what EnvFault asks for; the zero Options if it is not
// set. The error says what in it cannot be read.
func faultsWanted() (fault.Options, error) {
	opts, err := fault.Parse(os.Getenv(EnvFault))
	if err != nil {
		err = fmt.Errorf("vipl: environment variable %s: %w", EnvFault, err)
	}
	return opts, err
}
