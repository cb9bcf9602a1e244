package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/pmi"
	"golang.org/x/sys/unix"
)

// head is one call of Run.
type head struct {
	cfg    *Config
	nodes  []*remote
	events chan event
	over   chan struct{} // closed when nobody takes events any more

	printing sync.Mutex // of lines, one at a time
	named    *named

	left    int // ranks that have not ended
	gone    int // the first rank that has ended, if any has
	anyGone bool
	waits   bool             // a rank is in a barrier
	fenced  map[*remote]bool // nodes all of whose ranks are
	puts    []pmi.Word       // in that barrier
	failure *ExitError
	stopped error            // why the ranks were told to end
	kill    <-chan time.Time // when their time is up
	killed  bool             // they have been told to kill what does not end
}

// event is what has come from a node.
type event struct {
	from *remote
	m    *message
	err  error // the node has gone
}

// run starts the ranks, and sees to them until all have ended.
func (h *head) run(ctx context.Context, layout string) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	work := start{Job: newJob(), Size: h.cfg.N, Mapping: layout, Dir: dir, Argv: h.cfg.Argv, Env: h.cfg.environment(), Bind: h.cfg.Bind}
	for _, r := range h.nodes {
		r.running = map[int]bool{}
		for _, rank := range r.ranks {
			r.running[rank] = true
		}
		h.left += len(r.ranks)
		r.said.passOn(hostSays{h})
		r.told = make(chan *message, maxTold)
		r.hears.most = h.cfg.silence()
		r.tell(&message{Beat: r.hears.most / beats})
		mine := work
		mine.Ranks = r.ranks
		r.tell(&message{Start: &mine})
		go h.deliver(r)
		go h.listen(r)
	}
	cancelled := ctx.Done()
	for h.left > 0 {
		select {
		case e := <-h.events:
			h.handle(e)
		case <-cancelled:
			cancelled = nil
			h.stop(fmt.Errorf("run: interrupted: %w", context.Cause(ctx)))
		case <-h.kill:
			h.signal(unix.SIGKILL)
			if h.killed { // a node that has not done so is given up
				h.giveUp()
			}
			h.killed, h.kill = true, time.After(grace)
		}
	}
	if h.stopped == nil && h.failure != nil {
		return h.failure
	}
	return h.stopped
}

// maxTold is how many messages may wait for a node that does not take them.
const maxTold = 16

// tell has a node be sent a message, behind those that it has been told before. Nobody waits
// for that: a host that has gone takes nothing, and the others have to end all the same. A
// node that takes nothing for too long is cut off.
func (r *remote) tell(m *message) {
	select {
	case r.told <- m:
	default:
		r.kill()
	}
}

// deliver sends a node what it is told, until it takes no more or nobody tells it anything.
// That it does not take it is an event, too: its output ends.
func (h *head) deliver(r *remote) {
	for {
		select {
		case m := <-r.told:
			if r.send(m) != nil {
				return
			}
		case <-h.over:
			return
		}
	}
}

// listen prints what a node's ranks print, and passes on what it says besides, until it says no
// more. While nobody takes the output the ranks have to wait, and nobody else does.
func (h *head) listen(r *remote) {
	for {
		m, err := receive(r.in)
		if err == nil && m.Line != nil && slices.Contains(r.ranks, m.Line.Rank) {
			h.print(m.Line)
			continue
		}
		if err == nil && m.Alive {
			continue
		}
		select {
		case h.events <- event{r, m, err}:
		case <-h.over: // nobody wants it, and the node must not wait
		}
		if err != nil {
			return
		}
	}
}

// handle sees to one event. Of a node that has been lost there are none.
func (h *head) handle(e event) {
	if e.from.lost {
		return
	}
	if e.err == nil {
		e.err = h.check(e.from, e.m)
	}
	switch m := e.m; {
	case e.err != nil:
		h.lose(e.from, e.err)
	case m.Waits:
		h.waits = true
	case m.Fence != nil:
		h.fence(e.from, m.Fence)
	case m.Abort != nil:
		h.fail(e.from, m.Abort)
	case m.Exit != nil:
		h.exit(e.from, m.Exit)
	}
	if h.waits && h.anyGone && h.stopped == nil {
		h.fail(h.nodes[0], &ending{Rank: h.gone, Code: 1, State: "it ended before it came to the barrier that others wait in"})
	}
}

// check says what is wrong with a message: a node speaks of its own ranks alone, each of
// them ends once, and a barrier begins once for it.
func (h *head) check(from *remote, m *message) error {
	rank, what := -1, ""
	switch {
	case m.Line != nil:
		rank, what = m.Line.Rank, "prints"
	case m.Abort != nil:
		rank, what = m.Abort.Rank, "aborts"
		if m.Abort.Code < 1 || m.Abort.Code > 255 {
			return fmt.Errorf("%w: it says that rank %d aborts the job with exit code %d", errNoNode, rank, m.Abort.Code)
		}
	case m.Exit != nil:
		rank, what = m.Exit.Rank, "has ended"
		if m.Exit.Code < 0 || m.Exit.Code > 255 {
			return fmt.Errorf("%w: it says that rank %d has ended with code %d", errNoNode, rank, m.Exit.Code)
		}
	case m.Fence != nil && h.fenced[from]:
		return fmt.Errorf("%w: it says twice that its ranks are in one barrier", errNoNode)
	default:
		return nil
	}
	if !slices.Contains(from.ranks, rank) || m.Exit != nil && !from.running[rank] {
		return fmt.Errorf("%w: it says that rank %d %s, which it does not run", errNoNode, rank, what)
	}
	return nil
}

