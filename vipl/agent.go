package vipl

import (
	"encoding/json"
	"errors"

	"github.com/bobnet-go/bobnet/internal/link/agent"
)

// answerAgent has the agent, if the NIC's sockets are from one, told the NIC's state when it
// asks.
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

// within returns the snapshot as JSON of at most so many bytes. If all VIs do not fit, half of
// them are left out, and so on.
func (s *Snapshot) within(size int) ([]byte, error) {
	for {
		body, err := json.Marshal(s)
		if err != nil || len(body) <= size || len(s.VIs) == 0 {
			return body, err
		}
		s.leaveOut(len(s.VIs) / 2)
	}
}
