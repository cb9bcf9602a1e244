package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// datagramClient is the Transport over UDP: a call is repeated, with the same transaction
// id, until its reply comes.
type datagramClient struct {
	conn            net.Conn
	addr            string
	retry, maxRetry time.Duration
	calls           *pending
	reader          sync.WaitGroup
	clientStats
}

func newDatagramClient(conn net.Conn, cfg *ClientConfig) *datagramClient {
	t := &datagramClient{
		conn: conn, addr: conn.RemoteAddr().String(), calls: newPending(),
		retry:    cmp.Or(cfg.Retry, defaultRetry),
		maxRetry: cmp.Or(cfg.MaxRetry, defaultMaxRetry),
	}
	t.reader.Go(t.read)
	return t
}

// RoundTrip sends the call and repeats it.
func (t *datagramClient) RoundTrip(ctx context.Context, x *Exchange) error {
	if len(x.Message) > maxDatagram {
		return fmt.Errorf("%w: a call of %d octets, %d fit into a datagram: call over TCP", ErrTooLarge, len(x.Message), maxDatagram)
	}
	if err := t.calls.add(x); err != nil {
		return err
	}
	sent := 0
	for wait := t.retry; ; wait = nextRetry(wait, t.maxRetry) {
		if err := t.send(x.Message, sent > 0); err != nil {
			return t.calls.outcome(x, err)
		}
		if sent++; sent > 1 {
			t.Repeated.Add(1)
		}
		left := x.left()
		done, err := x.await(ctx, shorter(wait, left))
		switch {
		case done:
			return err
		case err != ErrTimeout:
			return t.calls.outcome(x, err)
		case left >= 0 && left <= wait:
			err = fmt.Errorf("%w from udp %s; sent %d times", ErrTimeout, t.addr, sent)
			return t.calls.outcome(x, err)
		}
	}
}

// nextRetry returns how long to wait after the next repetition.
func nextRetry(wait, most time.Duration) time.Duration { return min(2*wait, most) }

// shorter returns the shorter of two times to wait, of which left may be negative: for ever.
func shorter(wait, left time.Duration) time.Duration {
	if left < 0 {
		return wait
	}
	return min(wait, left)
}

// send sends a datagram. That the server's host has refused an earlier one is told here,
// too; the calls that this concerns have heard it from the reader, or will be repeated.
func (t *datagramClient) send(msg []byte, repeated bool) error {
	_, err := t.conn.Write(msg)
	if err != nil && refused(err) {
		_, err = t.conn.Write(msg)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return ErrClosed
	}
	return &TransportError{Addr: t.addr, Sent: repeated, Err: err}
}

// Send sends a call once.
func (t *datagramClient) Send(_ context.Context, x *Exchange) error {
	if len(x.Message) > maxDatagram {
		return fmt.Errorf("%w: a call of %d octets, %d fit into a datagram", ErrTooLarge, len(x.Message), maxDatagram)
	}
	return t.send(x.Message, false)
}

// Release has nothing to do: the reply is in the exchange's own memory.
func (t *datagramClient) Release(*Exchange) {}

// RemoteAddr returns where the server is.
func (t *datagramClient) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// Close ends all calls.
func (t *datagramClient) Close() error {
	t.calls.fail(ErrClosed, true)
	err := t.conn.Close()
	t.reader.Wait()
	if errors.Is(err, net.ErrClosed) {
		return ErrClosed
	}
	return err
}

// read hands replies to the calls that wait for them.
func (t *datagramClient) read() {
	buf := make([]byte, maxDatagram+1)
	for {
		n, err := t.conn.Read(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			t.calls.fail(&TransportError{Addr: t.addr, Sent: true, Err: err}, false)
			if !refused(err) {
				pause(context.Background())
			}
			continue
		}
		xid, ok := messageXID(buf[:n], msgReply)
		if !ok {
			t.NotAReply.Add(1)
			continue
		}
		x := t.calls.take(xid)
		if x == nil {
			t.Strays.Add(1)
			continue
		}
		x.Reply = append(x.Reply[:0], buf[:n]...)
		x.done <- nil
	}
}
