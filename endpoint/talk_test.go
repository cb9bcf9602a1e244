package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/vipl"
)

// talk is a client that has a server answer requests of all sizes by replies of
// all sizes, one after another, until it is stopped. Each message says which it
// is, and has the content that belongs to that.
type talk struct {
	nodes    [2]*endpoint.Node
	s, c     *party
	handled  map[uint32]int // by request; of the server's goroutine
	answered map[uint32]int // of the client's
	wrong    [2]error
	replies  atomic.Uint64
	leave    atomic.Bool
	stop     context.CancelFunc
	ends     [2]chan error
	asks     chan struct{} // lets the client send some more
	buf      [2][2][]byte  // of each side, to compare with, and to send
}

const (
	talkKinds = 4 // short, medium, bulk in one message, bulk by RDMA
	talkMost  = 12_000
	talkTag   = 0x7a1c_0000_1234_0001
	talkParts = 8 // of a segment, which messages under way do not share
)

// talkSize returns how long the data of a message are.
func talkSize(kind, id uint32) int {
	switch kind % talkKinds {
	case 0:
		return 0
	case 3:
		return endpoint.DefaultMaxMedium + 1 + int(id*97%(talkMost-endpoint.DefaultMaxMedium))
	}
	return int(id * 37 % (endpoint.DefaultMaxMedium + 1))
}

func newTalk(server, client *vipl.NIC) (*talk, error) {
	k := &talk{handled: map[uint32]int{}, answered: map[uint32]int{}, stop: func() {}, asks: make(chan struct{}, talkKinds)}
	for i, nic := range []*vipl.NIC{server, client} {
		n, err := endpoint.Open(context.Background(), &endpoint.Config{NIC: nic, PeerTimeout: time.Hour, MaxConnections: 64, Logger: quiet})
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		k.nodes[i], k.ends[i] = n, make(chan error, 1)
		k.buf[i] = [2][]byte{make([]byte, talkMost+1), make([]byte, talkMost+1)}
	}
	var errs [2]error
	k.s, errs[0] = newParty(k.nodes[0])
	k.c, errs[1] = newParty(k.nodes[1])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, k.close())
	}
	for _, p := range []*party{k.s, k.c} {
		p.ep.SetTag(talkTag)
		p.ep.SetSegment(make([]byte, talkParts*(talkMost+1)))
	}
	k.s.ep.SetHandler(hEcho, k.serve)
	k.c.ep.SetHandler(hReply, k.hear)
	return k, k.c.ep.Map(0, k.s.ep.Name(), talkTag)
}

func (k *talk) close() error {
	k.stop()
	for i := range k.nodes {
		if n := k.nodes[1-i]; n != nil {
			n.Close()
		}
	}
	return nil
}

// part is where bulk data of a message go.
func part(id uint32) uint64 { return uint64(id%talkParts) * (talkMost + 1) }

// want is what a message of a side holds, in memory of the other.
func (k *talk) want(side int, kind, id uint32) []byte {
	return pattern(k.buf[1-side][0][:talkSize(kind, id)], int(id)+side)
}

// content is the same in the side's own memory.
func (k *talk) content(side int, kind, id uint32) []byte {
	return pattern(k.buf[side][1][:talkSize(kind, id)], int(id)+side)
}

// serve handles a request.
func (k *talk) serve(t endpoint.Token, args []uint32, data []byte) {
	if len(args) != 3 || args[2] != ^args[0] {
		k.wrong[0] = fmt.Errorf("the server got arguments %x", args)
		return
	}
	id, kind := args[0], args[1]
	k.handled[id]++
	if !bytes.Equal(data, k.want(1, kind, id)) {
		k.wrong[0] = fmt.Errorf("request %d of kind %d came with %d other bytes", id, kind, len(data))
	}
	kind /= talkKinds
	out := k.content(0, kind, id)
	switch kind {
	case 0:
		t.Reply(hReply, args...)
	case 1:
		t.ReplyMedium(hReply, out, args...)
	default:
		t.ReplyBulk(hReply, out, part(id), args...)
	}
}

// hear handles a reply.
func (k *talk) hear(_ endpoint.Token, args []uint32, data []byte) {
	k.replies.Add(1)
	if len(args) != 3 || args[2] != ^args[0] {
		k.wrong[1] = fmt.Errorf("the client got arguments %x", args)
		return
	}
	id, kind := args[0], args[1]/talkKinds
	k.answered[id]++
	if !bytes.Equal(data, k.want(0, kind, id)) {
		k.wrong[1] = fmt.Errorf("reply %d of kind %d came with %d other bytes", id, kind, len(data))
	}
}

// start lets both sides go, each on a goroutine of its own.
func (k *talk) start() {
	ctx, stop := context.WithCancel(bg)
	k.stop = stop
	go func() {
		for {
			if _, err := k.s.b.WaitPoll(ctx); err != nil {
				k.ends[0] <- err
				return
			}
		}
	}()
	go func() { k.ends[1] <- k.ask() }()
}

// ask sends requests, as many at a time as there are credits.
func (k *talk) ask() error {
	for id := uint32(0); !k.leave.Load(); id++ {
		kind := id % (talkKinds * talkKinds)
		data := k.content(1, kind, id)
		ctx, cancel := k.nodes[1].NIC().WithTimeout(bg, time.Minute)
		var err error
		switch args := []uint32{id, kind, ^id}; kind % talkKinds {
		case 0:
			err = k.c.ep.Request(ctx, 0, hEcho, args...)
		case 1:
			err = k.c.ep.RequestMedium(ctx, 0, hEcho, data, args...)
		default:
			err = k.c.ep.RequestBulk(ctx, 0, hEcho, data, part(id), args...)
		}
		cancel()
		if err == nil && id%talkKinds == talkKinds-1 {
			<-k.asks
			err = k.c.until(k.nodes[1], "replies", func() bool { return k.replies.Load() == uint64(id)+1 })
		}
		if err != nil {
			return fmt.Errorf("request %d: %w", id, err)
		}
	}
	return k.c.until(k.nodes[1], "the last replies", func() bool { return k.replies.Load() == k.nodes[1].Stats().Sent })
}

// goOn lets the client send one request of each size, if it is not behind.
func (k *talk) goOn() {
	select {
	case k.asks <- struct{}{}:
	default:
	}
}

// await waits until so many replies have come.
func (k *talk) await(t *testing.T, replies uint64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); k.replies.Load() < replies; runtime.Gosched() {
		k.goOn()
		select {
		case err := <-k.ends[1]:
			t.Fatal(err)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%d replies, want %d", k.replies.Load(), replies)
		}
	}
}

// finish ends both sides, and wants each request to have been handled once and
// answered once.
func (k *talk) finish() error {
	k.leave.Store(true)
	k.goOn()
	if err := <-k.ends[1]; err != nil {
		return err
	}
	k.stop()
	if err := <-k.ends[0]; !errors.Is(err, context.Canceled) {
		return err
	}
	sent := k.nodes[1].Stats().Sent
	for id := range uint32(sent) {
		if k.handled[id] != 1 || k.answered[id] != 1 {
			return fmt.Errorf("request %d was handled %d times and answered %d times", id, k.handled[id], k.answered[id])
		}
	}
	if n := len(k.s.returned) + len(k.c.returned); n > 0 || len(k.handled) > int(sent) {
		return fmt.Errorf("%d messages came back, %d of %d requests were handled", n, len(k.handled), sent)
	}
	return errors.Join(k.wrong[:]...)
}
