// Package providertest is the test suite for the providers of package vmmc. Each promise of package
// provider has one named case. In a case, two providers of the same kind communicate. Each kind of
// provider runs the suite in its own tests, over its own transport, in real or simulated time.
package providertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Stage is the environment in which the processes of a case run. Each case has its own stage.
type Stage interface {
	// Go runs body as a process. body opens its provider by open. When body has returned, the stage
	// closes the transport under the provider.
	Go(number uint32, body func(open Open))
	// Kill ends a process like kill -9, and reports whether the stage supports that.
	Kill(number uint32) bool
	// Sleep lets the time d pass while other processes run.
	Sleep(d time.Duration) error
	// Run returns when all processes have returned.
	Run() error
}

// Open opens a provider.
type Open func(up provider.Up, kick func()) (provider.Provider, error)

// The values with which a stage must open its providers: the maximum number of writes in flight
// and, if the stage supports Kill, the time after which a silent peer counts as dead.
const (
	Sends       = 64
	PeerTimeout = time.Second
)

// Case tests one promise.
type Case struct {
	Name string
	// exporter and importer are the bodies of the two processes. Both processes exist until both
	// bodies have returned.
	exporter, importer func(n, other *Node) error
}

// stage is a Stage together with the processes of a case.
type stage struct {
	Stage
	mu    sync.Mutex
	nodes [2]*Node
	opens int
	left  int
	errs  []error
}

// note records the error with which a process ends, and returns it.
func (s *stage) note(n *Node, err error) error {
	if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, errOther) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, fmt.Errorf("process %d: %w", n.number, err))
	}
	return err
}

// pause lets other processes run for d. It returns an error if another process has failed, because
// this process would wait in vain.
func (n *Node) pause(d time.Duration) error {
	n.stage.mu.Lock()
	failed := len(n.stage.errs) > 0
	n.stage.mu.Unlock()
	if failed {
		return errOther
	}
	return n.stage.Sleep(d)
}

var errOther = errors.New("the other process has failed")

// Run runs all cases, each on a new stage.
func Run(t *testing.T, newStage func(t *testing.T) Stage) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.run(newStage(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (c *Case) run(on Stage) error {
	s := &stage{Stage: on, left: 2}
	for i, body := range []func(n, other *Node) error{c.exporter, c.importer} {
		n := &Node{number: uint32(i + 1), stage: s, done: map[any]error{}, grants: map[*provider.Grant]bool{}}
		s.nodes[i] = n
		on.Go(n.number, func(open Open) { s.play(n, open, body) })
	}
	err := on.Run()
	return errors.Join(append(s.errs, err)...)
}

// count adds by to a number that the processes share, and returns the sum.
func (s *stage) count(which *int, by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which += by
	return *which
}

// errKilled is the error that the body of a killed process returns.
var errKilled = errors.New("killed")

// play runs one process.
func (s *stage) play(n *Node, open Open, body func(n, other *Node) error) {
	left := sync.OnceFunc(func() { s.count(&s.left, -1) })
	defer left()
	n.mu.Lock()
	p, err := open(n, n.kick)
	n.p = p
	n.unlock()
	s.count(&s.opens, 1)
	if s.note(n, err) != nil {
		return
	}
	for s.count(&s.opens, 0) < 2 && err == nil {
		err = n.pause(step)
	}
	if err == nil {
		err = body(n, s.nodes[2-n.number])
	}
	err = s.note(n, err) // the error must be recorded before the process counts as ended
	if left(); err == nil {
		err = s.note(n, n.serve(func() bool { return s.count(&s.left, 0) == 0 }))
	}
	n.under(func() {
		p.Close()
		p.Close()
	})
	if err == nil {
		s.note(n, n.closed())
	}
}

// closed checks the promises for the time after Close.
func (n *Node) closed() error {
	n.mu.Lock()
	defer n.unlock()
	for _, released := range n.grants {
		if !released {
			return errors.New("a grant is not released after Close")
		}
	}
	return n.twice
}
