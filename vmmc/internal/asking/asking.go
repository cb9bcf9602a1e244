// Package asking manages the imports between two processes, at one end of their connection:
// the requests for imports, and the grants. A Conn carries the messages.
package asking

import (
	"encoding/binary"
	"slices"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Most is the maximum number of open questions of one process to another one.
const Most = 1 << 14

// Imports are the imports of both directions at one end of a connection, which embeds them.
type Imports struct {
	Asks   Asks
	Grants Grants
}

// Init initializes i without imports, for a connection.
func (i *Imports) Init(conn Conn, up provider.Up) {
	i.Asks = Asks{conn: conn, up: up, own: map[uint32]*provider.Ask{}, others: map[uint32]*provider.Request{}}
	i.Grants = Grants{asks: &i.Asks}
}

func (i *Imports) imports() *Imports { return i }

// Provider implements those methods of provider.Provider that only find the connection.
type Provider struct{}

// Forget implements provider.Provider.
func (Provider) Forget(a *provider.Ask) {
	if c, asked := a.Link.(Conn); asked {
		c.imports().Asks.Forget(a)
	}
}

// Deny implements provider.Provider.
func (Provider) Deny(q *provider.Request, why provider.Reason) {
	q.Link.(Conn).imports().Asks.Deny(q, why)
}

// Allow implements provider.Provider.
func (Provider) Allow(q *provider.Request, mem []byte, export any) (*provider.Grant, error) {
	return q.Link.(Conn).imports().Grants.Allow(q, mem, export)
}

// Revoke implements provider.Provider.
func (Provider) Revoke(g *provider.Grant, atOnce bool) {
	g.Link.(Conn).imports().Grants.Revoke(g, atOnce)
}

// Redirect implements provider.Provider.
func (Provider) Redirect(g *provider.Grant, mem []byte) error {
	return g.Link.(Conn).imports().Grants.Redirect(g, mem)
}

// Moved implements provider.Provider.
func (Provider) Moved(g *provider.Grant) { g.Link.(Conn).imports().Grants.Moved(g) }

// Conn is the connection that questions and grants use.
type Conn interface {
	imports() *Imports // of the Imports that it embeds

	// Open lets the peer write to mem. Shut revokes this: nothing is written to mem any more,
	// although the peer may still name the place. Free is called when the peer no longer names
	// the place, or the connection has ended.
	Open(mem []byte) (Place, error)
	Shut(Place)
	Free(Place)

	// SayAsk sends a question, SayForget withdraws it, and SayDeny refuses one.
	SayAsk(seq, export uint32, rest []byte)
	SayForget(seq uint32)
	SayDeny(seq uint32, why provider.Reason)

	// SayGrant grants a question. SayRevoke asks the peer to release a slot. SayRedirect names a
	// new place, and SayMoved lets the peer start to write to it.
	SayGrant(seq, slot uint32, at Place, size uint64)
	SayRevoke(slot uint32)
	SayRedirect(slot uint32, at Place)
	SayMoved(slot uint32)
}

// Asks are the questions of one end of a connection: its own and the peer's.
type Asks struct {
	conn   Conn
	up     provider.Up
	own    map[uint32]*provider.Ask
	last   uint32 // number of the last own one
	others map[uint32]*provider.Request
}

// Len returns the number of unanswered questions of this end.
func (s *Asks) Len() int { return len(s.own) }

// Ask asks.
func (s *Asks) Ask(a *provider.Ask) {
	if len(s.own) >= Most {
		a.Err = provider.ErrFull
		s.up.Answered(a)
		return
	}
	s.last++
	a.Link, a.Seq = s.conn, s.last
	s.own[a.Seq] = a
	s.say(a)
}

func (s *Asks) say(a *provider.Ask) {
	s.conn.SayAsk(a.Seq, a.ID, append(slices.Clone(a.Ticket[:]), a.Word...))
}

// Again repeats the unanswered questions over a new connection.
func (s *Asks) Again() {
	for _, a := range s.sorted() {
		s.say(a)
	}
}

// Forget withdraws a question.
func (s *Asks) Forget(a *provider.Ask) {
	if s.own[a.Seq] == a {
		delete(s.own, a.Seq)
		s.conn.SayForget(a.Seq)
	}
}

// Granted returns the question that the peer has granted, or nil if it was withdrawn.
func (s *Asks) Granted(seq uint32) *provider.Ask {
	a := s.own[seq]
	delete(s.own, seq)
	return a
}

// Denied handles the peer's refusal: number, reason.
func (s *Asks) Denied(r *Reader) {
	seq, why := r.U32(), provider.Reason(r.U8())
	if a := s.own[seq]; a != nil && !r.Bad {
		delete(s.own, seq)
		a.Why = why
		s.up.Answered(a)
	}
}

// Asked handles a question of the peer: number, export, ticket, word.
func (s *Asks) Asked(from provider.Identity, r *Reader) {
	q := &provider.Request{From: from, Seq: r.U32(), ID: r.U32(), Link: s.conn}
	copy(q.Ticket[:], r.Take(len(q.Ticket)))
	q.Word = string(r.B)
	if r.Bad || s.others[q.Seq] != nil || len(q.Word) > provider.MaxWord {
		r.Bad = true
		return
	}
	if s.others[q.Seq] = q; len(s.others) > Most {
		s.Deny(q, provider.ReasonResource)
		return
	}
	s.up.Asked(q)
}

// Withdrawn handles the peer's withdrawal of a question: number.
func (s *Asks) Withdrawn(r *Reader) {
	if q := s.others[r.U32()]; q != nil {
		s.Allowed(q)
		s.up.Withdrawn(q)
	}
}

// Deny refuses a question of the peer.
func (s *Asks) Deny(q *provider.Request, why provider.Reason) {
	if !q.Gone {
		s.Allowed(q)
		s.conn.SayDeny(q.Seq, why)
	}
}

// Allowed records that a question of the peer has been answered.
func (s *Asks) Allowed(q *provider.Request) {
	q.Gone = true
	delete(s.others, q.Seq)
}

// End ends all questions, because the connection has ended.
func (s *Asks) End(why error) {
	own, others := s.sorted(), s.others
	clear(s.own)
	s.others = map[uint32]*provider.Request{}
	for _, a := range own {
		a.Err = why
		s.up.Answered(a)
	}
	for _, q := range others {
		q.Gone = true
		s.up.Withdrawn(q)
	}
}

func (s *Asks) sorted() (asks []*provider.Ask) {
	for _, a := range s.own {
		asks = append(asks, a)
	}
	slices.SortFunc(asks, func(a, b *provider.Ask) int { return int(a.Seq) - int(b.Seq) })
	return asks
}

// Reader decodes a message with big-endian integers. Beyond the end of the message it
// returns zeros, and sets Bad.
type Reader struct {
	B   []byte // what is left
	Bad bool
}

// Take returns the next n bytes.
func (r *Reader) Take(n int) []byte {
	if len(r.B) < n {
		r.Bad, r.B = true, nil
		return make([]byte, n)
	}
	b := r.B[:n]
	r.B = r.B[n:]
	return b
}

// U8 returns the next byte.
func (r *Reader) U8() uint8 { return r.Take(1)[0] }

// U16 returns the next integer of 16 bits.
func (r *Reader) U16() uint16 { return binary.BigEndian.Uint16(r.Take(2)) }

// U32 returns the next integer of 32 bits.
func (r *Reader) U32() uint32 { return binary.BigEndian.Uint32(r.Take(4)) }

// U64 returns the next integer of 64 bits.
func (r *Reader) U64() uint64 { return binary.BigEndian.Uint64(r.Take(8)) }
