package stream

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// pollEvery is the number of coalesced writes between polls of the engine for acknowledgements.
const pollEvery = 32

// Write writes p and returns when all of it is buffered or acknowledged; p then belongs to the
// caller again. It blocks while the other end has no room. It fails if the write deadline has
// passed or the stream is closed (net.ErrClosed); n is then the number of bytes accepted. All
// errors are a *net.OpError.
//
// Write copies up to 128 KiB, or up to Config.WriteBuffer bytes if that is less, and returns before
// they have arrived. It sends a longer p straight from the caller's memory, except for the last
// 60 KiB, and returns when those bytes have been acknowledged.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.lock()
	n, err := c.write(p)
	c.stats.Writes++
	c.stats.BytesWritten += uint64(n)
	c.leave()
	c.unlock()
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

const (
	// copySize is the length of the longest Write that is copied whole. Waiting for the
	// acknowledgement of a longer one takes less time than copying it.
	copySize = 128 << 10
	// tailSize is the number of bytes at the end of a longer Write that are copied. They are in flight
	// while the bytes before them are acknowledged.
	tailSize = wholeMessage
)

func (c *Conn) write(p []byte) (n int, err error) {
	for {
		if err := c.mayWrite(); err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		if len(p)-n > min(copySize, len(c.tx.buf)) {
			tail := len(p) - min(tailSize, len(c.tx.buf))
			k, err := c.writeDirect(p[n:tail], p[tail:])
			if n += k; err != nil {
				return n, err
			}
			continue
		}
		k := c.stage(p[n:])
		if n += k; n == len(p) {
			return n, nil
		}
		if k == 0 {
			if err := c.wait(background, c.writeLimit); err != nil {
				return n, err
			}
		}
	}
}

// mayWrite returns the error of a write that must fail, or nil.
func (c *Conn) mayWrite() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.writeLimit != 0 && c.nic.Now() >= c.writeLimit:
		return os.ErrDeadlineExceeded
	case c.err != nil && c.rx.Ended():
		return errGone(c.err)
	case c.err != nil:
		return c.err
	case c.tx.ending:
		return syscall.EPIPE
	}
	return nil
}

// stage copies as much of p as fits to the stage, and sends what may be sent. It sends each message
// of a long p before it copies the next one, so that the other end receives meanwhile.
func (c *Conn) stage(p []byte) (n int) {
	x := &c.tx
	for n < len(p) {
		at, run := x.stage.Free()
		if len(p)-n > maxMessage {
			run = min(run, wholeMessage)
		}
		k := copy(x.buf[at:at+run], p[n:])
		if k == 0 {
			break
		}
		x.stage.Wrote(k)
		if n += k; n < len(p) {
			c.pump()
		}
	}
	if n > 0 {
		c.staged()
	}
	return n
}

// staged sends as much of the staged data as may be sent now.
func (c *Conn) staged() {
	c.pump()
	c.coalesce()
}

// coalesce counts a coalesced write, and polls from time to time for acknowledgements.
func (c *Conn) coalesce() {
	x := &c.tx
	if x.stage.Unposted() == 0 {
		if x.coalesced > 0 {
			x.rapid, x.coalesced = x.coalesced >= pollEvery, 0
		}
		return
	}
	c.stats.Coalesced++
	if x.coalesced++; x.coalesced%pollEvery == 0 {
		c.poll()
	}
}

// directPatience bounds how long a Write whose deadline has passed waits for the acknowledgement of
// data in flight from its memory. After that, it ends the connection.
const directPatience = 5 * time.Second

// writeDirect sends p from the memory of the caller, after the staged data. It copies as much as
// fits of tail, which follows p, to the stage, so that these bytes are in flight while p is
// acknowledged. It returns when nothing refers to p any more; n is the number of bytes accepted
// from p and tail together.
func (c *Conn) writeDirect(p, tail []byte) (n int, err error) {
	for c.tx.stage.Unposted() > 0 && err == nil {
		if err = c.mayWrite(); err == nil {
			err = c.flushStage()
		}
	}
	if err == nil {
		err = c.mayWrite()
	}
	if err != nil {
		return 0, err
	}
	handle, err := c.nic.RegisterMem(p, &vipl.MemAttributes{Ptag: c.tx.tag})
	if err != nil {
		return 0, err
	}
	c.holds++
	for n < len(p) && err == nil {
		if k := c.room(len(p) - n); k > 0 {
			if !c.postData(p[n:n+k], handle, 0, n+k == len(p)) {
				break
			}
			n += k
		} else {
			err = c.wait(background, c.writeLimit)
		}
		if err == nil {
			err = c.mayWrite()
		}
	}
	if err == nil && n == len(p) {
		n += c.stage(tail)
	}
	c.awaitDirect()
	if bad := c.nic.DeregisterMem(handle); bad != nil {
		c.fail(bad)
	}
	c.holds--
	c.release()
	return n, err
}

// flushStage posts staged data, or waits until some can be posted.
func (c *Conn) flushStage() error {
	x := &c.tx
	from, run := x.stage.Pending()
	if run = c.room(run); run > 0 {
		c.postData(x.buf[from:from+run], x.handle, run, false)
		return nil
	}
	return c.wait(background, c.writeLimit)
}

// awaitDirect waits until no data from the memory of a Write are in flight. If the peer is silent
// for too long after the write's deadline, awaitDirect ends the connection, because the caller
// needs its memory back.
func (c *Conn) awaitDirect() {
	var limit int64
	for c.tx.direct > 0 && !c.torn {
		if now := c.nic.Now(); limit == 0 && c.writeLimit != 0 && now >= c.writeLimit {
			limit = now + int64(directPatience)
		}
		until := limit
		if until == 0 {
			until = c.writeLimit
		}
		if err := c.wait(background, until); err != nil && limit != 0 {
			c.fail(os.ErrDeadlineExceeded)
			c.vi.Disconnect() // everything completes, flushed
			limit += int64(directPatience)
		}
	}
}

// ReadFrom writes everything that it reads from r, without an intermediate buffer. It implements
// io.ReaderFrom, for io.Copy. It returns an error of r unchanged. If Close or CloseWrite is called
// meanwhile, bytes that were read from r but not written are lost.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.lock()
	defer c.unlock()
	for {
		room, err := c.awaitStage()
		if err != nil {
			return n, c.opError("write", err)
		}
		c.holds++
		c.leave()
		c.unlock()
		k, err := r.Read(room)
		c.lock()
		c.holds--
		c.release()
		if k > 0 && (c.closed || c.tx.ending) { // meanwhile; nothing goes behind the end
			c.leave()
			return n, c.opError("write", c.mayWrite())
		}
		if k > 0 {
			c.tx.stage.Wrote(k)
			c.stats.Writes++
			c.stats.BytesWritten += uint64(k)
			n += int64(k)
			c.pump()
		}
		if err != nil {
			c.leave()
			if err == io.EOF {
				return n, nil
			}
			return n, err
		}
	}
}

// awaitStage waits until there is room in the stage, and returns room for at most one message, so that
// the other end receives it while the next one is read.
func (c *Conn) awaitStage() ([]byte, error) {
	for {
		if err := c.mayWrite(); err != nil {
			return nil, err
		}
		if at, run := c.tx.stage.Free(); run > 0 {
			return c.tx.buf[at : at+min(run, wholeMessage)], nil
		}
		if err := c.wait(background, c.writeLimit); err != nil {
			return nil, err
		}
	}
}
