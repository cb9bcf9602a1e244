package perf

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestBounce(t *testing.T) {
	b := new(bouncer)
	deadline := time.Now().Add(time.Minute)
	go b.answer(deadline)
	if got := b.bounce(deadline); got <= 0 {
		t.Errorf("a bounce took %g ns", got)
	}
	if got := b.pong.Load(); got != lineBatches*lineBounces {
		t.Errorf("the line came back %d times, want %d", got, lineBatches*lineBounces)
	}
}

func TestBounceGivesUp(t *testing.T) {
	if got := new(bouncer).bounce(time.Now()); got != 0 {
		t.Errorf("%g ns although nobody answered", got)
	}
}

func TestLineTimeLeavesAffinity(t *testing.T) {
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	LineTime()
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("affinity %v (%v), was %v", after, err, before)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 3}} {
		if got := median(tt.v); got != tt.want {
			t.Errorf("median of %v = %g, want %g", tt.v, got, tt.want)
		}
	}
}
