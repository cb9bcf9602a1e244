package daemon

import (
	"context"
	"errors"
	"net"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/vmmc/internal/directory"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

// doing is the daemon as the world of its table. The caller of each method must hold the lock.
type doing Daemon

var _ world = (*doing)(nil)

func (w *doing) tell(c *client, m directory.Message) {
	conn := c.conn.(*net.UnixConn)
	if err := directory.WriteNow(conn, m.Append(make([]byte, 0, directory.MaxMessage))); err != nil && !errors.Is(err, unix.EPIPE) {
		// It does not listen. When it does again it finds that it is alone, and comes back.
		c.deaf = true
		passfd.HangUp(conn)
	}
}

func (w *doing) gone(c *client) bool {
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	if raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		for err == unix.EINTR { // a signal, of which Go's scheduler sends many
			n, err = unix.Poll(polled, 0)
		}
		gone = err == nil && n > 0 && polled[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
	}) != nil {
		return true
	}
	return gone
}

func (w *doing) advertise(name string, addr ethertype.Addr) {
	if err := w.nic.Advertise(name, addr); err != nil {
		w.log.Warn("vmmc daemon: other nodes cannot find a process", "err", err)
	}
}

func (w *doing) withdraw(name string) { w.nic.Withdraw(name) }

func (w *doing) seek(want *want) {
	d := (*Daemon)(w)
	ctx, cancel := context.WithCancel(d.ctx)
	want.stop = cancel
	d.spawn(func() {
		defer cancel()
		addr, err := directory.Look(ctx, d.nic, want.key)
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case err == nil:
			d.table.found(want, addr)
		case ctx.Err() == nil:
			d.table.fail(want, err)
		}
	})
}

func (w *doing) ask(p *proof) {
	d := (*Daemon)(w)
	d.asks.runWhenFree(p.c.uid, func() {
		var uid uint32
		known := false
		d.mu.Lock()
		left := p.c.left
		d.mu.Unlock()
		if p.ticket != (provider.Ticket{}) && !left {
			known = d.seg.persist(askTime, func() (ok bool) {
				uid, ok = d.whose(p)
				return ok
			})
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.table.answered(p, uid, known)
	})
}

// whose makes one attempt to verify a ticket, and returns the user of the process that has shown it.
func (d *Daemon) whose(p *proof) (uid uint32, known bool) {
	d.mu.Lock()
	at := p.c.self.Addr
	d.mu.Unlock()
	if p.from.Addr.MAC == at.MAC {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.table.whose(p.ticket, p.from, at)
	}
	uid, known, err := d.seg.ask(d.ctx, p.from.Addr.MAC, &question{what: whose, who: p.from, ticket: p.ticket, port: at.Port})
	if err != nil {
		d.log.Debug("vmmc daemon: no answer from another daemon about an importer's user", "node", p.from.Addr.MAC, "err", err)
	}
	return uid, known
}

func (w *doing) report(c *client, node ethertype.MAC) {
	d := (*Daemon)(w)
	dead := c.self
	d.reports.runWhenFree(c.uid, func() {
		defer d.table.reported(c)
		var err error
		if !d.seg.persist(reportTime, func() bool {
			_, _, err = d.seg.ask(d.ctx, node, &question{what: died, who: dead})
			return err == nil
		}) {
			d.log.Debug("vmmc daemon: cannot report a death to another daemon", "node", node, "err", err)
		}
	})
}
