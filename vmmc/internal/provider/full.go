package provider

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
)

// Full returns why a process can have no connection with another one in addition to its others, nil if it can. most
// is Config.MaxConnections. One station gets a part of that if its processes ask for the connections: own of the
// others are with it. ended of the others have ended, but not yet for their peers.
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
