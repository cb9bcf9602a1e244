package tun

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// mute is a link that stops sending at some time.
type mute struct {
	transport.Link
	muted atomic.Bool
}

func (l *mute) Send(frames []transport.Frame) (int, error) {
	if l.muted.Load() {
		return len(frames), nil
	}
	return l.Link.Send(frames)
}

// TestRefusedSilent: a station whose streams are refused and that acknowledges nothing does not
// delay others. Streams that wait behind its streams are handled long before their peer gives up.
func TestRefusedSilent(t *testing.T) {
	const streams = 40
	f := newFoe(t)
	var silent *mute
	var host *stream.Host
	err := f.pair.In(1, func() error {
		inner, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name})
		if err != nil {
			return err
		}
		silent = &mute{Link: inner}
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: silent})
		if err != nil {
			inner.Close()
			return err
		}
		t.Cleanup(func() { nic.Close() })
		host, err = stream.Open(t.Context(), &stream.Config{NIC: nic, ReadBuffer: 4 << 10, WriteBuffer: 4 << 10, Linger: time.Millisecond})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	if f.host.NIC().Addr().MAC != host.NIC().Addr().MAC {
		t.Fatal("two stations on one interface")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f.tun.mu.Lock() // the lock makes accept wait when the first stream arrives
	f.tun.quota.from[host.NIC().Addr().MAC] = maxStreams
	for range streams {
		if _, err = (&stream.Dialer{Host: host}).Dial(ctx, f.tun.listener.Addr().String()); err != nil {
			break
		}
	}
	silent.muted.Store(true)
	f.tun.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.await("all refused", func(s Snapshot) bool { return s.Counts.Strangers == streams })
	if took := time.Since(began); took >= searchTime {
		t.Errorf("it took %v to refuse %d streams: a neighbour waits for %v", took, streams, searchTime)
	}
	f.tun.mu.Lock()
	delete(f.tun.quota.from, host.NIC().Addr().MAC)
	f.tun.mu.Unlock()
	f.dial(greeting(addr(9)))
	f.await("a neighbour", func(s Snapshot) bool { return len(s.Neighbours) == 1 })
}
