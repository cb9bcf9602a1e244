package doctor

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/transport"
)

// judgeAgent says what the node's agent does for this process. Where raw sockets are refused
// and the agent gives none either, that finding says so (agentAdvice). Where there is no agent
// and no need of one, there is nothing to be said.
func judgeAgent(f *Facts) []Finding {
	a := &f.Agent
	found := Finding{Check: "agent"}
	switch {
	case a.Path == "", a.Err != nil && (a.None || f.Rights.RawSocket != nil):
		return nil
	case a.Err == nil:
		found.Found = "it serves at " + a.Path
		found.Means = "programs of this user without the right to raw sockets get theirs from it"
	default:
		found.Level, found.Found = Note, a.Err.Error()
		found.Means, found.Fix = agentAdvice(a)
	}
	return []Finding{found}
}

// agentAdvice says what it means that an agent gives no sockets, and what changes it.
func agentAdvice(a *Agent) (means, fix string) {
	switch {
	case a.None:
		return "no agent serves at " + a.Path + " that could open them", fmt.Sprintf("sudo bobnet agent --allow user:%d", a.User)
	case errors.Is(a.Err, transport.ErrPermission):
		return "the agent gives this user none", fmt.Sprintf("echo user:%d | sudo tee -a /etc/bobnet/agent.policy   # or what its --allow says", a.User)
	}
	return fmt.Sprintf("the agent gives none (%v)", a.Err), "systemctl status bobnet-agent"
}
