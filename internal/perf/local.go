package perf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
	"golang.org/x/sys/unix"
)

// LocalConfig configures how Local runs the halves.
type LocalConfig struct {
	// Half is a command line that starts this program so that it calls RunHalf.
	Half []string
	// Card is the command line of Half.Card.
	Card []string
	// Profiles tells the halves which pprof files to write.
	Profiles Profiles
	// Pcap, if not empty, is the name of a pcapng file for the client's frames. The file for the
	// server's frames has "-server" before the extension.
	Pcap string
	// Lab, if not nil, is called before the halves start with each lab and the namespaces of the
	// client and the server, which may be the same. It returns additions to the environment of each
	// half, and a function that is called at the end.
	Lab      func(l *lab.Lab, ranks [2]int) (env [2][]string, done func(), err error)
	Topology lab.Topology // how the namespaces are joined; lab.Auto means lab.Pair
	Segment  bool         // the senders' kernels cut frames longer than the MTU into segments; see lab.Config
	Progress Progress     // may be nil
	Log      *slog.Logger // nil = slog.Default()

	patience time.Duration // how long the client half may print nothing; 0: computed from the plan
}

// halfConfig is the configuration that a half started by Local reads first.
type halfConfig struct {
	Server   bool
	IP       netip.Addr
	Plan     Plan
	Cases    []Case
	Profiles Profiles
	Pcap     string
	Card     []string
}

// event is a line that the client half prints while it measures.
type event struct {
	Done, Total int
	Case        *Case   `json:",omitempty"`
	Record      *Record `json:",omitempty"`
	Err         string  `json:",omitempty"`
	Lost        string  `json:",omitempty"` // why a file could not be written
}

// The descriptors with which a half starts.
const (
	fdControl = 3 // the control channel to the other half
	fdParent  = 4 // to Local
)

// Local measures plan on a pair of network namespaces of its own for each MTU, joined by veth or a
// bridge, with one process in each. For the link shm, both processes run in one namespace. Records
// are in the order of Plan.Cases. If Local returns an error, it also returns the records of the
// successful measurements.
func Local(ctx context.Context, plan Plan, cfg LocalConfig) ([]Record, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	named := plan.Stacks
	plan = plan.withDefaults()
	var records []Record
	var failures []error
	var cases []Case
	runs := plan.runs()
	for _, r := range runs {
		cases = append(cases, r.Cases(r.MTUs[0])...)
	}
	if err := plan.checkCases(named, cases); err != nil {
		return nil, err
	}
	base, total := 0, len(cases)*plan.Rounds
	for _, r := range runs {
		mtu := r.MTUs[0]
		p := &pair{cfg: cfg, cases: r.Cases(mtu), together: r.together(), patience: cmp.Or(cfg.patience, patience(r))}
		p.cfg.Progress = func(done, _ int, last Case) {
			if cfg.Progress != nil {
				cfg.Progress(base+done, total, last)
			}
		}
		err := p.measure(ctx, mtu, r)
		records = append(records, p.records...)
		if ctx.Err() != nil {
			var lost *userfile.WriteError
			if errors.As(err, &lost) {
				return records, errors.Join(context.Cause(ctx), lost)
			}
			return records, context.Cause(ctx)
		}
		if err != nil {
			failures = append(failures, err)
		}
		base += len(p.cases) * plan.Rounds
	}
	return records, errors.Join(failures...)
}

// pair is a run of both halves on one link.
type pair struct {
	cfg     LocalConfig
	cases   []Case
	records []Record

	together bool // in one namespace
	patience time.Duration
	parents  [2]*net.UnixConn // connections to the client and the server
}

