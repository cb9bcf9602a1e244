package sim

import (
	"math"
	"slices"
)

// calendar is the queue of future events. A few events are kept in a heap. If there are many, the
// heap holds only those of the near future. Later events are unsorted, in one list per day (a time
// slice), and events after the last day in another heap. An event thus costs the same however many
// there are. The length of a day adapts to the density of events.
type calendar struct {
	near    eventHeap    // all events, or those before horizon
	width   int64        // length of a day in nanoseconds; 0 while all events are in near
	horizon int64        // start of the first day
	first   int          // index of the first day
	days    [nDays]int32 // the last note of each day, 0 for none
	later   int          // number of events in days
	far     eventHeap    // events after the last day
	made    int64        // time of the earliest event when the days were last rebuilt
	left    int          // events in near at that time
	gone    int          // events removed since that time

	notes []note // of all days; note 0 is unused
	free  int32  // first free note; the free notes are a list that ends with 0
}

// note is an event in a day. The notes of a day form a ring.
type note struct {
	event
	next int32
}

const (
	nDays    = 256
	crowd    = 64      // number of events in near above which days are created
	few      = 24      // total number of events below which days are dissolved
	perDay   = 8       // desired number of events in a day
	maxWidth = 1 << 40 // nanoseconds

	again = 4096 // events removed, at least, before days are rebuilt
)

func (c *calendar) len() int { return len(c.near) + c.later + len(c.far) }

// push adds an event.
func (c *calendar) push(e event) {
	if c.width != 0 && e.at >= c.horizon {
		c.put(e)
		return
	}
	c.near.push(e)
	if len(c.near) > max(crowd, 2*c.left) {
		c.spread()
	}
}

// earliest returns the earliest event. The calendar must not be empty. The pointer is valid until
// the next push or pop.
func (c *calendar) earliest() *event {
	if len(c.near) == 0 {
		c.refill()
	}
	return &c.near[0]
}

// pop removes the earliest event.
func (c *calendar) pop() {
	c.gone++
	c.near.pop()
}

// replace replaces the earliest event by e.
func (c *calendar) replace(e event) {
	c.gone++
	if c.width == 0 || e.at < c.horizon {
		c.near.replace(e)
		return
	}
	c.near.pop()
	c.put(e)
}

// put adds an event at or after horizon.
func (c *calendar) put(e event) {
	n := (e.at - c.horizon) / c.width
	if n >= nDays {
		c.far.push(e)
		return
	}
	i := c.free
	if i == 0 {
		if len(c.notes) == 0 {
			c.notes = append(c.notes, note{}) // note 0 is unused
		}
		i = int32(len(c.notes))
		c.notes = append(c.notes, note{})
	} else {
		c.free = c.notes[i].next
	}
	last := &c.days[(c.first+int(n))%nDays]
	if *last == 0 {
		c.notes[i] = note{e, i}
	} else {
		c.notes[i] = note{e, c.notes[*last].next}
		c.notes[*last].next = i
	}
	*last = i
	c.later++
}

// loadDay moves the events of a day to near.
func (c *calendar) loadDay(last *int32) {
	if *last == 0 {
		return
	}
	i := c.notes[*last].next
	c.notes[*last].next = 0
	for *last = 0; i != 0; {
		n := &c.notes[i]
		c.near.push(n.event)
		after := n.next
		*n = note{next: c.free}
		c.free, i = i, after
		c.later--
	}
}

// refill moves the events of the next non-empty day to near, which is empty.
func (c *calendar) refill() {
	for len(c.near) == 0 {
		if c.later+len(c.far) <= few {
			c.gather()
			return
		}
		if c.gone > again && c.gone > again/few*c.len() {
			c.spread()
			continue
		}
		if c.later == 0 {
			c.horizon = c.far[0].at
			c.come()
		}
		c.loadDay(&c.days[c.first])
		c.first = (c.first + 1) % nDays
		c.horizon += min(c.width, math.MaxInt64-c.horizon)
		c.come()
	}
}

// come moves events from far to their days, as far as days now include them.
func (c *calendar) come() {
	for len(c.far) > 0 && (c.far[0].at-c.horizon)/c.width < nDays {
		e := c.far[0]
		c.far.pop()
		c.put(e)
	}
}

// gather moves all events to near.
func (c *calendar) gather() {
	for i := range c.days {
		for n, last := c.days[i], c.days[i]; last != 0; {
			n = c.notes[n].next
			c.near = append(c.near, c.notes[n].event)
			if n == last {
				break
			}
		}
		c.days[i] = 0
	}
	clear(c.notes)
	c.notes, c.free, c.later = c.notes[:0], 0, 0
	c.near = append(c.near, c.far...)
	clear(c.far)
	slices.SortFunc(c.near, event.compare) // a sorted list is a heap
	c.far, c.width, c.left = c.far[:0], 0, 0
}

// spread creates the days. Their length is such that each of the next days has a few events, at the
// recent rate or at the density of the events present.
func (c *calendar) spread() {
	c.gather()
	all := c.near
	first, half := all[0].at, len(all)/2
	if c.gone > crowd/2 && c.made != 0 {
		c.width = (first - c.made) / int64(c.gone) * perDay
	} else {
		c.width = (all[half].at - first) / int64(half) * perDay
	}
	c.width = min(max(c.width, 1), maxWidth)
	c.gone, c.made = 0, first
	c.horizon, c.first = first+min(c.width, math.MaxInt64-first), 0
	n := 0
	for n < len(all) && all[n].at < c.horizon {
		n++
	}
	for _, e := range all[n:] {
		c.put(e)
	}
	clear(all[n:])
	c.near = all[:n]
	c.left = n
}
