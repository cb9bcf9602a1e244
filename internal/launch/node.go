package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/keep"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/pmi"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// grace is the time between SIGTERM and SIGKILL.
const grace = keep.Grace

// rankFD is the descriptor of a rank's PMI connection to its node.
const rankFD = 3

// node runs the ranks of one host.
type node struct {
	out    *writer
	beats  bool // keep-alive messages are being sent
	nic    *vipl.Config
	end    *doctor.End // during a test of paths
	work   *start
	path   string // of the program of each rank
	argv   []string
	server *pmi.Server
	ranks  []*rank // the started ranks
	left   int     // number of ranks that have not ended
	ended  chan *rank
}

// rank is one process of the job with its descendants.
type rank struct {
	number int
	keep.Group
}

// ServeNode runs a node. It sends its greeting, starts the ranks that the head requests over in, and
// reports over out. After in ends or SIGTERM arrives, it returns as soon as no rank and no descendant of a
// rank is left. To test paths to other hosts it opens a NIC with nic. ServeNode locks the calling
// thread, because ranks end with the thread that started them. Call keep.Guard first.
func ServeNode(in io.Reader, out io.Writer, inv *Inventory, nic *vipl.Config) error {
	runtime.LockOSThread()
	keep.Adopt()
	defer keep.KillLeft(grace)
	signal.Ignore(unix.SIGPIPE, unix.SIGINT, unix.SIGHUP) // only the end of in ends the node
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	defer signal.Stop(term)
	n := &node{out: &writer{w: out}, nic: nic, ended: make(chan *rank)}
	defer func() {
		if n.end != nil {
			n.end.Close()
		}
	}()
	if err := n.out.line(greeting, &message{Hello: inv}); err != nil {
		return err
	}
	asked, over := make(chan *message), make(chan error, 1)
	go func() {
		from := bufio.NewReader(in)
		for {
			m, err := receive(from)
			if err != nil {
				over <- err
				return
			}
			asked <- m
		}
	}()
	return n.run(asked, over, term)
}

// run handles requests until the node must end and no rank is left. A node that has lost its guard
// counts as killed: it kills its ranks at once and reports nothing.
func (n *node) run(asked <-chan *message, over <-chan error, term <-chan os.Signal) error {
	var kill <-chan time.Time
	var end error
	gone := false
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	stop := func() {
		gone = true
		n.signal(unix.SIGTERM)
		kill = time.After(grace)
	}
	for !gone || n.left > 0 {
		select {
		case m := <-asked:
			n.handle(m)
		case <-children:
			keep.ReapOrphans(n.started)
		case r := <-n.ended:
			keep.ReapOrphans(n.started)
			n.left--
			state := r.ProcessState
			n.out.send(&message{Exit: &ending{Rank: r.number, Code: keep.ExitCode(state), State: state.String()}})
		case end = <-over:
			over = nil
			stop()
		case <-term:
			stop()
		case <-keep.Lost():
			n.signal(unix.SIGKILL)
			return keep.ErrGuardLost
		case <-kill:
			n.signal(unix.SIGKILL)
		}
	}
	if errors.Is(end, io.EOF) {
		return nil
	}
	return end
}

// started reports whether pid is the number of a rank.
func (n *node) started(pid int) bool {
	return slices.ContainsFunc(n.ranks, func(r *rank) bool { return r.Has(pid) })
}

// handle handles a message of the head.
func (n *node) handle(m *message) {
	switch {
	case m.Beat > 0 && !n.beats:
		n.beats = true
		go n.beat(m.Beat)
	case m.Start != nil && n.work == nil:
		n.begin(m.Start)
	case m.Release != nil && n.server != nil:
		n.server.Release(m.Release.Puts)
	case m.Open && n.end == nil:
		n.openEnd()
	case m.Reach != nil && n.end != nil:
		go n.reach(m.Reach)
	case m.Signal > 0:
		n.signal(syscall.Signal(m.Signal))
	}
}