func (p *pair) measure(ctx context.Context, mtu int, plan Plan) error {
	l, err := lab.New(ctx, lab.Config{N: 2, MTU: mtu, Topology: cmp.Or(p.cfg.Topology, lab.Pair), Segment: p.cfg.Segment, Log: p.cfg.Log})
	if err != nil {
		return err
	}
	defer l.Close()
	var env [2][]string
	if p.cfg.Lab != nil {
		more, done, err := p.cfg.Lab(l, [2]int{p.rank(0), p.rank(1)})
		if err != nil {
			return err
		}
		defer done()
		env = more
	}
	procs, err := p.start(l, env)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, proc := range procs {
			proc.Signal(unix.SIGTERM)
		}
	})
	defer stop()
	for i, conn := range p.parents {
		defer conn.Close()
		hc := halfConfig{Server: i == 1, IP: l.Addr(p.rank(i)), Plan: plan, Cases: p.cases, Profiles: p.cfg.Profiles, Pcap: p.cfg.Pcap, Card: p.cfg.Card}
		if err := json.NewEncoder(conn).Encode(hc); err != nil {
			return fmt.Errorf("perf: start half %d: %w", i, err)
		}
		if err := conn.CloseWrite(); err != nil {
			return fmt.Errorf("perf: start half %d: %w", i, err)
		}
	}
	failure := p.listen()
	if errors.Is(failure, errSilent) {
		quit(procs)
	}
	for i, proc := range procs {
		if err := proc.Wait(); err != nil && failure == nil {
			failure = fmt.Errorf("perf: half %d: %w", i, err)
		}
	}
	var last event // the server half writes only one event
	if json.NewDecoder(p.parents[1]).Decode(&last) == nil && last.Lost != "" {
		failure = errors.Join(failure, lostFile(last.Lost))
	}
	return failure
}

// lostFile returns the error for a file that a half could not write.
func lostFile(text string) error { return &userfile.WriteError{Err: errors.New(text)} }

// rank returns the namespace of a half. The client has namespace 0. The server has namespace 1 or,
// if there is only one, 0.
func (p *pair) rank(half int) int {
	if p.together {
		return 0
	}
	return half
}

// start starts the client and the server.
func (p *pair) start(l *lab.Lab, env [2][]string) ([]*lab.Proc, error) {
	control, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer control[0].Close()
	defer control[1].Close()
	var procs []*lab.Proc
	for i := range 2 {
		parent, err := socketpair()
		if err != nil {
			return nil, err
		}
		conn, err := fileConn(parent[0])
		if err != nil {
			parent[1].Close()
			return nil, err
		}
		p.parents[i] = conn
		cmd := exec.Command(p.cfg.Half[0], p.cfg.Half[1:]...)
		cmd.Env = append(os.Environ(), env[i]...)
		cmd.Stderr = os.Stderr
		cmd.ExtraFiles = []*os.File{control[i], parent[1]}
		proc, err := l.Start(p.rank(i), cmd)
		parent[1].Close()
		if err != nil {
			return nil, err
		}
		procs = append(procs, proc)
	}
	return procs, nil
}

// errSilent ends a measurement in which a half hangs. Each wait of a half has a time limit, so a
// half that works prints something in time.
var errSilent = errors.New("a half hangs (its state is on standard error; please report it)")

// patience returns how long the client half may print nothing. It is longer than one attempt of a
// sample on a busy machine, in which both halves wait until their time limits.
func patience(plan Plan) time.Duration {
	longest := time.Duration(0)
	for _, test := range plan.Tests {
		for _, link := range append([]string{""}, plan.Links...) {
			longest = max(longest, attemptTimeout(Case{Test: test, Link: link}, plan.Sample))
		}
	}
	return 4*longest + time.Minute
}

// quit makes the halves print what they wait for and the stacks of their goroutines, and then ends
// them.
func quit(procs []*lab.Proc) {
	for _, sig := range []unix.Signal{unix.SIGQUIT, unix.SIGQUIT, unix.SIGKILL} {
		for _, proc := range procs {
			proc.Signal(sig)
		}
		ctx, cancel := context.WithTimeout(context.Background(), quitGrace)
		for _, proc := range procs {
			select {
			case <-proc.Done():
			case <-ctx.Done():
			}
		}
		cancel()
	}
}

