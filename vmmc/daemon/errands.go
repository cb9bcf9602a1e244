package daemon

import (
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// errands schedules the exchanges with other daemons: requests that this daemon sends for a local user, or
// responses that it sends to a node. An exchange takes seconds if the other node does not respond, and a
// process can name nodes that do not exist. So each key, a user or a node, gets only some of the places.
// Keys with exchanges that wait for a place take turns.
type errands[K comparable] struct {
	places, each int          // maximum number of running exchanges, in total and of one key
	most         int          // maximum number of waiting exchanges of one key; 0 means no limit
	spawn        func(func()) // runs a function concurrently

	mu      sync.Mutex
	running int
	of      map[K]*errandsOf
	turns   []K // keys with waiting exchanges
}

// errandsOf holds the exchanges of one key.
type errandsOf struct {
	waiting fifo.Queue[func()]
	running int
}

// runWhenFree runs f when a place is free. It returns false, and does nothing, if too many exchanges of k wait.
func (e *errands[K]) runWhenFree(k K, f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.of[k]
	if o == nil {
		if e.of == nil {
			e.of = map[K]*errandsOf{}
		}
		o = new(errandsOf)
		e.of[k] = o
	}
	if e.most > 0 && o.waiting.Len() >= e.most {
		return false
	}
	if o.waiting.Push(f); o.waiting.Len() == 1 {
		e.turns = append(e.turns, k)
	}
	e.startWaiting()
	return true
}

// startWaiting starts waiting exchanges while places are free. The caller must hold mu.
func (e *errands[K]) startWaiting() {
	for i := 0; i < len(e.turns) && e.running < e.places; {
		k := e.turns[i]
		o := e.of[k]
		if o.running == e.each {
			i++
			continue
		}
		f := o.waiting.Pop()
		if e.turns = slices.Delete(e.turns, i, i+1); o.waiting.Len() > 0 {
			e.turns = append(e.turns, k)
		}
		e.running++
		o.running++
		e.spawn(func() {
			defer e.end(k, o)
			f()
		})
	}
}

// end frees the place of an exchange, and starts waiting ones.
func (e *errands[K]) end(k K, o *errandsOf) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	if o.running--; o.running == 0 && o.waiting.Len() == 0 {
		delete(e.of, k)
	}
	e.startWaiting()
}
