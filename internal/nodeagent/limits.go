package nodeagent

import (
	"errors"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
)

// A user may make requestBurst requests at once, and requestRate more each second; who asks
// faster is kept waiting, for requestWait at most.
const (
	requestBurst = 128
	requestRate  = 16
	requestWait  = 5 * time.Second
)

// So many answers of all users, and of one, are received at the same time. Others wait in the
// sockets, until these are there or are out of time: an answer takes up to agent.MaxAnswer.
const (
	answersAtOnce = 64
	answersOfUser = 4
)

// limits bounds what users cost: their connections, the rate of their requests, and the memory
// for their answers.
type limits struct {
	gate  *admission.Gate[uint32] // connections
	mu    sync.Mutex
	users map[uint32]*usage
	clock func() time.Time
	all   chan struct{} // has one for each answer under way
}

type usage struct {
	tokens float64
	at     time.Time
	room   room
}

// room is that for the answers of a user.
type room struct{ own, all chan struct{} }

// enter waits until there is room for an answer.
func (r *room) enter() {
	r.own <- struct{}{}
	r.all <- struct{}{}
}

func (r *room) leave() {
	<-r.all
	<-r.own
}

// allConns is how many connections all users have at most.
const allConns = 8192

// init lets a user have so many connections. Root may have those of all.
func (l *limits) init(conns int) {
	l.gate = admission.New(admission.Limits{Conns: conns, AllConns: max(conns, allConns)}, uint32(0))
	l.users, l.clock, l.all = map[uint32]*usage{}, time.Now, make(chan struct{}, answersAtOnce)
}

// enter notes a connection of a user's, unless there are too many.
func (l *limits) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.users[uid]
	if !l.gate.Enter(uid) {
		return false
	}
	if u == nil {
		l.forget()
		u = &usage{tokens: requestBurst, at: l.clock(), room: room{own: make(chan struct{}, answersOfUser), all: l.all}}
		l.users[uid] = u
	}
	return true
}

func (l *limits) leave(uid uint32) { l.gate.Leave(uid) }

// roomOf returns the room for the answers of a user who has a connection.
func (l *limits) roomOf(uid uint32) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &l.users[uid].room
}

// forget drops users who have no connection and all their tokens.
func (l *limits) forget() {
	for uid, u := range l.users {
		if conns, _ := l.gate.Conns(uid); conns == 0 && u.filled(l.clock()) >= requestBurst {
			delete(l.users, uid)
		}
	}
}

func (u *usage) filled(now time.Time) float64 {
	return min(requestBurst, u.tokens+requestRate*now.Sub(u.at).Seconds())
}

// wait takes a token of a user's, and waits for it.
func (l *limits) wait(uid uint32) error {
	pause, err := l.take(uid)
	if err == nil && pause > 0 {
		time.Sleep(pause)
	}
	return err
}

// take takes a token, and returns how long it is until there is one.
func (l *limits) take(uid uint32) (pause time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.users[uid], l.clock()
	u.tokens, u.at = u.filled(now), now
	if pause = time.Duration((1 - u.tokens) / requestRate * float64(time.Second)); pause > requestWait {
		return 0, errors.New("too many requests: try again later")
	}
	u.tokens--
	return max(0, pause), nil
}