// quitGrace is how long the halves may take for each of the two.
const quitGrace = 2 * time.Second

// listen reads the lines of the client half until the half ends or prints nothing for too long.
func (p *pair) listen() error {
	dec := json.NewDecoder(p.parents[0])
	var failure error
	for {
		var e event
		p.parents[0].SetReadDeadline(time.Now().Add(p.patience))
		err := dec.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return failure
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("perf: no output of the client half for %v: %w", p.patience, errSilent)
		case err != nil:
			return fmt.Errorf("perf: read from the client half: %w", err)
		case e.Err != "":
			failure = errors.Join(failure, errors.New(e.Err))
		case e.Lost != "":
			failure = errors.Join(failure, lostFile(e.Lost))
		case e.Record != nil:
			p.records = append(p.records, *e.Record)
		case e.Case != nil:
			p.cfg.Progress(e.Done, e.Total, *e.Case)
		}
	}
}

// RunHalf is the main function of a process that Local has started. watch may be nil. It reports a
// file that cannot be written to Local.
func RunHalf(ctx context.Context, watch Watcher) error {
	ctl, err := fileConn(os.NewFile(fdControl, "control"))
	if err != nil {
		return fmt.Errorf("perf: only `bobnet perf` itself starts this verb: %w", err)
	}
	defer ctl.Close()
	parent, err := fileConn(os.NewFile(fdParent, "parent"))
	if err != nil {
		return fmt.Errorf("perf: only `bobnet perf` itself starts this verb: %w", err)
	}
	defer parent.Close()
	var cfg halfConfig
	// Read to the end: if a byte were left unread, closing would reset the connection.
	if b, err := io.ReadAll(parent); err != nil {
		return fmt.Errorf("perf: read the plan: %w", err)
	} else if err := json.Unmarshal(b, &cfg); err != nil {
		return fmt.Errorf("perf: parse the plan: %w", err)
	}
	h := NewHalf(lab.Interface, cfg.IP, ctl)
	h.Watch, h.Libtirpc, h.UCX, h.Card = watch, cfg.Plan.Libtirpc, cfg.Plan.UCX, cfg.Card
	out := json.NewEncoder(parent)
	err = h.run(ctx, cfg, out)
	var lost *userfile.WriteError
	if errors.As(err, &lost) {
		return out.Encode(event{Lost: lost.Error()})
	}
	return err
}

// run measures or serves, and writes the files that cfg names.
func (h *Half) run(ctx context.Context, cfg halfConfig, out *json.Encoder) (err error) {
	if cfg.Pcap != "" {
		if cfg.Server {
			cfg.Pcap = ofServer(cfg.Pcap)
		}
		file, failed := pcap.Create(cfg.Pcap)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		h.Wrap = func(l transport.Link) transport.Link { return file.Wrap(l) }
	}
	return cfg.Profiles.during(cfg.Server, func() error {
		if cfg.Server {
			return h.Serve(ctx)
		}
		return h.report(ctx, cfg, out)
	})
}

// report measures and writes events. Failures are events too; the process itself exits without an
// error.
func (h *Half) report(ctx context.Context, cfg halfConfig, out *json.Encoder) error {
	records, err := h.Measure(ctx, cfg.Plan, cfg.Cases, func(done, total int, last Case) {
		out.Encode(event{Done: done, Total: total, Case: &last}) // only progress
	})
	for i := range records {
		if err := out.Encode(event{Record: &records[i]}); err != nil {
			return err
		}
	}
	if err != nil {
		return out.Encode(event{Err: err.Error()})
	}
	return nil
}

func socketpair() ([2]*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return [2]*os.File{}, fmt.Errorf("perf: socketpair: %w", err)
	}
	return [2]*os.File{os.NewFile(uintptr(fds[0]), "half"), os.NewFile(uintptr(fds[1]), "half")}, nil
}

// fileConn returns a connection with the descriptor of f, and closes f.
func fileConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