// print writes a line of a rank.
func (h *head) print(l *line) {
	h.printing.Lock()
	defer h.printing.Unlock()
	to := h.cfg.Stdout
	if l.Err {
		to = h.cfg.Stderr
		h.named.note(l.Rank, l.Text)
	}
	to.Write(append([]byte(lab.Prefix(l.Rank, colours(to))), l.Text...))
}

// hostSays writes what the command that reaches a host says of its own.
type hostSays struct{ h *head }

func (w hostSays) Write(b []byte) (int, error) {
	w.h.printing.Lock()
	defer w.h.printing.Unlock()
	return w.h.cfg.Stderr.Write(b)
}

// fence takes note that all ranks of a node are in the barrier, which ends when those of
// all nodes are.
func (h *head) fence(from *remote, f *fence) {
	h.puts = append(h.puts, f.Puts...)
	if h.fenced[from] = true; len(h.fenced) < len(h.nodes) {
		return
	}
	release := &message{Release: &fence{Puts: h.puts}}
	h.puts, h.waits = nil, false
	clear(h.fenced)
	for _, r := range h.nodes {
		r.tell(release)
	}
}

// exit takes note of how a rank has ended. After a stop the ends that the stop itself
// brings about do not count.
func (h *head) exit(from *remote, e *ending) {
	delete(from.running, e.Rank)
	h.left--
	if !h.anyGone {
		h.gone, h.anyGone = e.Rank, true
	}
	if e.Code == 0 || h.stopped != nil && (e.Code == 128+int(unix.SIGTERM) || e.Code == 128+int(unix.SIGKILL)) {
		return
	}
	h.note(from, e.Rank, e)
	if !h.cfg.Continue {
		h.stop(h.failure)
	}
}

// fail takes note of a failure that ends the job.
func (h *head) fail(from *remote, e *ending) {
	h.note(from, e.Rank, e)
	h.stop(h.failure)
}

// note takes note of the failure of first, a rank or -1 for a host, by which the ranks of
// its endings fail.
func (h *head) note(from *remote, first int, all ...*ending) {
	for _, e := range all {
		if h.failure == nil {
			h.failure = &ExitError{Rank: first, Host: h.hostOf(from, e.Rank), State: e.State, Ranks: h.cfg.N, Named: h.named.by(first)}
		}
		h.failure.Code = max(h.failure.Code, e.Code, 1)
		if h.cfg.Continue {
			h.failure.add(lab.Failure{Rank: e.Rank, Host: h.hostOf(from, e.Rank), State: e.State})
		}
	}
}

// hostOf returns the name of the host that a rank runs on.
func (h *head) hostOf(from *remote, rank int) string {
	for _, r := range h.nodes {
		for _, have := range r.ranks {
			if have == rank {
				return r.host.Name
			}
		}
	}
	return from.host.Name
}

// lose takes note that a node has closed the connection, says what makes no sense, or nothing
// for too long, and cuts it.
func (h *head) lose(r *remote, err error) {
	r.lost = true
	if !errors.Is(err, io.EOF) {
		r.kill()
	}
	if len(r.running) == 0 {
		return
	}
	var all []*ending
	for _, rank := range slices.Sorted(maps.Keys(r.running)) {
		all = append(all, &ending{Rank: rank, Code: 1, State: r.loss(err)})
	}
	if !h.anyGone {
		h.gone, h.anyGone = all[0].Rank, true
	}
	h.left -= len(r.running)
	clear(r.running)
	if h.note(r, -1, all...); !h.cfg.Continue {
		h.stop(h.failure)
	}
}

// stop has all ranks end because of err, unless they have been told so.
func (h *head) stop(err error) {
	if h.stopped != nil {
		return
	}
	h.stopped = err
	h.signal(unix.SIGTERM)
	h.kill = time.After(grace)
}

func (h *head) signal(sig syscall.Signal) {
	for _, r := range h.nodes {
		if !r.lost {
			r.tell(&message{Signal: int(sig)})
		}
	}
}

// giveUp waits no longer for nodes that do not end their ranks: their connections are cut.
func (h *head) giveUp() {
	if h.failure != nil {
		var left []*remote
		for _, r := range h.nodes {
			if len(r.running) > 0 {
				left = append(left, r)
			}
		}
		h.failure.Silent = silent(left, h.cfg.overdue())
	}
	for _, r := range h.nodes {
		h.left -= len(r.running)
		if len(r.running) > 0 {
			clear(r.running)
			r.kill()
		}
	}
}
