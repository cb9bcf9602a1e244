package sim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCalendar compares the calendar with a heap, for events that are close, far away,
// at one time, few and many.
func TestCalendar(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 3))
	days := 0
	for range 60 {
		var c calendar
		var h eventHeap
		now, n := int64(0), uint64(0)
		next := func(spread int64) event {
			n++
			at := now + rng.Int64N(spread)
			switch rng.IntN(50) {
			case 0:
				at = now + rng.Int64N(1e9)
			case 1:
				at = math.MaxInt64 - rng.Int64N(3)
			}
			return event{at: at, seq: n}
		}
		spread, want := int64(1+rng.IntN(10000)), 1+rng.IntN(400)
		for range 3000 {
			if rng.IntN(200) == 0 {
				spread, want = 1<<rng.IntN(40), rng.IntN(400)
			}
			if c.width != 0 {
				days++
			}
			switch {
			case len(h) > 0 && len(h) >= want:
				if *c.earliest() != h[0] {
					t.Fatalf("it has %v, want %v", *c.earliest(), h[0])
				}
				now = min(h[0].at, math.MaxInt64/2)
				if rng.IntN(3) == 0 {
					e := next(spread)
					c.replace(e)
					h.replace(e)
				} else {
					c.pop()
					h.pop()
				}
			default:
				e := next(spread)
				c.push(e)
				h.push(e)
			}
			if c.len() != len(h) {
				t.Fatalf("it has %d events, want %d", c.len(), len(h))
			}
		}
		for len(h) > 0 {
			if *c.earliest() != h[0] {
				t.Fatalf("it has %v, want %v", *c.earliest(), h[0])
			}
			c.pop()
			h.pop()
		}
		if c.len() != 0 {
			t.Fatalf("%d events are left", c.len())
		}
	}
	if days == 0 {
		t.Error("there never were days")
	}
}

// hold pops an event and pushes another one, again and again, with so many in the
// calendar.
func hold(c *calendar, rng *rand.Rand, events, n int) {
	for len := c.len(); len < events; len++ {
		c.push(event{at: rng.Int64N(100_000), seq: uint64(len)})
	}
	for i := range n {
		at := c.earliest().at
		c.pop()
		c.push(event{at: at + rng.Int64N(100_000), seq: uint64(i)})
	}
}

// TestCalendarAllocates: nothing, once it has had as many events.
func TestCalendarAllocates(t *testing.T) {
	var c calendar
	rng := rand.New(rand.NewPCG(1, 4))
	hold(&c, rng, 1000, 20000)
	if n := testing.AllocsPerRun(5, func() { hold(&c, rng, 1000, 10000) }); n > 2 { // near may meet a new maximum
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkHold is the cost of an event by how many there are.
func BenchmarkHold(b *testing.B) {
	for _, events := range []int{10, 100, 1000, 10000} {
		b.Run("", func(b *testing.B) {
			var c calendar
			rng := rand.New(rand.NewPCG(1, 4))
			hold(&c, rng, events, events)
			b.ResetTimer()
			hold(&c, rng, events, b.N)
		})
	}
}
