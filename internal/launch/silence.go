package launch

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Silence is how long a host may say nothing, unless Config.Silence says something else.
const Silence = 20 * time.Second

// beats is how often a node says in that time that it is there. It does so whatever its ranks
// do: only a host that has gone, that hangs, or whose node is stopped, says nothing. What
// reaches the host need not notice that: ssh does so only if it is told to, and hydra not
// even when its ssh has ended.
const beats = 10

// overdue returns how long a host says nothing that has missed a sign of life.
func (c *Config) overdue() time.Duration { return c.silence() * 3 / (2 * beats) }

// silence returns how long a host may say nothing.
func (c *Config) silence() time.Duration {
	if c.Silence > 0 {
		return c.Silence
	}
	return Silence
}

// hearing reads what a node says.
type hearing struct {
	from *os.File
	most time.Duration // that one Read waits; 0: for ever
	// waits is when the Read that is under way began to wait, in nanoseconds since 1970; 0 if
	// there is none.
	waits atomic.Int64
}

// quiet returns for how long the node has said nothing to the Read that waits for it.
func (h *hearing) quiet() time.Duration {
	since := h.waits.Load()
	if since == 0 {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - since)
}

// Silent is a host of which nothing was heard when the job ended.
type Silent struct {
	Host string
	For  time.Duration
}

// String says so.
func (s Silent) String() string {
	return fmt.Sprintf("nothing was heard of host %s for %v: it has gone, or the network to it", s.Host, s.For.Round(time.Second))
}

// silent returns those of nodes that have said nothing for at least so long.
func silent(nodes []*remote, least time.Duration) (all []Silent) {
	for _, r := range nodes {
		if quiet := r.hears.quiet(); quiet >= least {
			all = append(all, Silent{r.host.Name, quiet})
		}
	}
	return all
}

// withSilent adds silent hosts to an error text.
func withSilent(text string, hosts []Silent) string {
	for _, s := range hosts {
		text += "; " + s.String()
	}
	return text
}

// Read implements io.Reader. Only the time in which it waits counts as silence, not that in
// which nobody calls it because the output is blocked; and it waits in pieces, of which one
// alone is over at once when this process has been stopped and goes on.
func (h *hearing) Read(b []byte) (int, error) {
	h.waits.Store(time.Now().UnixNano())
	defer h.waits.Store(0)
	if h.most == 0 {
		return h.from.Read(b)
	}
	for range beats {
		if err := h.from.SetReadDeadline(time.Now().Add(h.most / beats)); err != nil {
			return 0, err
		}
		if n, err := h.from.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	return 0, fmt.Errorf("it has said nothing for %v: it has gone, or hangs, or its bobnet is stopped", h.most)
}

// beat says to the head that this node is there, until the head hears no more.
func (n *node) beat(every time.Duration) {
	for range time.Tick(every) {
		if n.out.send(&message{Alive: true}) != nil {
			return
		}
	}
}

// watch has nodes say that they are there while hydra runs their ranks, and returns what tells
// of hosts that are lost, or say nothing for too long.
func watch(nodes []*remote, most time.Duration) <-chan *ExitError {
	lost := make(chan *ExitError, len(nodes))
	for _, r := range nodes {
		r.hears.most = most
		go func() {
			r.send(&message{Beat: most / beats}) // if it does not take that its output ends, too
			for {
				if _, err := receive(r.in); err != nil {
					lost <- &ExitError{Rank: -1, Host: r.host.Name, State: r.loss(err), Code: 1}
					return
				}
			}
		}()
	}
	return lost
}
