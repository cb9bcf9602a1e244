package mapper

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// TestPatience: one answer that came very late does not slow a mapping down for long. No try
// waits longer than the bound of the time-out, and each request that gets no answer at all,
// as most do in a fabric with many empty ports, lets the time-out fall.
func TestPatience(t *testing.T) {
	const least, most = int64(200 * time.Microsecond), int64(50 * time.Millisecond)
	r := requests{window: 1, tries: 3, least: least, most: most}
	now := int64(0)
	ask := func(answer int64) (took int64) {
		start, over := now, false
		r.add(&request{packet: func(int) (route myrinet.Route, m message) { return }, done: func(*message) { over = true }})
		for !over {
			q := r.pop(now)
			if wait := q.deadline - now; wait > most {
				t.Fatalf("try %d waits %v, the bound is %v", q.try, time.Duration(wait), time.Duration(most))
			} else if answer > 0 && answer < wait {
				now += answer
				r.answered(now, &message{request: q.id, kind: q.reply})
				continue
			}
			now = q.deadline
			r.expire(now)
		}
		return now - start
	}
	usual := ask(0)
	for r.timeout() < most {
		ask(r.timeout() - 1)
	}
	asked := 0
	for took := ask(0); took > 2*usual; took = ask(0) {
		if asked++; asked == 40 {
			t.Fatalf("after %d requests without an answer each takes %v, %v before the late answer", asked, time.Duration(took), time.Duration(usual))
		}
	}
	if r.timeout() > 2*least {
		t.Errorf("the time-out is %v, the least is %v", time.Duration(r.timeout()), time.Duration(least))
	}
}