// begin starts the ranks. A rank that cannot be started counts as ended.
func (n *node) begin(work *start) {
	n.work = work
	n.server = pmi.NewServer(pmi.ServerConfig{
		Space: work.Job, Size: work.Size, Ranks: len(work.Ranks), Mapping: work.Mapping,
		Waits: func() { n.out.send(&message{Waits: true}) },
		Fence: func(puts []pmi.Word) { n.out.send(&message{Fence: &fence{Puts: puts}}) },
		Abort: func(rank, code int) {
			n.out.send(&message{Abort: &ending{Rank: rank, Code: code, State: fmt.Sprintf("it aborted the job with exit code %d", code)}})
		},
	})
	code, err := 1, os.Chdir(work.Dir)
	if err == nil {
		n.path, code, err = keep.LookUp(work.Argv[0])
	}
	if n.argv = work.Argv; err == nil && work.Bind {
		n.argv = append([]string{"bobnet", bindVerb, n.path}, work.Argv[1:]...)
		code = 126
		n.path, err = os.Executable()
	}
	for place, number := range work.Ranks {
		if err == nil {
			code, err = 126, n.startRank(place, number)
		}
		if err != nil {
			n.out.send(&message{Exit: &ending{Rank: number, Code: code, State: "it could not be started: " + err.Error()}})
		}
	}
}

// startRank starts one rank. place is its index on this node.
func (n *node) startRank(place, number int) error {
	here, there, err := socketPair()
	if err != nil {
		return err
	}
	defer there.Close()
	r := &rank{number: number, Group: keep.Group{Cmd: &exec.Cmd{
		Path: n.path, Args: n.argv, ExtraFiles: []*os.File{there},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
		WaitDelay:   grace,
	}}}
	size := strconv.Itoa(n.work.Size)
	r.Env = append(append(os.Environ(), n.work.Env...),
		job.EnvJob+"="+n.work.Job, job.EnvRank+"="+strconv.Itoa(number), job.EnvSize+"="+size,
		pmi.EnvJob+"="+n.work.Job, pmi.EnvRank+"="+strconv.Itoa(number), pmi.EnvSize+"="+size, pmi.EnvFD+"="+strconv.Itoa(rankFD), pmi.EnvPort+"=",
		envPlace+"="+strconv.Itoa(place), envHere+"="+strconv.Itoa(len(n.work.Ranks)))
	var finish []func()
	for _, to := range []struct {
		writer *io.Writer
		isErr  bool
	}{{&r.Stdout, false}, {&r.Stderr, true}} {
		file, finished, err := lab.Lines(lineSender{n.out, number, to.isErr})
		if err != nil {
			here.Close()
			return err
		}
		defer file.Close()
		*to.writer = file
		finish = append(finish, finished)
	}
	if err := r.Start(); err != nil {
		here.Close()
		return err
	}
	n.ranks = append(n.ranks, r)
	n.left++
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := n.server.Serve(number, here); err != nil {
			n.out.send(&message{Abort: &ending{Rank: number, Code: 1, State: err.Error()}})
		}
	}()
	go func() {
		r.end()
		select { // handle its last PMI requests before its end
		case <-served:
		case <-time.After(grace): // a descendant of the rank holds the connection
			here.Close()
		}
		for _, f := range finish {
			f()
		}
		n.ended <- r
	}()
	return nil
}

// socketPair returns the server's end and the rank's end of a socket pair.
func socketPair() (here net.Conn, there *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	there = os.NewFile(uintptr(fds[1]), "pmi")
	file := os.NewFile(uintptr(fds[0]), "pmi")
	defer file.Close()
	if here, err = net.FileConn(file); err != nil {
		there.Close()
		return nil, nil, err
	}
	return here, there, nil
}

// lineSender sends the lines of one output of a rank.
type lineSender struct {
	out   *writer
	rank  int
	isErr bool
}

func (s lineSender) Write(text []byte) (int, error) {
	return len(text), s.out.send(&message{Line: &line{Rank: s.rank, Err: s.isErr, Text: text}})
}

// signal sends a signal to all ranks and their descendants. Processes in sessions of their own get
// SIGKILL only: they may hold the output of a rank that has ended, and the node would wait for this
// output until the head abandons the node.
func (n *node) signal(sig syscall.Signal) {
	for _, r := range n.ranks {
		r.Signal(sig)
	}
	if sig == unix.SIGKILL {
		keep.KillDescendants()
	}
}

// end waits for the rank, and kills the rest of its process group.
func (r *rank) end() {
	keep.AwaitEnd(r.Process.Pid)
	r.Signal(unix.SIGKILL)
	r.Reap()
}
