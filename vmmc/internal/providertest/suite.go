// Package providertest is what every provider of package vmmc has to pass: the promises of
// package provider, one named case each, with providers of one kind that talk to each
// other. A kind runs it in its own tests, over whatever it stands on, in real time or in a
// simulator's.
package providertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Stage is where the processes of a case run. One is made for each case.
type Stage interface {
	// Go runs body as a process. It opens its provider by open, and the stage closes what
	// the provider stands on when body has returned.
	Go(number uint32, body func(open Open))
	// Kill ends a process as kill -9 does, and reports whether the stage can do that.
	Kill(number uint32) bool
	// Sleep lets time pass, and others run.
	Sleep(d time.Duration) error
	// Run returns when all processes have.
	Run() error
}

// Open opens a provider.
type Open func(up provider.Up, kick func()) (provider.Provider, error)

// What the providers of a stage are to be opened with: how many writes may be under way,
// and, where Kill kills, how long a silent peer is believed to be alive.
const (
	Sends       = 64
	PeerTimeout = time.Second
)

// Case is a promise.
type Case struct {
	Name string
	// exporter and importer are the two processes. Both are left when both have returned.
	exporter, importer func(n, other *Node) error
}

// stage is a Stage with the processes of a case.
type stage struct {
	Stage
	mu    sync.Mutex
	nodes [2]*Node
	opens int
	left  int
	errs  []error
}

// note keeps why a process ends, and returns it.
func (s *stage) note(n *Node, err error) error {
	if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, errOther) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, fmt.Errorf("process %d: %w", n.number, err))
	}
	return err
}

// pause lets others run for d. Its error says that another process has failed: what this
// one waits for would not come.
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

// Run runs all cases, each on a stage of its own.
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

// count changes a number that processes share, and returns it.
func (s *stage) count(which *int, by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which += by
	return *which
}

// errKilled is what the body of a process that was killed returns.
var errKilled = errors.New("killed")

// play is one process.
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
	err = s.note(n, err) // before it says that it has left
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

// closed is what holds after Close.
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
