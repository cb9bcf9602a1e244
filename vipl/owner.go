package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// viOwner is the VI as its connection and its handshake access it.
type viOwner VI

var (
	_ conn.Owner      = (*viOwner)(nil)
	_ handshake.Owner = (*viOwner)(nil)
)

// viOf returns the VI of a connection.
func viOf(c *conn.Conn) *VI { return (*VI)(c.Owner.(*viOwner)) }

// faultCodes maps a connection's fault to its asynchronous error.
var faultCodes = [...]ErrorCode{
	conn.FaultNoReceive:      CodeRecvqEmpty,
	conn.FaultWriteForbidden: CodeRDMAWProt,
	conn.FaultWriteDamaged:   CodeRDMAWData,
	conn.FaultWriteAborted:   CodeRDMAWAbort,
	conn.FaultReadForbidden:  CodeRDMARProt,
	conn.FaultAltered:        CodeCompProt,
	conn.FaultUnderWay:       CodeRDMATransport,
}

// Raise implements conn.Owner.
func (o *viOwner) Raise(what conn.Fault, w *conn.Descriptor, op code.Status, err error) {
	var d *Descriptor
	if w != nil {
		d = descriptorOf(w)
	}
	o.nic.raise(faultCodes[what], (*VI)(o), d, Status(op), err)
}

// Lost implements conn.Owner.
func (o *viOwner) Lost(cause error, detail string) error {
	err := o.Failure(o.conn.Remote, cause, detail)
	o.nic.raise(CodeConnLost, (*VI)(o), nil, 0, err)
	return err
}

// Ended implements conn.Owner.
func (o *viOwner) Ended(cause error) {
	o.gate.Open(&o.nic.eng)
	o.nic.log.Debug("connection ended", "local", o.conn.Local(), "remote", o.conn.Remote, "cause", cause)
}

// Notify implements conn.Owner: it gives the oldest completed descriptor to the handler that has
// waited longest. Both must exist.
func (o *viOwner) Notify(recv bool) {
	v := (*VI)(o)
	q := v.conn.Queue(recv)
	f := v.handlers(recv).Pop()
	q.Handlers--
	d, err := v.takeFrom(q)
	v.nic.calls.Owe(call{done: f, v: v, d: d, err: err})
}

// Due implements conn.Owner.
func (o *viOwner) Due() int64 { return o.side.Due() }

// Step implements conn.Owner.
func (o *viOwner) Step() { o.side.Step() }

// Connected implements handshake.Owner.
func (o *viOwner) Connected() {
	o.attemptEnded()
	c := &o.conn
	o.nic.log.Debug("connected", "local", c.Local(), "remote", c.Remote, "level", o.attr.Reliability, "data", c.Path.MaxData)
}

// Failed implements handshake.Owner.
func (o *viOwner) Failed() { o.attemptEnded() }

// attemptEnded wakes goroutines that wait for the end of an attempt to connect, at the VI and at
// the completion queue of its receives, and calls the function that attends that queue.
func (o *viOwner) attemptEnded() {
	o.gate.Open(&o.nic.eng)
	if o.recvCQ != nil {
		o.recvCQ.ring.AttemptEnded()
	}
}

// Failure implements handshake.Owner.
func (o *viOwner) Failure(remote ethertype.Addr, cause error, detail string) error {
	if cause == ErrTimeout {
		detail += (*VI)(o).nic.hint(remote.MAC)
	}
	return &ConnError{Local: o.conn.Local(), Remote: remote, Err: cause, Detail: detail}
}
