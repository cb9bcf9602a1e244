package directory

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

type echo struct {
	from  ethertype.Addr
	at    int64 // when the answer arrived
	gate  progress.Gate
	known bool
}

const echoSize = 8

// Echo sends one frame with size bytes of payload, at least echoSize, to a NIC, and returns the round-trip
// time of the echo. If the port of to is 0, any NIC on that interface may answer. The error is ErrTimeout if
// no answer arrives until ctx ends, or within a second without a deadline.
func (d *Directory) Echo(ctx context.Context, to ethertype.Addr, size int) (time.Duration, error) {
	size = max(size, echoSize)
	if size > d.self.MaxData {
		return 0, code.Error("echo", code.ErrInvalidMTU, "%d bytes do not fit a frame: interface %s with MTU %d carries %d", size, d.self.Interface, d.self.MTU, d.self.MaxData)
	}
	if d.nic.Closed() {
		return 0, code.ErrClosed
	}
	id, e := d.random.Uint64(), &echo{from: to}
	d.echoes[id] = e
	defer delete(d.echoes, id)

	sent := d.nic.Now()
	d.sendEcho(ethertype.KindEcho, to, binary.BigEndian.AppendUint64(nil, id), size)
	d.nic.Flush()
	w := d.eng.BeginFor(ctx, time.Second)
	defer d.eng.End(&w)
	for !e.known {
		if d.nic.Closed() {
			return 0, code.ErrClosed
		}
		if err := d.nic.Wait(&w, &e.gate); err != nil {
			return 0, d.silence("echo", code.ErrTimeout, "no answer from %v: is a Bobnet program running there, on this segment?", to)
		}
	}
	return time.Duration(e.at - sent), nil
}

func (d *Directory) sendEcho(kind ethertype.Kind, to ethertype.Addr, id []byte, size int) {
	d.nic.SendPadded(ethertype.Header{Dst: to.MAC, DstPort: to.Port, Kind: kind, SrcPort: d.self.Addr.Port}, id, size)
}

func (d *Directory) receiveEcho(h *ethertype.Header, payload []byte) {
	if len(payload) < echoSize || h.Dst.IsGroup() || h.Src.IsGroup() {
		d.nic.Unknown()
		return
	}
	if h.Kind == ethertype.KindEcho {
		if h.DstPort == ethertype.PortAll && !d.nic.Speaks() {
			return
		}
		if len(payload) <= d.self.MaxData && d.nic.MayAnswer(guard.Echo) {
			d.sendEcho(ethertype.KindEchoReply, ethertype.Addr{MAC: h.Src, Port: h.SrcPort}, payload[:echoSize], len(payload))
		}
		return
	}
	e := d.echoes[binary.BigEndian.Uint64(payload)]
	if e == nil || e.known || e.from.MAC != h.Src {
		d.nic.Unknown()
		return
	}
	e.known, e.at = true, d.eng.Now()
	e.gate.Open(d.eng)
}
