package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bobnet-go/bobnet/vipl"
)

// server is the shared state of the handlers.
type server struct {
	nic      *vipl.NIC
	cq       *vipl.CQ // of all clients' queues
	listener *vipl.Listener
	clients  int // that have not left yet
	out      io.Writer
	err      error // the first failure
}

// conn is one client. It is the Context of its VI.
type conn struct {
	messages int
	sum      uint64
}

// serve serves the given number of clients and returns when they have gone.
func serve(ctx context.Context, nic *vipl.NIC, name string, clients int, out io.Writer) error {
	s := &server{nic: nic, clients: clients, out: out}
	var err error
	if s.cq, err = nic.CreateCQ(4 * depth * clients); err != nil { // large enough that it never overflows
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
		if errors.Is(err, vipl.ErrClosed) { // by s.failed, after the last client has left
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

// accept creates a VI for a client. It posts the VI's receives before it connects the VI, so that
// no message of the client arrives too early.
func (s *server) accept(request *vipl.Request) error {
	vi, err := s.nic.CreateVI(nil, s.cq, s.cq)
	if err != nil {
		return err
	}
	vi.Context = &conn{}
	in, err := slots(s.nic, 2*depth) // half of them are in use while replies are in flight
	if err != nil {
		return err
	}
	replies, err := slots(s.nic, 2*depth)
	if err != nil {
		return err
	}
	for i, d := range in {
		d.Context, replies[i].Context = replies[i], d // each is used after the other
		if err := vi.PostRecv(d); err != nil {
			return err
		}
	}
	return request.AcceptStart(vi)
}

// completed is called with each completion: a number has arrived, or a reply has been delivered. It
// then posts the other descriptor of the pair.
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
		err = nil // flushed: failed gets the cause
	}
	s.note(err)
	s.note(s.cq.Notify(s.completed)) // a handler is called once
}

// failed is called with asynchronous errors; here, a client that has left.
func (s *server) failed(e vipl.AsyncError) {
	if e.Code != vipl.CodeConnLost {
		s.note(e)
		return
	}
	c := e.VI.Context.(*conn)
	fmt.Fprintf(s.out, "client at %v: %d numbers, their sum is %d\n", e.VI.Remote(), c.messages, c.sum)
	if !errors.Is(e, vipl.ErrDisconnected) { // a failure of the client, not of the server
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
