package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCloseDuringTraffic ends connections from other goroutines in the midst
// of traffic both ways. Every call returns, every descriptor comes back, and
// what was received is intact.
func TestCloseDuringTraffic(t *testing.T) {
	ends := []struct {
		name string
		end  func(v *vipl.VI) error
	}{
		{"Disconnect", func(v *vipl.VI) error { return v.Disconnect() }},
		{"DisconnectTwice", func(v *vipl.VI) error { return all(v.Disconnect, v.Disconnect) }},
		{"Close", func(v *vipl.VI) error { return v.Close() }},
		{"CloseTwice", func(v *vipl.VI) error { return all(v.Close, v.Close) }},
		{"CloseAndDisconnect", func(v *vipl.VI) error {
			return all(v.Close, func() error {
				if err := v.Disconnect(); err != nil && !errors.Is(err, vipl.ErrClosed) {
					return err
				}
				return nil
			})
		}},
		{"CloseNIC", func(v *vipl.VI) error { return all(v.Close, v.NIC().Close, v.NIC().Close) }},
	}
	eachLink(t, func(t *testing.T, _ string, open opener) {
		t.Parallel()
		for _, level := range levels {
			for _, e := range ends {
				t.Run(e.name+"/"+level.String(), func(t *testing.T) {
					nics := open.nics(t, vipl.Config{}, nil)
					rounds := 5
					if e.name == "CloseNIC" {
						rounds = 1
					}
					for range rounds {
						closeInTraffic(t, nics, level, e.end)
					}
				})
			}
		}
	})
}

// closeInTraffic connects VIs, has both flood the other and ends one of them.
func closeInTraffic(t *testing.T, nics [2]*vipl.NIC, level reliability.Level, end func(v *vipl.VI) error) {
	t.Helper()
	a, b := join(t, nics, &vipl.Attributes{Reliability: level})
	defer b.Close()
	var moved atomic.Int64
	within(t, "a call", func() error {
		return all(
			func() error { return babble(a, &moved) }, func() error { return babble(b, &moved) },
			func() error { return listen(a, &moved) }, func() error { return listen(b, &moved) },
			func() error {
				for moved.Load() < 40 && a.State() == vipl.StateConnected {
					nics[0].Poll()
				}
				err := end(a)
				if level == reliability.Unreliable { // whose Disconnect may be lost in the flood
					b.Disconnect()
				}
				return err
			})
	})
}

// over reports whether err is how a call ends when its connection has ended.
func over(err error) bool {
	return errors.Is(err, vipl.ErrDescriptor) || errors.Is(err, vipl.ErrClosed)
}

// babble sends until its VI is no longer connected, and takes every send back.
func babble(v *vipl.VI, moved *atomic.Int64) error {
	out, err := newBuffers(v.NIC(), 8, 3000)
	if err != nil {
		return ignoreClosed(err)
	}
	content(1, 1, out.data(0))
	for i := 0; v.State() == vipl.StateConnected; i++ {
		if i >= 8 { // the oldest, which goes again
			if _, err := v.SendWait(bg); over(err) {
				break
			} else if err != nil {
				return fmt.Errorf("SendWait: %w", err)
			}
		}
		d := &out.descs[i%8]
		d.Segs = []vipl.Segment{{Data: out.data(0), Handle: out.h}}
		if err := v.PostSend(d); err != nil {
			return ignoreClosed(err)
		}
		moved.Add(1)
	}
	return takeAll(v.SendWait)
}

func ignoreClosed(err error) error {
	if errors.Is(err, vipl.ErrClosed) {
		return nil
	}
	return err
}

// takeAll takes what is left on a queue, which must not block any more.
func takeAll(wait func(ctx context.Context) (*vipl.Descriptor, error)) error {
	for {
		if d, err := wait(bg); d == nil {
			if !over(err) {
				return err
			}
			return nil
		}
	}
}

// takeReceives takes what is left of the receives. One that was posted after
// the end stays posted on an idle VI.
func takeReceives(v *vipl.VI) error {
	for {
		if d, err := v.RecvDone(); d == nil {
			if !over(err) && (err != vipl.ErrNotDone || v.State() != vipl.StateIdle) {
				return fmt.Errorf("%v: %w", v.State(), err)
			}
			return nil
		}
	}
}

// listen receives until its VI is no longer connected.
func listen(v *vipl.VI, moved *atomic.Int64) error {
	in, err := newBuffers(v.NIC(), 64, 3000)
	if err != nil {
		return ignoreClosed(err)
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			return ignoreClosed(err)
		}
	}
	for v.State() == vipl.StateConnected {
		d, err := v.RecvWait(bg)
		switch {
		case over(err):
			return takeReceives(v)
		case err != nil:
			return err
		case d.Length != 3000:
			return fmt.Errorf("a message of %d bytes", d.Length)
		}
		if err := check(1, 1, d.Segs[0].Data); err != nil {
			return err
		}
		moved.Add(1)
		if err := v.PostRecv(d); err != nil {
			return ignoreClosed(err)
		}
	}
	return takeReceives(v)
}
