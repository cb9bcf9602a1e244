package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// turns is the link of a server whose NIC several goroutines poll. While the
// server takes in a client each poll lasts so long that the NIC's lock goes from
// one who waits for it to the next, and the frame that ends the handshake comes so
// many polls after the answer to the request.
type turns struct {
	transport.Link
	after    atomic.Int32 // polls
	long     bool
	answered bool
	polls    int32 // since then
}

// turnLength is longer than the mutex lets a goroutine wait before it goes round.
const turnLength = 1_200_000 // ns

func (l *turns) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		l.answered = l.answered || ethertype.Kind(frames[i].Head[atKind]) == ethertype.KindAccept
	}
	return l.Link.Send(frames)
}

func (l *turns) Recv(views [][]byte) (int, error) {
	for end := l.Now() + turnLength; l.long && l.Now() < end; {
		runtime.Gosched()
	}
	if l.answered {
		if l.polls++; l.polls < l.after.Load() {
			return 0, nil
		}
		l.long, l.answered, l.polls = false, false, 0
	}
	n, err := l.Link.Recv(views)
	for _, f := range views[:n] {
		l.long = l.long || ethertype.Kind(f[atKind]) == ethertype.KindRequest
	}
	return n, err
}

// TestConnectedBetweenLooks: a connection stands, whoever drives the NIC when its
// handshake ends: other goroutines do while the server looks how far it is.
func TestConnectedBetweenLooks(t *testing.T) {
	var link *turns
	nics := linkNICs(t, "shm", func(side int, l transport.Link) transport.Link {
		if side == 1 {
			return l
		}
		link = &turns{Link: l}
		return link
	})
	k, err := newTalk(nics[0], nics[1])
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	ctx, stop := context.WithTimeout(bg, time.Minute)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		for ctx.Err() == nil {
			k.s.b.WaitPoll(ctx)
		}
	})
	for range 2 {
		l, err := nics[0].Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { pollUntil(ctx, l) })
	}
	for i := range uint32(12) {
		link.after.Store(1 + int32(i)%6)
		if err := k.anew(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
}

// pollUntil polls a NIC by a listener that nobody knows of.
func pollUntil(ctx context.Context, l *vipl.Listener) {
	for ctx.Err() == nil {
		l.Poll()
	}
}

// anew has a request answered over a new connection.
func (k *talk) anew(ctx context.Context, id uint32) error {
	c := k.c
	if err := errors.Join(c.ep.Unmap(0), c.ep.Map(0, k.s.ep.Name(), talkTag)); err != nil {
		return err
	}
	if err := c.ep.Request(ctx, 0, hEcho, id, 0, ^id); err != nil {
		return err
	}
	err := c.until(k.nodes[1], "the reply", func() bool { return k.answered[id] > 0 || len(c.returned) > 0 })
	if err == nil && len(c.returned) > 0 {
		err = fmt.Errorf("request %d came back for %v: %w", id, c.returned[0].Reason, c.returned[0].Err)
	}
	return err
}
