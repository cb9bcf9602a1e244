package sim

import "github.com/bobnet-go/bobnet/internal/fifo"

// passage is a frame on the way from a station to the switch, or to one of its receivers. It holds
// one reference to the frame.
type passage struct {
	frame    *frame
	from, to *Station // to is nil on the way to the switch
}

// track holds the passages that arrive at one place, in order of arrival. Only the first one is an
// event of the world, so that there are few events even if many frames are in flight.
type track struct {
	queue fifo.Queue[flight]
	land  func(p passage) // called when one arrives
}

// flight is a passage on a track. at and seq are those of its event.
type flight struct {
	at  int64
	seq uint64
	passage
}

// launch puts p on track t. It arrives at the given time, but not before the passage that was
// launched last.
func (w *World) launch(t *track, at int64, p passage) {
	w.seq++
	if t.queue.Len() == 0 {
		w.events.push(event{at, w.seq, t})
	} else {
		at = max(at, t.queue.At(t.queue.Len()-1).at)
	}
	t.queue.Push(flight{at, w.seq, p})
}

// fire lands the first passage. Unlike other actions it removes its event from the calendar itself,
// because usually the next passage's event replaces it.
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
