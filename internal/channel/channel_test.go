package channel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

const (
	size     = 64
	sends    = 2
	receives = 4
	messages = 20
)

var bg = context.Background()

// end is one end of a test's connection.
type end struct {
	channel.Channel
	q     *seam.Queue
	recvs [receives]channel.Receive[int] // With is how many messages it has taken
}

func open(nic *vipl.NIC) (e *end, err error) {
	e = &end{}
	if e.q, err = seam.NewQueue(nic, sends+receives, 3); err != nil {
		return e, err
	}
	return e, channel.Open(&e.Channel, &channel.Config{NIC: nic, CQ: e.q.CQ, Context: e, Private: true, Size: size, Sends: sends}, e.recvs[:])
}

// step takes in what has completed, and hands each message to got.
func (e *end) step(got func(text string) error) error {
	done, err := e.q.ReapWait(bg)
	for i := range done {
		c := &done[i]
		if c.VI.Context != e || c.Err != nil {
			return fmt.Errorf("%+v", c)
		}
		if !c.Recv {
			e.Sent()
			continue
		}
		r := c.Descriptor.Context.(*channel.Receive[int])
		r.With++
		if err := got(string(r.Data())); err != nil {
			return err
		}
		if err := e.Repost(&r.Buffer); err != nil {
			return err
		}
	}
	return err
}

// say sends a message when there is room.
func (e *end) say(i int) error {
	for !e.Room() {
		if err := e.step(func(text string) error { return fmt.Errorf("%q has come", text) }); err != nil {
			return err
		}
	}
	return e.Send(copy(e.Next(), fmt.Sprint("message ", i)))
}

// TestChannel: messages arrive in order through fewer buffers than there are messages, and Close gives back
// the tag and all memory.
func TestChannel(t *testing.T) {
	w := sim.New(sim.Options{})
	var addr ethertype.Addr
	run := func(name string, what func(nic *vipl.NIC, e *end) error) {
		station := w.Station(name)
		w.Go(name, func() {
			nic, err := vipl.Open(bg, &vipl.Config{Link: station})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			before := nic.Snapshot()
			e, err := open(nic)
			if err == nil {
				err = what(nic, e)
			}
			e.Close()
			after := nic.Snapshot()
			if err != nil || len(after.VIs) > 0 || after.Regions != before.Regions || e.Busy > sends {
				t.Errorf("%s: %v; %d VIs and %d regions are left, %d sends under way", name, err, len(after.VIs), after.Regions, e.Busy)
			}
		})
	}
	run("receiver", func(nic *vipl.NIC, e *end) error {
		l, err := nic.Listen(0)
		if err != nil {
			return err
		}
		defer l.Close()
		addr = l.Addr()
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		if err := r.Accept(bg, e.VI); err != nil {
			return err
		}
		for n := 0; n < messages; {
			err := e.step(func(text string) error {
				want := fmt.Sprint("message ", n)
				if n++; text != want {
					return fmt.Errorf("%q, want %q", text, want)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i := range e.recvs {
			if e.recvs[i].With != messages/receives {
				return fmt.Errorf("receive %d has taken %d messages", i, e.recvs[i].With)
			}
		}
		_, err = e.q.ReapWait(bg) // until the sender has all acknowledgements, and leaves
		return err
	})
	run("sender", func(_ *vipl.NIC, e *end) error {
		for addr.IsZero() {
			w.Sleep(time.Millisecond)
		}
		if err := e.VI.Connect(bg, addr, nil); err != nil {
			return err
		}
		if !e.Connected() {
			return errors.New("it is not connected")
		}
		for i := range messages {
			if err := e.say(i); err != nil {
				return err
			}
		}
		for e.Busy > 0 {
			if err := e.step(func(string) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestClosed: a channel that was never opened, or could not be, has nothing to close.
func TestClosed(t *testing.T) {
	var c channel.Channel
	if c.Room() || c.Connected() {
		t.Error("it has room or a connection")
	}
	c.Disconnect()
	c.Close()
}
