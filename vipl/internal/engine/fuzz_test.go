package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
)

// FuzzMachine opens, leaves and closes VIs, changes the interface and has frames come, right
// ones and others, in any order. Every frame is counted, the table of ports is right, and the NIC is told once
// that its link is dead, after which nothing is connected.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 4, 0, 5, 9, 6, 2, 2, 0, 4, 0, 7, 1, 3, 1})
	f.Add([]byte{0, 0, 0, 1, 1, 0, 8, 1, 8, 3, 8, 0, 4, 2, 9, 0, 8, 2, 4, 0})
	f.Add([]byte{0, 0, 0, 0, 1, 0, 4, 129, 4, 147, 4, 193, 4, 226, 5, 129, 6, 145, 4, 131, 3, 0, 4, 161})
	f.Add([]byte{0, 0, 2, 0, 4, 0, 4, 5, 6, 30, 6, 70, 6, 110, 9, 4, 4, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		r := newRig(t)
		for i := 0; i+1 < len(ops) && i < 300; i += 2 {
			r.act(ops[i]%10, int(ops[i+1]))
			r.check()
		}
	})
}

// act does one step.
func (r *rig) act(op byte, x int) {
	var v *vi
	if len(r.vis) > 0 {
		v = r.vis[x%len(r.vis)]
	}
	switch {
	case op == 0:
		r.open([]reliability.Level{reliability.ReliableDelivery, reliability.Unreliable}[x%2], remote(x), true)
	case op == 1:
		r.open(reliability.ReliableDelivery, remote(x), false)
	case op == 8:
		small := &transport.ChangeError{What: "MTU", MTU: 1200}
		r.state = []error{nil, errors.New("down"), &transport.ChangeError{What: "MAC"}, small}[x%4]
		r.m.CheckLink()
	case op == 9 && x == 4:
		r.recvErr = transport.ErrClosed
		r.poll()
	case op == 9:
		r.now += int64(x) * int64(10*time.Millisecond)
		r.left(transport.PortRange{Lo: 9000, Hi: uint16(9000 + x)}, errors.New("gone"))
		r.poll()
	case v == nil:
	case op == 2:
		r.leave(v)
	case op == 3 && v.conn.State != code.StateConnectPending:
		r.leave(v)
		r.m.Ports.Remove(&v.conn)
		r.vis[x%len(r.vis)] = r.vis[len(r.vis)-1]
		r.vis = r.vis[:len(r.vis)-1]
	default:
		r.receive(v, op, x)
	}
}

func remote(x int) ethertype.Addr {
	if x%5 == 1 {
		return ethertype.Addr{MAC: here, Port: 9000}
	}
	return peer
}

// leave ends what a VI does, as its owner would.
func (r *rig) leave(v *vi) {
	switch v.conn.State {
	case code.StateConnected:
		v.conn.SendDisconnect(code.ReasonLeft)
		r.m.Ended.Add(&v.conn, code.ReasonLeft, false)
	case code.StateConnectPending:
		v.side.Abandon()
	}
	v.conn.Idle()
}

// receive has a frame come that is of a VI's connection, or nearly.
func (r *rig) receive(v *vi, op byte, x int) {
	h := v.from(ethertype.Kind(x % 16))
	h.Size = []uint16{0, 1, conn.ResetSize, 40}[x/16%4]
	switch op {
	case 5:
		h.Tag++
	case 6:
		h.Ack += ethertype.Seq(x)
	case 7:
		h.Dst = ethertype.Broadcast
	}
	if x >= 128 && h.Kind.Follows() { // another one, of any kind, follows it
		next := r.vis[x/16%len(r.vis)].from(ethertype.Kind(x / 8 % 16))
		r.in = append(r.in, joined(h, next))
		r.poll()
		return
	}
	r.poll(h)
}

// check compares what the machine holds with what was done to it.
func (r *rig) check() {
	if r.m.Ports.Count != len(r.vis) {
		r.t.Fatalf("%d VIs, counted as %d", len(r.vis), r.m.Ports.Count)
	}
	for _, v := range r.vis {
		if r.m.Ports.Conn(v.conn.Port) != &v.conn || r.m.Ports.side(v.conn.Port) != &v.side {
			r.t.Fatalf("port %d is another's", v.conn.Port)
		}
	}
	if dead := r.m.Failed() != nil; dead != (len(r.dead) == 1) || len(r.dead) > 1 {
		r.t.Fatalf("dead: %v, told %v", r.m.Failed(), r.dead)
	}
}
