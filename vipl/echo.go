package vipl

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
)

// echoTable holds the echoes that wait for their answer.
type echoTable struct {
	pending map[uint64]*echo
}

type echo struct {
	from  ethertype.Addr
	at    int64 // when the answer came
	gate  progress.Gate
	known bool
}

const echoSize = 8

func (t *echoTable) init() { t.pending = map[uint64]*echo{} }

// Echo sends one frame with size bytes of payload, at least 8, to a NIC and
// waits for it to come back: is it there, and how far away? The port of to
// may be 0 for any NIC of that interface. It returns the round-trip time. The
// frame is sent once; ctx or else a second bounds the wait.
func (n *NIC) Echo(ctx context.Context, to ethertype.Addr, size int) (time.Duration, error) {
	size = max(size, echoSize)
	if size > n.max {
		return 0, opError("echo", ErrInvalidMTU, "%d bytes do not fit a frame: interface %s with MTU %d carries %d", size, n.info.Interface, n.info.MTU, n.max)
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if n.closed {
		return 0, ErrClosed
	}
	id, e := n.random.uint64(), &echo{from: to}
	n.echoes.pending[id] = e
	defer delete(n.echoes.pending, id)

	sent := n.link.Now()
	n.sendEcho(ethertype.KindEcho, to.MAC, to.Port, binary.BigEndian.AppendUint64(nil, id), size)
	n.tx.flush(n)
	w := n.eng.BeginFor(ctx, time.Second)
	defer n.eng.End(&w)
	for !e.known {
		if n.closed {
			return 0, ErrClosed
		}
		if err := n.wait(&w, &e.gate); err != nil {
			return 0, &ConnError{Local: n.addr, Remote: to, Err: ErrTimeout, Detail: "no answer to an echo: is a Bobnet program running there, on this segment?"}
		}
	}
	return time.Duration(e.at - sent), nil
}

func (n *NIC) sendEcho(kind ethertype.Kind, to ethertype.MAC, port uint16, id []byte, size int) {
	slot := n.tx.slot(n)
	if slot == nil {
		n.stats.TxDropped++
		return
	}
	h := ethertype.Header{Dst: to, Src: n.info.MAC, Type: n.info.EtherType, Kind: kind, Flags: ethertype.FlagWholeCRC,
		DstPort: port, SrcPort: n.addr.Port, Size: uint16(size)}
	h.Put(slot)
	k := copy(slot[ethertype.HeaderSize:], id)
	n.tx.add(slot[:ethertype.HeaderSize+k], append(n.tx.body(), padding[:size-k]))
}

func (n *NIC) receiveEcho(h *ethertype.Header, payload []byte) {
	if len(payload) < echoSize || h.Dst.IsGroup() || h.Src.IsGroup() {
		n.stats.drop(DropUnknown)
		return
	}
	if h.Kind == ethertype.KindEcho {
		if len(payload) <= n.max && n.mayAnswer(answerEcho) {
			n.sendEcho(ethertype.KindEchoReply, h.Src, h.SrcPort, payload[:echoSize], len(payload))
		}
		return
	}
	e := n.echoes.pending[binary.BigEndian.Uint64(payload)]
	if e == nil || e.known || e.from.MAC != h.Src {
		n.stats.drop(DropUnknown)
		return
	}
	e.known, e.at = true, n.now
	e.gate.Open(&n.eng)
}
