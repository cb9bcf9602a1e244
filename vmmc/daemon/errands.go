package daemon

import (
	"slices"
	"sync"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// Places of errands: of all users, and of one.
const (
	allPlaces  = 128
	userPlaces = 32
)

// errands are questions to other daemons. One takes seconds where the other node is silent, and a process
// can name nodes that do not exist. So one user has a part of the places, and the users whose errands wait
// for a place take turns. The zero value has no errands.
type errands struct {
	spawn func(func()) // runs a function beside

	mu      sync.Mutex
	running int
	users   map[uint32]*errandsOf
	turns   []uint32 // users whose errands wait
}

// errandsOf are those of a user.
type errandsOf struct {
	waiting fifo.Queue[func()]
	running int
}

// add runs f when there is a place for it. The caller bounds how many of a user's wait.
func (e *errands) add(uid uint32, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.users[uid]
	if u == nil {
		if e.users == nil {
			e.users = map[uint32]*errandsOf{}
		}
		u = new(errandsOf)
		e.users[uid] = u
	}
	if u.waiting.Push(f); u.waiting.Len() == 1 {
		e.turns = append(e.turns, uid)
	}
	e.start()
}

// start begins errands while there are places for them. mu is held.
func (e *errands) start() {
	for i := 0; i < len(e.turns) && e.running < allPlaces; {
		uid := e.turns[i]
		u := e.users[uid]
		if u.running == userPlaces {
			i++
			continue
		}
		f := u.waiting.Pop()
		if e.turns = slices.Delete(e.turns, i, i+1); u.waiting.Len() > 0 {
			e.turns = append(e.turns, uid)
		}
		e.running++
		u.running++
		e.spawn(func() {
			defer e.end(uid, u)
			f()
		})
	}
}

// end ends an errand of a user.
func (e *errands) end(uid uint32, u *errandsOf) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	if u.running--; u.running == 0 && u.waiting.Len() == 0 {
		delete(e.users, uid)
	}
	e.start()
}
