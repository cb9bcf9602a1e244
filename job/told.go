package job

import (
	"encoding/binary"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
)

// What ranks forward along their links: where each rank listens and the parameters of its program,
// and which rank has failed and why. Each rank keeps both lists in the order of arrival, and sends
// on each link what it has not yet sent there. A link carries one such message at a time: the other
// rank answers when it has handled it and reposted the receive. So a link needs few receives,
// whatever the number of reports, and several places share a message.

// place is where a rank listens, with the parameters of its program for a hello.
type place struct {
	addr   ethertype.Addr
	params [2]uint32
}

// arrival is a place that rank from has sent.
type arrival struct{ rank, from uint16 }

const (
	placeSize  = 2 + 8 + 8 // rank, address, params
	placesMost = 80        // in one message
)

// learn records the place of a rank, which rank from has sent.
func (t *tree) learn(rank int, at place, from int) {
	if !t.table[rank].addr.IsZero() {
		return
	}
	t.table[rank] = at
	t.places = append(t.places, arrival{uint16(rank), uint16(from)})
}

// learned handles a message of places, and reports whether it is valid.
func (t *tree) learned(b []byte, from int) bool {
	if len(b) == 0 || len(b)%placeSize != 0 {
		return false
	}
	le := binary.LittleEndian
	for ; len(b) > 0; b = b[placeSize:] {
		var at place
		rank := int(le.Uint16(b))
		copy(at.addr.MAC[:], b[2:8])
		at.addr.Port = le.Uint16(b[8:])
		at.params = [2]uint32{le.Uint32(b[10:]), le.Uint32(b[14:])}
		if rank >= t.job.Size || at.addr.IsZero() || at.addr.MAC.IsGroup() {
			return false
		}
		if rank != t.job.Rank {
			t.learn(rank, at, from)
		}
	}
	t.passAll()
	return true
}

// pack puts places that were not yet sent to p into b, and returns the number of bytes.
func (t *tree) pack(b []byte, p *link) (n int) {
	le := binary.LittleEndian
	for ; p.places < len(t.places) && n+placeSize <= len(b); p.places++ {
		a := t.places[p.places]
		if int(a.rank) == p.rank || int(a.from) == p.rank {
			continue
		}
		at := &t.table[a.rank]
		le.PutUint16(b[n:], a.rank)
		copy(b[n+2:], at.addr.MAC[:])
		le.PutUint16(b[n+8:], at.addr.Port)
		le.PutUint32(b[n+10:], at.params[0])
		le.PutUint32(b[n+14:], at.params[1])
		n += placeSize
	}
	return n
}

// talks reports whether p is connected.
func (p *link) talks() bool { return p.state == joining.Greeting || p.state == joining.Live }

// passAll calls pass for all links.
func (t *tree) passAll() {
	for _, p := range t.near {
		t.pass(p)
	}
}

// pass sends the next message to p, if p has answered the previous one.
func (t *tree) pass(p *link) {
	for ; p.owed > 0 && p.talks() && p.Room(); p.owed-- {
		t.say(p, sayAnswer, nil)
	}
	for !p.open && p.talks() && p.Room() {
		var body [placesMost * placeSize]byte
		switch bye := t.byes(p); {
		case bye != p.bye:
			p.bye, p.open = bye, true
			binary.LittleEndian.PutUint32(body[:], bye.count)
			binary.LittleEndian.PutUint32(body[4:], bye.without)
			t.say(p, sayBye, body[:8])
		case p.reports < len(t.reports):
			r := t.reports[p.reports]
			p.reports++
			if r.Rank != p.rank || r.Twice() {
				p.open = true
				t.say(p, sayReport, []byte(r.String()))
			}
		case p.places < len(t.places) && t.heldUntil(p) <= t.nic.Now():
			p.placesAt = t.nic.Now()
			if n := t.pack(body[:], p); n > 0 {
				p.open = true
				t.say(p, sayPlaces, body[:n])
			}
		default:
			return
		}
	}
}

// holdFor is how long a rank below this one waits for a message of places that is not full, after the last message.
const holdFor = time.Second

// heldUntil returns until when p has to wait for places, unless there are more before; 0 means not at all. While the ranks
// join, the rank above p gets places one by one. p can use none before it has all, and a message for each place and each
// rank would wake all ranks as often as ranks join. So p gets full messages, one that is not full in each holdFor, and
// the rest as soon as all places are known.
func (t *tree) heldUntil(p *link) int64 {
	if p.rank < t.job.Rank || p.places == len(t.places) || len(t.places)-p.places >= placesMost || t.known() {
		return 0
	}
	return p.placesAt + int64(holdFor)
}

// passHeld passes on places that have waited for long enough, and returns when to call it again.
func (t *tree) passHeld(now int64) (again int64) {
	again = never
	for _, p := range t.near {
		if t.heldUntil(p) <= now {
			t.pass(p)
		}
		if at := t.heldUntil(p); at > now {
			again = min(again, at)
		}
	}
	return again
}

// known reports whether this rank knows where all others are.
func (t *tree) known() bool { return len(t.places) == t.job.Size }
