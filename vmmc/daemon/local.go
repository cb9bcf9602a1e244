package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"golang.org/x/sys/unix"
)

// This file is the half of a daemon that serves the processes of its node.

// accept accepts processes until the daemon ends.
func (d *Daemon) accept() {
	for {
		conn, err := d.socket.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			d.log.Warn("vmmc daemon: cannot accept a process", "err", err)
			if d.sleep(askAgain) != nil { // no descriptors are left, for example
				return
			}
			continue
		}
		who, err := passfd.PeerOf(conn)
		if err != nil || !d.table.gate.Enter(who.Uid) {
			d.log.Warn("vmmc daemon: process refused: limit of processes reached", "limit", maxProcesses, "limit per user", userProcesses, "err", err)
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

// greetTime limits how long a process may take to send its greeting.
const greetTime = 5 * time.Second

// attend serves one process until its connection ends.
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

// greet exchanges greetings and reports whether the process uses the same protocol version. If the
// versions differ, the process receives the daemon's version and reports the mismatch.
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

// read reads a message from a process of a user. The process may not pass descriptors with it.
func read(conn *net.UnixConn, uid uint32, b []byte) (int, error) {
	m, err := passfd.Receive(conn, uid, b)
	passfd.Close(uid, m.FDs...)
	return m.N, err
}

// hear reads and handles messages from a process. It returns true if the process ended, and false
// if the daemon disconnected it.
func (d *Daemon) hear(conn *net.UnixConn, c *client) (ended bool) {
	b := make([]byte, directory.MaxMessage+1)
	for again := true; ; {
		n, err := read(conn, c.uid, b)
		if errors.Is(err, unix.ECONNRESET) && again { // the process left messages unread: its last messages follow the error
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
				d.log.Warn("vmmc daemon: process disconnected: its user exceeds the memory limit", "pid", c.pid, "user", c.uid, "bytes", userMemory)
			case !left:
				d.log.Warn("vmmc daemon: process disconnected: it violated the protocol", "pid", c.pid, "user", c.uid)
			}
			return false
		}
	}
}
