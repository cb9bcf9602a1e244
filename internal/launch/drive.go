package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/pmi"
	"golang.org/x/sys/unix"
)

// head is one call of Run.
type head struct {
	cfg    *Config
	nodes  []*remote
	events chan event
	over   chan struct{} // closed when events are no longer handled

	printing sync.Mutex // of lines, one at a time
	named    *named

	left    int // ranks that have not ended
	gone    int // the first rank that has ended, if any has
	anyGone bool
	waits   bool             // a rank is in a barrier
	fenced  map[*remote]bool // nodes all of whose ranks are
	puts    []pmi.Word       // in that barrier
	failure *ExitError
	stopped error            // why the ranks were ended
	kill    <-chan time.Time // fires when their grace time is over
	killed  bool             // SIGKILL was sent
}

// event is a message from a node, or its end.
type event struct {
	from *remote
	m    *message
	err  error // the connection to the node has ended
}

// run starts the ranks, and handles events until all ranks have ended.
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
			if h.killed { // abandon nodes that have not ended their ranks
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

// maxTold is the maximum number of queued messages for a node that does not read.
const maxTold = 16

// tell queues a message for a node. It never blocks: a lost host reads nothing, and the other hosts must
// still receive their messages. If the queue is full, it closes the connection to the node.
func (r *remote) tell(m *message) {
	select {
	case r.told <- m:
	default:
		r.kill()
	}
}

// deliver sends queued messages to a node, until a send fails or the queue is closed. A failed send
// needs no event of its own, because the node's output ends as well.
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

// listen prints the output of a node's ranks, and forwards other messages as events, until the node's
// output ends. If printing blocks, only these ranks wait.
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
		case <-h.over: // discard the event: the node must not block
		}
		if err != nil {
			return
		}
	}
}

// handle handles one event. It ignores events of a lost node.
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
		h.fail(h.nodes[0], &ending{Rank: h.gone, Code: 1, State: "it ended while others wait for it in a barrier"})
	}
}

