package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// watching is what is watched of one kind.
type watching[T comparable] struct {
	mu  sync.Mutex
	all []*watched[T] // in the order of watching
}

// watched is one of them, and what its labels say, once that is known.
type watched[T comparable] struct {
	it     T
	labels string
	number int // among those whose labels say the same, from 1
}

// add adds it, unless it is there already. forget removes it.
func (w *watching[T]) add(it T) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := func(x *watched[T]) bool { return x.it == it }
	if !slices.ContainsFunc(w.all, is) {
		w.all = append(w.all, &watched[T]{it: it})
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), is)
	}
}

// list returns what is watched now. Nobody asks it for a snapshot with w.mu
// held, so that one that hangs stops neither a dump nor forgetting it.
func (w *watching[T]) list() []*watched[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[:len(w.all):len(w.all)]
}

// distinct returns the labels of x with "#2" behind the last one if those of another are the same,
// and so on. The number stays while x is watched. Without it Prometheus would get the same series
// twice, and accept none at all.
func (w *watching[T]) distinct(x *watched[T], of ...string) []string {
	labels := strings.Join(of, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.number == 0 || x.labels != labels {
		x.labels, x.number = labels, 1
		taken := func(y *watched[T]) bool { return y != x && y.labels == labels && y.number == x.number }
		for slices.ContainsFunc(w.all, taken) {
			x.number++
		}
	}
	if x.number > 1 {
		of[len(of)-1] += fmt.Sprintf("#%d", x.number)
	}
	return of
}
