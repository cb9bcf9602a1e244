package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bobnet-go/bobnet/vipl"
)

// server is what the handlers share.
type server struct {
	nic      *vipl.NIC
	cq       *vipl.CQ // of all clients' queues
	listener *vipl.Listener
	clients  int // that have not gone yet
	out      io.Writer
	err      error // the first thing that went wrong
}

// conn is one client; it is the Context of its VI.
type conn struct {
	messages int
	sum      uint64
}

// serve serves the given number of clients and returns when they have gone.
func serve(ctx context.Context, nic *vipl.NIC, name string, clients int, out io.Writer) error {
	s := &server{nic: nic, clients: clients, out: out}
	var err error
	if s.cq, err = nic.CreateCQ(4 * depth * clients); err != nil { // large enough for all, so it never overflows
		return err
	}
	if s.listener, err = nic.Listen(0); err != nil {
		return err
	}
	nic.SetErrorHandler(s.failed)
	if err := s.cq.Notify(s.completed); err != nil {
		return err
	}
	if err := nic.Advertise(name, s.listener.Addr()); err != nil {
		return err
	}
	for {
		request, err := s.listener.Wait(ctx)
		if errors.Is(err, vipl.ErrClosed) { // by s.failed, when the last client has gone
			return s.err
		}
		if err == nil {
			err = s.accept(request)
		}
		if err != nil {
			return err
		}
	}
}

// accept makes a VI for a client. Its receives are posted before it is
// connected, so that none of the client's messages comes too early.
func (s *server) accept(request *vipl.Request) error {
	vi, err := s.nic.CreateVI(nil, s.cq, s.cq)
	if err != nil {
		return err
	}
	vi.Context = &conn{}
	in, err := slots(s.nic, 2*depth) // half of them while replies are under way
	if err != nil {
		return err
	}
	replies, err := slots(s.nic, 2*depth)
	if err != nil {
		return err
	}
	for i, d := range in {
		d.Context, replies[i].Context = replies[i], d // they take turns
		if err := vi.PostRecv(d); err != nil {
			return err
		}
	}
	return request.AcceptStart(vi)
}

// completed is called with each completion: a number has come, or a reply has
// been delivered. Then the descriptor that belongs to it has its turn.
func (s *server) completed(vi *vipl.VI, recv bool) {
	var d *vipl.Descriptor
	var err error
	if recv {
		if d, err = vi.RecvDone(); err == nil {
			c := vi.Context.(*conn)
			c.messages++
			c.sum += binary.BigEndian.Uint64(d.Segs[0].Data)
			reply := d.Context.(*vipl.Descriptor)
			binary.BigEndian.PutUint64(reply.Segs[0].Data, c.sum)
			err = vi.PostSend(reply)
		}
	} else if d, err = vi.SendDone(); err == nil {
		err = vi.PostRecv(d.Context.(*vipl.Descriptor))
	}
	if vi.State() != vipl.StateConnected {
		err = nil // flushed: failed is told why
	}
	s.note(err)
	s.note(s.cq.Notify(s.completed)) // a handler is called once
}

// failed is called with what no call returns; here, that a client has gone.
func (s *server) failed(e vipl.AsyncError) {
	if e.Code != vipl.CodeConnLost {
		s.note(e)
		return
	}
	c := e.VI.Context.(*conn)
	fmt.Fprintf(s.out, "client at %v: %d numbers, their sum is %d\n", e.VI.Remote(), c.messages, c.sum)
	if !errors.Is(e, vipl.ErrDisconnected) { // its matter, not the server's
		fmt.Fprintf(s.out, "client at %v has not said goodbye: %v\n", e.VI.Remote(), e.Err)
	}
	s.note(e.VI.Close())
	if s.clients--; s.clients == 0 {
		s.note(s.listener.Close())
	}
}

func (s *server) note(err error) {
	if s.err == nil {
		s.err = err
	}
}
