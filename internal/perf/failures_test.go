package perf

import (
	"errors"
	"io/fs"
	"testing"
)

// TestFailures: each cause is said once, with what it has ended, and errors.Is knows all.
func TestFailures(t *testing.T) {
	latency, rate := Case{Stack: "vipl", Test: Latency, Size: 64}, Case{Stack: "vipl", Test: Rate, Size: 64}
	var f failures
	if err := f.err(3); err != nil {
		t.Errorf("nothing has failed: %v", err)
	}
	f.add(latency, fs.ErrExist)
	if got, want := f.err(1).Error(), latency.String()+": file already exists"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.add(rate, fs.ErrExist)
	if got, want := f.err(2).Error(), "none of 2 measurements could be made: file already exists"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.add(latency, fs.ErrClosed)
	err := f.err(3)
	want := latency.String() + "; " + rate.String() + ": file already exists\n" + latency.String() + ": file already closed"
	if err.Error() != want || !errors.Is(err, fs.ErrExist) || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestBothHalves: what both halves say is said once, and what they say otherwise is not lost.
func TestBothHalves(t *testing.T) {
	for _, c := range []struct {
		own, other error
		want       string
	}{
		{fs.ErrExist, &peerError{text: "file already exists"}, "both halves: file already exists"},
		{fs.ErrExist, &peerError{text: "no"}, "file already exists\nperf: the other half: no"},
		{fs.ErrExist, &peerError{text: "perf: the other half: file already exists"}, "file already exists"},
		{nil, &peerError{text: "no"}, "perf: the other half: no"},
		{fs.ErrExist, nil, "file already exists"},
		{fs.ErrExist, errControl, "file already exists\n" + errControl.Error()},
	} {
		if got := bothHalves(c.own, c.other); got.Error() != c.want || c.own != nil && !errors.Is(got, c.own) {
			t.Errorf("%v and %v: %q, want %q", c.own, c.other, got, c.want)
		}
	}
	if err := bothHalves(nil, nil); err != nil {
		t.Error(err)
	}
}
