package vipl

import (
	"encoding/json"
	"errors"

	"github.com/bobnet-go/bobnet/internal/link/agent"
)

// answerAgent answers the node agent's requests for the NIC's state, if the NIC's sockets come from
// an agent.
func (n *NIC) answerAgent() {
	lease := agent.LeaseOf(n.m.Link)
	if lease == nil {
		return
	}
	lease.Answer(func(what string) ([]byte, error) {
		if what != agent.Snapshot {
			return nil, errors.ErrUnsupported
		}
		s := n.Snapshot()
		return s.within(agent.MaxAnswer)
	})
}

// within returns the snapshot as JSON of at most size bytes. If the snapshot of all VIs is larger,
// it leaves out half of them, and halves again until the rest fits.
func (s *Snapshot) within(size int) ([]byte, error) {
	for {
		body, err := json.Marshal(s)
		if err != nil || len(body) <= size || len(s.VIs) == 0 {
			return body, err
		}
		s.leaveOut(len(s.VIs) / 2)
	}
}
