package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
)

// This file is the part of a daemon that sends requests to other daemons and responds to theirs. Each
// request has its own connection. So there is no state to keep, or to restore after a restart.

// Time limits of requests to other daemons.
const (
	questionTime = 2 * time.Second // one attempt
	askAgain     = 20 * time.Millisecond
	askAgainMax  = 500 * time.Millisecond
	askTime      = 5 * time.Second  // all attempts to verify a ticket
	reportTime   = 30 * time.Second // all attempts to report a death
)

// daemonKey is the advertised name of a node's daemon.
func daemonKey(node ethertype.MAC) string { return "vmmc daemon/" + node.String() }

// segment is the daemon's presence on the segment.
type segment struct {
	nic      *vipl.NIC
	listener *vipl.Listener
	answer   func(asker ethertype.MAC, q *question) (uid uint32, known bool)
	sleep    func(d time.Duration) error // by the NIC's clock; an error ends what is under way
}

func newSegment(nic *vipl.NIC) (*segment, error) {
	l, err := nic.Listen(0)
	if err != nil {
		return nil, err
	}
	if err := nic.Advertise(daemonKey(nic.Addr().MAC), l.Addr()); err != nil {
		l.Close()
		return nil, err
	}
	return &segment{nic: nic, listener: l}, nil
}

func (s *segment) close() {
	s.nic.Withdraw(daemonKey(s.nic.Addr().MAC))
	s.listener.Close()
}

// end returns one end of a question's connection, whose only message is buf.
func (s *segment) end(buf []byte) (vi *vipl.VI, d *vipl.Descriptor, release func(), err error) {
	h, err := s.nic.RegisterMem(buf, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	vi, err = s.nic.CreateVI(&vipl.Attributes{PeerTimeout: questionTime, ConnectTimeout: questionTime, QueueDepth: 1}, nil, nil)
	if err != nil {
		_ = s.nic.DeregisterMem(h)
		return nil, nil, nil, err
	}
	return vi, &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: h}}}, func() {
		vi.Close()
		_ = s.nic.DeregisterMem(h)
	}, nil
}

// ask sends one request to the daemon of a node, and returns the response.
func (s *segment) ask(ctx context.Context, node ethertype.MAC, q *question) (uid uint32, known bool, err error) {
	ctx, cancel := s.nic.WithTimeout(ctx, questionTime)
	defer cancel()
	addr, err := s.nic.Lookup(ctx, daemonKey(node))
	if err == nil && addr.MAC != node {
		err = fmt.Errorf("%v answered in place of the daemon of %v", addr, node)
	}
	if err != nil {
		return 0, false, err
	}
	buf := make([]byte, answerSize)
	vi, d, release, err := s.end(buf)
	if err != nil {
		return 0, false, err
	}
	defer release()
	if err := vi.PostRecv(d); err != nil {
		return 0, false, err
	}
	if err := vi.Connect(ctx, addr, q.bytes()); err != nil {
		return 0, false, err
	}
	if d, err = vi.RecvWait(ctx); err != nil {
		return 0, false, err
	}
	uid, known, ok := parseAnswer(buf[:d.Length])
	if !ok {
		err = fmt.Errorf("the daemon of %v sent a malformed answer of %d bytes", node, d.Length)
	}
	return uid, known, err
}

// persist calls try until it returns true, or until d has passed.
func (s *segment) persist(d time.Duration, try func() bool) bool {
	end := s.nic.Now() + int64(d)
	for delay := askAgain; !try(); delay = min(2*delay, askAgainMax) {
		if s.nic.Now() >= end || s.sleep(delay) != nil {
			return false
		}
	}
	return true
}

// serve responds to requests of other daemons until ctx ends or the segment is closed. add runs a function
// concurrently. It returns false if too many requests of the same node wait.
func (s *segment) serve(ctx context.Context, add func(asker ethertype.MAC, f func()) bool) error {
	for {
		r, err := s.listener.Wait(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, vipl.ErrClosed) {
				return nil
			}
			return err
		}
		if !add(r.Remote().MAC, func() { s.reply(ctx, r) }) {
			_ = r.Reject("too many questions of this node are waiting: retry")
		}
	}
}

// reply responds to one request.
func (s *segment) reply(ctx context.Context, r *vipl.Request) {
	asker := r.Remote().MAC
	q, ok := parseQuestion(r.Data(), asker, s.nic.Addr().MAC)
	if !ok {
		_ = r.Reject("malformed question to a VMMC daemon (build all programs from the same source)")
		return
	}
	uid, known := s.answer(asker, &q)
	vi, d, release, err := s.end(putAnswer(known, uid))
	if err != nil {
		_ = r.Reject(err.Error())
		return
	}
	defer release()
	ctx, cancel := s.nic.WithTimeout(ctx, questionTime)
	defer cancel()
	if r.Accept(ctx, vi) == nil && vi.PostSend(d) == nil {
		_, _ = vi.SendWait(ctx) // if the response is lost, the other daemon retries
	}
}
