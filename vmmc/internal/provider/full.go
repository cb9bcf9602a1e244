package provider

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
)

// Full returns the reason why a process cannot have another connection, or nil if it can. most is
// Config.MaxConnections. One station gets only a part of these if its processes request the connections: own is
// the number of existing connections with that station. ended is the number of existing connections that have
// ended here but not yet at their peers.
func Full(at ethertype.Addr, most, others, own, ended int, asked bool) error {
	switch {
	case others >= most:
		waits := ""
		if ended > 0 {
			waits = fmt.Sprintf(" (this process has ended %d of them, and the peers have not answered yet)", ended)
		}
		return fmt.Errorf("vmmc: connect to %v: %d connections, the limit of Config.MaxConnections%s", at, others, waits)
	case asked && own >= admission.Part(most, others-own):
		return fmt.Errorf("vmmc: connection from %v: its station has %d of the %d connections that Config.MaxConnections allows, half of what the others leave", at, own, most)
	}
	return nil
}
