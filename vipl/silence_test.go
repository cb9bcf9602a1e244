package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestStoppedProcess: a process that was stopped for longer than any peer may be
// silent does not take its peers for dead: it asks them first.
func TestStoppedProcess(t *testing.T) {
	attr := &vipl.Attributes{PeerTimeout: time.Second}
	d := newDuo(t, attr, attr)
	d.run()
	*d.links[0].clock += int64(time.Minute)
	d.na.Poll()
	d.alive()
	d.run()
	d.alive()
}

// TestShorterPeerTimeout: a PeerTimeout that is set on a connection counts from
// then on, not after the time that the former one allows.
func TestShorterPeerTimeout(t *testing.T) {
	const limit = 40 * time.Millisecond
	long := &vipl.Attributes{PeerTimeout: time.Hour}
	d := newDuo(t, long, long)
	d.run()
	a := d.a.Query().Attributes
	a.PeerTimeout = limit
	if err := d.a.SetAttributes(&a); err != nil {
		t.Fatal(err)
	}
	clock := d.links[0].clock
	for end := *clock + int64(2*limit); *clock < end; *clock += int64(time.Millisecond) { // b is silent
		d.na.Poll()
	}
	if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), vipl.ErrUnreachable) {
		t.Errorf("after %v of silence: %v, %v", 2*limit, d.a.State(), d.a.Err())
	}
}
