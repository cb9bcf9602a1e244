package vipl

import "github.com/bobnet-go/bobnet/vipl/internal/conn"

// viOwner is the VI as its connection sees it.
type viOwner VI

var _ conn.Owner = (*viOwner)(nil)

// viOf returns the VI of a connection.
func viOf(c *conn.Conn) *VI { return (*VI)(c.Owner.(*viOwner)) }

// faultCodes say which asynchronous error a fault of a connection is.
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
func (o *viOwner) Raise(what conn.Fault, d *Descriptor, op Status, err error) {
	o.nic.raise(faultCodes[what], (*VI)(o), d, op, err)
}

// Lost implements conn.Owner.
func (o *viOwner) Lost(cause error, detail string) error {
	c := &o.conn
	err := &ConnError{Local: c.Local(), Remote: c.Remote, Err: cause, Detail: detail}
	o.nic.raise(CodeConnLost, (*VI)(o), nil, 0, err)
	return err
}

// Ended implements conn.Owner.
func (o *viOwner) Ended(cause error) {
	o.gate.Open(&o.nic.eng)
	o.nic.log.Debug("connection ended", "local", o.conn.Local(), "remote", o.conn.Remote, "cause", cause)
}

// Notify implements conn.Owner: the handler that has waited longest gets the oldest completed
// descriptor. There are both.
func (o *viOwner) Notify(recv bool) {
	v := (*VI)(o)
	q := v.conn.Queue(recv)
	f := v.handlers(recv).Pop()
	q.Handlers--
	d, err := v.takeFrom(q)
	v.nic.calls.Owe(call{done: f, v: v, d: d, err: err})
}

// Due implements conn.Owner.
func (o *viOwner) Due() int64 { return o.hs.Due() }

// Step implements conn.Owner.
func (o *viOwner) Step() { o.hs.step((*VI)(o)) }
