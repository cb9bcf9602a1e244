package lanai

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

// sayings holds the control messages that wait for an entry of the privileged endpoint's request queue. Users take
// turns, and so do the stations that a user sends to. Messages of one user to one station stay in order. A message to
// a station that does not acknowledge it occupies its entry for a long time. If a station, or a user, occupies as many
// entries as are free, it gets no further entry, so that other stations and users can use them. So at most sendEntries
// stations of each user are skipped, however many messages wait.
type sayings struct {
	n     int
	turns fifo.Queue[*userSayings]
	by    map[user]*userSayings
}

type userSayings struct {
	user  user
	turns fifo.Queue[*stationSayings]
	by    map[ethertype.MAC]*stationSayings
}

type stationSayings struct {
	mac     ethertype.MAC
	waiting fifo.Queue[*saying]
}

func (w *sayings) push(s *saying) {
	if w.by == nil {
		w.by = map[user]*userSayings{}
	}
	u := w.by[s.user]
	if u == nil {
		u = &userSayings{user: s.user, by: map[ethertype.MAC]*stationSayings{}}
		w.by[s.user] = u
		w.turns.Push(u)
	}
	x := u.by[s.to.mac]
	if x == nil {
		x = &stationSayings{mac: s.to.mac}
		u.by[s.to.mac] = x
		u.turns.Push(x)
	}
	x.waiting.Push(s)
	w.n++
}

// pop removes and returns the next message in turn that may have one of the free entries, or nil.
func (w *sayings) pop(p *posting) *saying {
	free := p.frees()
	for range w.turns.Len() {
		u := w.turns.Pop()
		var s *saying
		if u.user == ours || p.holds(func(x *saying) bool { return x.user == u.user }) < free {
			s = u.pop(p, free)
		}
		if u.turns.Len() > 0 {
			w.turns.Push(u)
		} else {
			delete(w.by, u.user)
		}
		if s != nil {
			w.n--
			return s
		}
	}
	return nil
}

func (u *userSayings) pop(p *posting, free int) *saying {
	for range u.turns.Len() {
		x := u.turns.Pop()
		if p.holds(func(s *saying) bool { return s.to.mac == x.mac }) >= free {
			u.turns.Push(x)
			continue
		}
		s := x.waiting.Pop()
		if x.waiting.Len() > 0 {
			u.turns.Push(x)
		} else {
			delete(u.by, x.mac)
		}
		return s
	}
	return nil
}

// frees returns how many entries of the request queue are free.
func (p *posting) frees() int { return sendEntries - bits.OnesCount8(uint8(p.posted^p.done)) }

// holds returns the number of entries with a control message for which such returns true.
func (p *posting) holds(such func(s *saying) bool) (n int) {
	for i := range p.refs[:sendEntries] {
		if s := p.refs[i].say; s != nil && such(s) {
			n++
		}
	}
	return n
}

// keep drops the waiting messages for which the function keep returns false.
func (w *sayings) keep(keep func(s *saying) bool) {
	all := *w
	*w = sayings{}
	for all.turns.Len() > 0 {
		u := all.turns.Pop()
		for u.turns.Len() > 0 {
			for x := u.turns.Pop(); x.waiting.Len() > 0; {
				if s := x.waiting.Pop(); keep(s) {
					w.push(s)
				}
			}
		}
	}
}
