package vipl

import (
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/internal/seam"
)

func init() {
	seam.EngineOf = func(nic any) *progress.Engine { return &nic.(*NIC).eng }
	seam.Key, seam.Faults, seam.Timeout = keyWanted, faultsWanted, timeoutWanted
}
