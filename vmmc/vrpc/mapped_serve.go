package vrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bobnet-go/bobnet/vmmc"
)

// mappedServer answers the calls of one client over VMMC.
type mappedServer struct {
	*mapped
	server *Server
	ctx    context.Context
	cancel context.CancelFunc
	idle   chan *mappedWorker
	group  sync.WaitGroup

	alarm  *alarm // of what is read
	unread *alarm // of a reply that has no room; the writer's
	// What sending asks for, made once.
	crowd    func()
	crowded  func() bool
	patience func() error
}

// mappedWorker carries out one call at a time.
type mappedWorker struct {
	session *Session
	call    []byte // of several that are carried out at once
	reply   []byte
	post    *parcel
}

func newMappedServer(ctx context.Context, s *Server, m *mapped, from vmmc.Peer) *mappedServer {
	v := &mappedServer{mapped: m, server: s, idle: make(chan *mappedWorker, s.cfg.Parallel)}
	v.ctx, v.cancel = context.WithCancel(ctx)
	peer := Peer{Netid: "vmmc", Name: fmt.Sprintf("%v/%d", from.Node, from.Process)}
	for range s.cfg.Parallel {
		w := &mappedWorker{session: s.NewSession(v.ctx, peer, s.cfg.MaxMessage), post: new(parcel)}
		w.session.refers = true
		v.idle <- w
	}
	v.alarm, v.unread = newAlarm(m.proc), newAlarm(m.proc)
	v.crowd = func() { v.unread.set(s.cfg.RecordTimeout) }
	v.crowded = v.unread.over.Load
	v.patience = func() error {
		if v.unread.late() {
			return errSilent
		}
		return nil
	}
	return v
}

// watch has v look whether its context has ended, when it does. A wait that may end with a
// context takes memory each time; this way there is none.
func (v *mappedServer) watch() (stop func() bool) {
	return context.AfterFunc(v.ctx, v.proc.Wake)
}

func (v *mappedServer) stirred() bool {
	return v.in.ready() || v.alarm.over.Load() || v.ctx.Err() != nil
}

// serve answers calls until the first error.
func (v *mappedServer) serve() error {
	defer v.alarm.stop()
	defer v.watch()()
	stirred := v.stirred // one for all calls
	for {
		w := <-v.idle
		msg, t, err := v.next(stirred)
		if err != nil {
			return err
		}
		if v.server.cfg.Parallel > 1 {
			w.call = append(w.call[:0], msg...)
			v.give(t)
			v.group.Go(func() { v.aside(w) })
			continue
		}
		if err := v.answer(w, msg, t); err != nil {
			return err
		}
		v.idle <- w
	}
}

// taken is the memory of a call.
type taken struct {
	ticket uint64
	inRing bool // it is this record's, else what pieces are copied to
	given  bool // it is neither
}

// next waits for a call, each in its time.
func (v *mappedServer) next(stirred func() bool) (msg []byte, t taken, err error) {
	v.alarm.set(v.server.cfg.IdleTimeout)
	for begun := false; ; {
		msg, t, some, err := v.look()
		switch {
		case err != nil || msg != nil:
			return msg, t, err
		case some:
			if err := v.acknowledge(v.ctx); err != nil {
				return nil, t, err
			}
			if !begun {
				begun = true
				v.alarm.set(v.server.cfg.RecordTimeout)
			}
		case v.alarm.late():
			return nil, t, errSilent
		default:
			if err := v.to.Await(context.Background(), stirred); err != nil {
				return nil, t, err
			}
			if err := v.ctx.Err(); err != nil {
				return nil, t, err
			}
		}
	}
}

// look takes a record. It returns the call that is whole with it, and else whether there
// was any.
func (v *mappedServer) look() (msg []byte, t taken, some bool, err error) {
	v.reading.Lock()
	defer v.reading.Unlock()
	rec, ticket, ok, err := v.receive()
	if err != nil || !ok {
		return nil, t, false, err
	}
	msg, inRing, _, err := v.piece(rec, ticket, v.server.cfg.MaxMessage)
	return msg, taken{ticket: ticket, inRing: inRing}, true, err
}

// give gives the memory of a call back.
func (v *mappedServer) give(t taken) {
	if t.given {
		return
	}
	v.reading.Lock()
	defer v.reading.Unlock()
	if t.inRing {
		v.free(t.ticket)
		if cap(v.partial) > keepBuffer && len(v.partial) == 0 {
			v.partial = nil // no call was so long after one that was
		}
	}
}

// answer carries out a call and sends the reply.
func (v *mappedServer) answer(w *mappedWorker, msg []byte, t taken) (err error) {
	if err := w.post.waitSent(context.Background(), v.proc); err != nil {
		return err
	}
	if cap(w.reply) > keepBuffer && len(w.reply) <= keepBuffer {
		w.reply = nil
	}
	defer w.session.sent()
	w.reply, err = w.session.answer(msg, w.reply[:0])
	kept := w.session.keeps(len(msg))
	if !kept {
		v.give(t)
	}
	if err == nil {
		err = v.ctx.Err() // the connection has ended meanwhile
	}
	if err != nil {
		return err
	}
	if len(w.reply) == 0 {
		return v.acknowledge(v.ctx)
	}
	if err := v.reply(w); err != nil || !kept {
		return err
	}
	if err := w.post.waitSent(context.Background(), v.proc); err != nil {
		return err
	}
	v.give(t)
	return v.acknowledge(v.ctx) // the reply could not say it
}

// reply sends what w has answered.
func (v *mappedServer) reply(w *mappedWorker) (err error) {
	v.writing <- struct{}{}
	defer func() { <-v.writing }()
	s := sending{post: w.post, wait: v.crowd, pause: v.crowded, look: v.patience}
	defer v.unread.stop()
	w.reply, err = v.send(v.ctx, w.reply, 0, w.session.call.enc.Refs(), &s)
	return err
}

// aside is answer on a goroutine of its own. Whatever ends that but a return ends the
// connection, as it does where calls are carried out in turn.
func (v *mappedServer) aside(w *mappedWorker) {
	ended := true
	defer func() {
		if ended {
			v.cancel()
		}
		v.idle <- w
	}()
	err := v.answer(w, w.call, taken{given: true})
	v.count(err)
	ended = err != nil
}

// count counts why a connection ends.
func (v *mappedServer) count(err error) {
	switch {
	case errors.Is(err, errSilent):
		v.server.stats.ConnsTimedOut.Add(1)
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, vmmc.ErrClosed), v.to.Done() != nil: // the client has gone
	default:
		v.server.stats.ConnsBroken.Add(1)
	}
}