// check validates a message: a node may report its own ranks only, the end of each rank once, and
// each barrier once.
func (h *head) check(from *remote, m *message) error {
	rank, what := -1, ""
	switch {
	case m.Line != nil:
		rank, what = m.Line.Rank, "prints"
	case m.Abort != nil:
		rank, what = m.Abort.Rank, "aborts"
		if m.Abort.Code < 1 || m.Abort.Code > 255 {
			return fmt.Errorf("%w: rank %d reported as aborting with exit code %d", errNoNode, rank, m.Abort.Code)
		}
	case m.Exit != nil:
		rank, what = m.Exit.Rank, "has ended"
		if m.Exit.Code < 0 || m.Exit.Code > 255 {
			return fmt.Errorf("%w: rank %d reported as ended with code %d", errNoNode, rank, m.Exit.Code)
		}
	case m.Fence != nil && h.fenced[from]:
		return fmt.Errorf("%w: barrier reported twice", errNoNode)
	default:
		return nil
	}
	if !slices.Contains(from.ranks, rank) || m.Exit != nil && !from.running[rank] {
		return fmt.Errorf("%w: it reports that rank %d %s, but does not run this rank", errNoNode, rank, what)
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

// hostSays prints the standard error of the command that reaches a host.
type hostSays struct{ h *head }

func (w hostSays) Write(b []byte) (int, error) {
	w.h.printing.Lock()
	defer w.h.printing.Unlock()
	return w.h.cfg.Stderr.Write(b)
}

// fence records that all ranks of a node are in the barrier. It releases the barrier when the ranks
// of all nodes are in it.
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

// exit records how a rank has ended. After a stop, it ignores ends that the stop itself causes.
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

// fail records a failure that ends the job.
func (h *head) fail(from *remote, e *ending) {
	h.note(from, e.Rank, e)
	h.stop(h.failure)
}

// note records a failure. first is the rank that failed, or -1 for a host; all lists the ranks that
// fail with it.
func (h *head) note(from *remote, first int, all ...*ending) {
	for _, e := range all {
		if h.failure == nil {
			h.failure = &ExitError{Rank: first, Host: h.hostOf(from, e.Rank), State: e.State, Ranks: h.cfg.N, Named: h.named.by(first)}
		}
		h.failure.Code = max(h.failure.Code, e.Code, 1)
		if h.cfg.Continue {
			h.failure.addFailure(lab.Failure{Rank: e.Rank, Host: h.hostOf(from, e.Rank), State: e.State})
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

// lose closes the connection to a node, and records why: the node has closed it, has sent an invalid
// message, or has sent nothing for too long.
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
	if since := r.hears.since(); h.failure != nil && h.failure.Host != r.host.Name && since >= h.cfg.overdue() {
		h.failure.Silent = append(h.failure.Silent, Silent{r.host.Name, since})
	}
	if h.note(r, -1, all...); !h.cfg.Continue {
		h.stop(h.failure)
	}
}

// stop ends all ranks because of err, unless they are already stopped.
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

// giveUp closes the connections to nodes that do not end their ranks.
func (h *head) giveUp() {
	if h.failure != nil {
		var left []*remote
		for _, r := range h.nodes {
			if len(r.running) > 0 {
				left = append(left, r)
			}
		}
		h.failure.Silent = append(h.failure.Silent, silent(left, h.cfg.overdue())...)
	}
	for _, r := range h.nodes {
		h.left -= len(r.running)
		if len(r.running) > 0 {
			clear(r.running)
			r.kill()
		}
	}
}

// named records, for each rank, the host whose MAC address appears in the rank's errors. A rank
// knows its peers by address only; the head knows the host of each address.
type named struct {
	hosts map[ethertype.MAC]string // of the interfaces that ranks use
	own   []string                 // the host of each rank

	mu   sync.Mutex
	last map[int]Named // by rank
}

// Named is another host whose MAC address the last error of a rank contains.
type Named struct {
	Host, MAC string
	own       string
}

// newNamed returns a named for the hosts in answers. seats contains the index in answers of each
// rank's host.
func newNamed(answers []Answer, seats []int) *named {
	n := &named{hosts: map[ethertype.MAC]string{}, last: map[int]Named{}}
	for _, a := range answers {
		if mac, err := ethertype.ParseMAC(a.Inv.MAC); err == nil {
			n.hosts[mac] = a.Host.Name
		}
	}
	for _, i := range seats {
		n.own = append(n.own, answers[i].Host.Name)
	}
	return n
}

// aMAC matches a MAC address in a text.
var aMAC = regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b`)

// note examines a line of a rank's standard error.
func (n *named) note(rank int, line []byte) {
	if rank < 0 || rank >= len(n.own) {
		return
	}
	for _, text := range aMAC.FindAll(line, -1) {
		mac, err := ethertype.ParseMAC(string(text))
		if host := n.hosts[mac]; err == nil && host != "" && host != n.own[rank] {
			n.mu.Lock()
			n.last[rank] = Named{host, mac.String(), n.own[rank]}
			n.mu.Unlock()
		}
	}
}

// by returns the host that a rank's errors name, or the zero Named.
func (n *named) by(rank int) Named {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last[rank]
}

// withHost adds the host to an error text.
func (n Named) withHost(text string) string {
	if n.Host == "" {
		return text
	}
	return text + fmt.Sprintf("; its last error names %s, which is host %s (to check for lost frames between these hosts, try: bobnet doctor --host %s,%s)", n.MAC, n.Host, n.own, n.Host)
}

// Silence is the default of Config.Silence.
const Silence = 20 * time.Second

// beats is the number of keep-alive messages that a node sends in that time. It sends them whatever
// its ranks do: only a host that is down or hangs, or whose node is stopped, sends none. The
// transport to the host may not detect this: ssh does only if configured, and hydra does not
// even if its ssh has ended.
const beats = 10

// overdue returns the time after which a keep-alive message is overdue.
func (c *Config) overdue() time.Duration { return c.silence() * 3 / (2 * beats) }

// silence returns the time after which a silent host is lost.
func (c *Config) silence() time.Duration {
	if c.Silence > 0 {
		return c.Silence
	}
	return Silence
}

// hearing reads a node's output.
type hearing struct {
	from *os.File
	most time.Duration // maximum wait of one Read; 0: no limit
	// waits is the time at which the current Read began to wait, in nanoseconds since 1970; 0 if no
	// Read waits.
	waits atomic.Int64
	last  atomic.Int64 // time at which a Read last returned data; 0 if none has
}

// since returns how long ago the node's last data arrived, or 0 if none has.
func (h *hearing) since() time.Duration {
	last := h.last.Load()
	if last == 0 {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - last)
}

// quiet returns for how long the current Read has been waiting for the node.
func (h *hearing) quiet() time.Duration {
	since := h.waits.Load()
	if since == 0 {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - since)
}

// Silent is a host that had sent nothing for some time when the job ended, or when its connection did.
type Silent struct {
	Host string
	For  time.Duration
}

// String describes the silent host.
func (s Silent) String() string {
	return fmt.Sprintf("host %s has sent nothing for %v (is it down, or the network to it?)", s.Host, s.For.Round(time.Second))
}

// silent returns the nodes that have sent nothing for at least the time least.
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

// Read implements io.Reader. Only its own waiting counts as silence, not the time in which it is
// not called because the output is blocked. It waits in pieces, so that only one piece expires
// when this process is stopped and continued.
func (h *hearing) Read(b []byte) (n int, err error) {
	h.waits.Store(time.Now().UnixNano())
	defer func() {
		h.waits.Store(0)
		if n > 0 {
			h.last.Store(time.Now().UnixNano())
		}
	}()
	if h.most == 0 {
		return h.from.Read(b)
	}
	for range beats {
		if err := h.from.SetReadDeadline(time.Now().Add(h.most / beats)); err != nil {
			return 0, err
		}
		if n, err = h.from.Read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	return 0, fmt.Errorf("no keep-alive for %v (is the host down or hanging, or its bobnet stopped?)", h.most)
}

// beat sends keep-alive messages to the head, until a send fails.
func (n *node) beat(every time.Duration) {
	for range time.Tick(every) {
		if n.out.send(&message{Alive: true}) != nil {
			return
		}
	}
}

// watch makes nodes send keep-alive messages while hydra runs their ranks. The returned channel
// reports a host that is lost or has sent nothing for too long.
func watch(nodes []*remote, most time.Duration) <-chan *ExitError {
	lost := make(chan *ExitError, len(nodes))
	for _, r := range nodes {
		r.hears.most = most
		go func() {
			r.send(&message{Beat: most / beats}) // if this fails, the node's output ends as well
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
