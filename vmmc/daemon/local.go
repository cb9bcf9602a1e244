package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"golang.org/x/sys/unix"
)

// The half of a daemon that faces the processes of its node.

// accept takes processes until the daemon ends.
func (d *Daemon) accept() {
	for {
		conn, err := d.socket.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			d.log.Warn("vmmc daemon: a process cannot be let in", "err", err)
			if d.sleep(askAgain) != nil { // no descriptors are left, for example
				return
			}
			continue
		}
		who, err := passfd.PeerOf(conn)
		if err != nil || !d.table.gate.Enter(who.Uid) {
			d.log.Warn("vmmc daemon: there are too many processes, or too many of one user", "limit", maxProcesses, "of a user", userProcesses, "err", err)
			passfd.Refuse(conn)
			continue
		}
		d.mu.Lock()
		d.conns[conn] = struct{}{}
		ended := d.ctx.Err() != nil
		d.mu.Unlock()
		if ended {
			passfd.HangUp(conn)
		}
		d.spawn(func() { d.attend(conn, who) })
	}
}

// greetTime is how long a process may take to say what it speaks.
const greetTime = 5 * time.Second

// attend hears one process until it ends.
func (d *Daemon) attend(conn *net.UnixConn, who *unix.Ucred) {
	defer func() {
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
		passfd.CloseConn(who.Uid, conn, func() { d.table.gate.Leave(who.Uid) })
	}()
	if !greet(conn, who.Uid) {
		return
	}
	d.mu.Lock()
	c := d.table.connect(who.Pid, who.Uid, conn)
	d.mu.Unlock()
	ended := d.hear(conn, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended && d.ctx.Err() == nil {
		if c.entered && !c.left {
			d.log.Info("vmmc daemon: a process has ended", "process", c.self.Process, "scope", c.scope, "pid", c.pid)
		}
		d.table.ended(c)
	} else {
		d.table.leave(c)
	}
}

// greet exchanges greetings, and reports whether the process speaks the same. If not it
// is told the daemon's version, and says so itself.
func greet(conn *net.UnixConn, uid uint32) bool {
	var b [directory.MaxMessage]byte
	_ = conn.SetReadDeadline(time.Now().Add(greetTime))
	n, err := read(conn, uid, b[:])
	_ = conn.SetReadDeadline(time.Time{})
	version, ok := directory.ParseGreeting(b[:n])
	if err != nil || !ok || directory.WriteNow(conn, directory.AppendGreeting(nil, directory.Version)) != nil {
		return false
	}
	return version == directory.Version
}

// read reads a message from a process of a user, who may pass no descriptors with it.
func read(conn *net.UnixConn, uid uint32, b []byte) (int, error) {
	m, err := passfd.Receive(conn, uid, b)
	passfd.Close(uid, m.FDs...)
	return m.N, err
}

// hear takes in what a process says. It reports whether the process has ended, and was not
// left for what it did.
func (d *Daemon) hear(conn *net.UnixConn, c *client) (ended bool) {
	b := make([]byte, directory.MaxMessage+1)
	for again := true; ; {
		n, err := read(conn, c.uid, b)
		if errors.Is(err, unix.ECONNRESET) && again { // it had unread messages: its last ones come behind that
			again = false
			continue
		}
		if err != nil || n == 0 {
			d.mu.Lock()
			defer d.mu.Unlock()
			return !c.deaf && d.ctx.Err() == nil
		}
		m, ok := directory.Parse(b[:n])
		d.mu.Lock()
		ok = ok && d.table.hear(c, &m)
		left := c.left
		d.mu.Unlock()
		if !ok {
			switch {
			case c.over:
				d.log.Warn("vmmc daemon: the processes of a user have too much open, and one is left", "pid", c.pid, "user", c.uid, "bytes", userMemory)
			case !left:
				d.log.Warn("vmmc daemon: a process breaks the protocol, and is left", "pid", c.pid, "user", c.uid)
			}
			return false
		}
	}
}
