package sim

import "github.com/bobnet-go/bobnet/internal/fifo"

// passage is a frame on its way from a station to the switch, or to one of
// its receivers. It holds one reference to the frame.
type passage struct {
	frame    *frame
	from, to *Station // to is nil on the way to the switch
}

// track is the passages that arrive at one place, in the order of their
// arrival. Only the first of them is among the world's events, which so
// stay few however many frames are under way.
type track struct {
	queue fifo.Queue[flight]
	land  func(p passage) // called when one has arrived
}

// flight is a passage on a track. The numbers are those of event.
type flight struct {
	at  int64
	seq uint64
	passage
}

// launch puts p on the track t, to arrive at the given time, but not before
// the one that was launched last.
func (w *World) launch(t *track, at int64, p passage) {
	w.seq++
	if t.queue.Len() == 0 {
		w.events.push(event{at, w.seq, t})
	} else {
		at = max(at, t.queue.At(t.queue.Len()-1).at)
	}
	t.queue.Push(flight{at, w.seq, p})
}

// fire lands the first passage. Unlike other actions it takes its event off
// the calendar itself, because mostly the next one's takes its place.
func (t *track) fire(w *World) {
	p := t.queue.Pop().passage
	if t.queue.Len() > 0 {
		next := t.queue.At(0)
		w.events.replace(event{next.at, next.seq, t})
	} else {
		w.events.pop()
	}
	t.land(p)
}
