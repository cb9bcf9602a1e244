package paper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
)

// The handlers of Split-C on the NOW.
const (
	nowAsk = 10 + iota // a skeleton's request
	nowReply
)

// nowLink carries a skeleton's requests in active messages of the NOW. These are real messages of
// package endpoint over AM-II's control program.
type nowLink struct {
	*amHost
	program *skeleton.Rank
	rate    operations // speed of its processor
	data    []byte
	asked   int // requests
	answers int
}

func newNowLink(h *amHost, rate operations, rank, ranks int) *nowLink {
	l := &nowLink{amHost: h, rate: rate, data: make([]byte, amMedium)}
	l.program = skeleton.New(l, rank, ranks)
	h.ep.SetHandler(nowAsk, func(t endpoint.Token, args []uint32, _ []byte) {
		kind := skeleton.Kind(args[0])
		t.Reply(nowReply, args[0], uint32(l.program.Arrived(kind, int32(args[1]), int(args[2]))))
	})
	h.ep.SetHandler(nowReply, func(_ endpoint.Token, args []uint32, _ []byte) {
		l.answers++
		if skeleton.Kind(args[0]) == skeleton.Add {
			l.program.Answered(int32(args[1]))
		}
	})
	return l
}

// Request implements skeleton.Link. A short message has room for four words.
func (l *nowLink) Request(to int, kind skeleton.Kind, value int32, bytes int) error {
	l.asked++
	args := [4]uint32{uint32(kind), uint32(value), uint32(bytes)}
	if bytes <= 8 {
		return errors.Join(l.ep.Request(l.ctx, to, nowAsk, args[:]...), l.back)
	}
	return errors.Join(l.ep.RequestMedium(l.ctx, to, nowAsk, l.data[:bytes], args[:]...), l.back)
}

// Await implements skeleton.Link.
func (l *nowLink) Await() error { return l.poll(time.Millisecond) }

// Poll implements skeleton.Link.
func (l *nowLink) Poll() error {
	for {
		n, err := l.b.Poll()
		if err != nil || n == 0 {
			return errors.Join(err, l.back)
		}
	}
}

// Compute implements skeleton.Link.
func (l *nowLink) Compute(operations int) error {
	if operations == 0 {
		return nil
	}
	return l.w.Sleep(l.rate.take(operations))
}

// Segment implements skeleton.Link.
func (l *nowLink) Segment() int { return amMedium }

// nowRun is a run of an application on hosts of the NOW.
type nowRun struct {
	*amNet
	rate         operations // speed of the processors
	ready, over  int        // hosts that can begin, and hosts that have finished
	began, ended int64
}

// applyNow is like viaModel.apply, on the first hosts of a network like the NOW's.
func applyNow(ctx context.Context, cfg amConfig, t *topology.Topology, rate operations, procs int, app application) (time.Duration, error) {
	net, err := newAMNet(ctx, cfg, t, procs)
	if err != nil {
		return 0, err
	}
	run, errs := &nowRun{amNet: net, rate: rate}, make([]error, procs)
	for i := range procs {
		net.w.Go(fmt.Sprint("host ", i), func() {
			if errs[i] = run.host(i, app); errs[i] != nil {
				run.opened, run.ready, run.over = procs, procs, procs // the others end, too
			}
		})
	}
	err = errors.Join(net.w.Run(), errors.Join(errs...))
	return time.Duration(run.ended - run.began), err
}

// host is the part of one host: it opens an endpoint, runs the application when all hosts are
// ready, and serves requests until all hosts have finished.
func (run *nowRun) host(i int, app application) error {
	h, err := run.openHost(i, 1)
	if err != nil {
		return err
	}
	l := newNowLink(h, run.rate, i, len(run.cards))
	run.opened++
	return errors.Join(run.run(l, i, app), h.node.Close())
}

func (run *nowRun) run(l *nowLink, i int, app application) error {
	all := func(n *int) error { return l.until(func() bool { return *n >= len(run.cards) }) }
	if err := errors.Join(all(&run.opened), l.meet(run, i)); err != nil {
		return err
	}
	run.ready++
	if err := errors.Join(all(&run.ready), l.program.Barrier()); err != nil {
		return err
	}
	run.began = max(run.began, run.w.Now())
	if err := app.Run(l.program); err != nil {
		return err
	}
	run.ended = max(run.ended, run.w.Now())
	if err := l.until(func() bool { return l.answers == l.asked }); err != nil {
		return err
	}
	run.over++
	return all(&run.over)
}

// meet maps the endpoints of all other hosts. It initializes each channel, and moves endpoints and
// staging areas to the places where they are needed.
func (l *nowLink) meet(run *nowRun, me int) error {
	for to := range run.names {
		if to == me {
			continue
		}
		want := l.done + 2
		if err := errors.Join(l.ep.Map(to, run.names[to][0], amTag), l.ep.Request(l.ctx, to, amEcho, 1, 2, 3, 4),
			l.ep.RequestMedium(l.ctx, to, amTake, l.data), l.await(want)); err != nil {
			return err
		}
	}
	return nil
}
