// Package untaken limits the messages for a program that the program has not read. One sender, or
// one station with many senders, can use only its own part of the limit.
package untaken

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
)

const (
	// Own is the number of bytes that each sender except strangers may always have.
	Own = 2 << 10

	stationPart = 2 // one station may have 1/stationPart of the remaining room
	senderPart  = 2 // one sender may have 1/senderPart of the remaining room of its station
)

// Account counts the messages and notifications for a program until the program has read them. It
// drops nothing itself. Goroutines must not share an Account.
type Account struct {
	Most     int // maximum bytes of messages, in addition to Own for each sender that is not a stranger
	Notes    int // maximum number of notifications, in addition to OwnNotes for each sender
	OwnNotes int // notifications that each sender may always have; it may have twice as many while there is room for its station

	bytes, notes int
	more         int // notifications beside OwnNotes of each sender
	by           map[ethertype.Addr]portion
	stations     map[ethertype.MAC]part
	order        fifo.Queue[charge]
}

// part is the part of the senders of one station.
type part struct{ bytes, more int }

// portion is the part of one sender.
type portion struct {
	bytes, notes int
	end          bool // the sender's last message is among them
}

// charge is a counted message, or a notification if bytes is 0.
type charge struct {
	from  ethertype.Addr
	bytes int
}

// Message counts a message if there is room for it. Strangers may have half of the room.
func (a *Account) Message(from ethertype.Addr, bytes int, stranger bool) bool {
	room := a.Most - a.bytes
	if stranger {
		room -= a.Most / 2
	}
	x := a.by[from]
	own, others := x.bytes+bytes, a.stations[from.MAC].bytes-x.bytes
	if !fits(own, others, room) && (stranger || own > Own) {
		return false
	}
	x.end = false
	a.add(x, charge{from, bytes})
	return true
}

// fits reports whether one sender may have own of the room that is left, where the other senders of its station
// have others.
func fits(own, others, room int) bool { return own <= (room/stationPart-others)/senderPart }

// End counts the last message of a sender, once. There is always room for it.
func (a *Account) End(from ethertype.Addr, bytes int) bool {
	x := a.by[from]
	if x.end {
		return false
	}
	x.end = true
	a.add(x, charge{from, bytes})
	return true
}

// Note counts a notification if there is room for it.
func (a *Account) Note(from ethertype.Addr) bool {
	x := a.by[from]
	own, others := a.moreOf(x)+1, a.stations[from.MAC].more-a.moreOf(x)
	if x.notes >= 2*a.OwnNotes || x.notes >= a.OwnNotes && !fits(own, others, a.Notes-a.more) {
		return false
	}
	a.add(x, charge{from: from})
	return true
}

// moreOf returns how many notifications of a sender use up the part of its station.
func (a *Account) moreOf(x portion) int { return max(x.notes-a.OwnNotes, 0) }

func (a *Account) add(x portion, c charge) {
	if a.by == nil {
		a.by, a.stations = map[ethertype.Addr]portion{}, map[ethertype.MAC]part{}
	}
	a.change(x, c, 1)
	a.order.Push(c)
}

// change adds a charge to a portion, or removes it if by is -1.
func (a *Account) change(x portion, c charge, by int) {
	at := a.stations[c.from.MAC]
	if c.bytes == 0 {
		more := -a.moreOf(x)
		x.notes += by
		a.notes += by
		more += a.moreOf(x)
		at.more += more
		a.more += more
	}
	x.bytes += by * c.bytes
	at.bytes += by * c.bytes
	a.bytes += by * c.bytes
	if a.by[c.from] = x; x.bytes+x.notes == 0 {
		delete(a.by, c.from)
	}
	if a.stations[c.from.MAC] = at; at == (part{}) {
		delete(a.stations, c.from.MAC)
	}
}

// Took records that the program has read the oldest n.
func (a *Account) Took(n int) {
	for ; n > 0 && a.order.Len() > 0; n-- {
		c := a.order.Pop()
		a.change(a.by[c.from], c, -1)
	}
}

// Has reports whether there are messages of a sender that the program has not read.
func (a *Account) Has(from ethertype.Addr) bool { return a.by[from].bytes > 0 }
