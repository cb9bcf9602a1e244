package vipl_test

import (
	"bytes"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// bulkLink makes any link a transport.BulkReceiver, so that the engine's guesses
// are tested in virtual time too. The two kinds of frames wait in queues of
// their own and so overtake each other, as they do with two sockets.
type bulkLink struct {
	transport.Link
	views       [transport.MaxBatch][]byte
	plain, bulk [][]byte
	started     bool
	trial       bool // leaves the choice to the engine
	gone        bool // has been stopped for good
	starts      int
	apart       int // frames that came by RecvBulk
}

func (l *bulkLink) Bulk() bool { return true }

func (l *bulkLink) BulkOnTrial() bool { return l.trial }

func (l *bulkLink) StartBulk() error {
	if l.gone || l.started {
		panic("StartBulk of a link that has been started, or stopped for good")
	}
	for had := -1; had < len(l.plain); { // what has arrived is not sorted again
		had = len(l.plain)
		if err := l.pull(); err != nil {
			return err
		}
	}
	l.started = true
	l.starts++
	return nil
}

func (l *bulkLink) StopBulk(forGood bool) error {
	if l.gone {
		panic("StopBulk of a link that has been stopped for good")
	}
	l.started, l.gone = false, forGood
	return nil
}

// pull sorts what has arrived.
func (l *bulkLink) pull() error {
	n, err := l.Link.Recv(l.views[:])
	for _, f := range l.views[:n] {
		f = bytes.Clone(f)
		if l.started && len(f) >= ethertype.HeaderSize && ethertype.Flags(binary.BigEndian.Uint16(f[ethertype.OffsetFlags:]))&ethertype.FlagBulk != 0 {
			l.bulk = append(l.bulk, f)
		} else {
			l.plain = append(l.plain, f)
		}
	}
	return err
}

func (l *bulkLink) Recv(views [][]byte) (int, error) {
	if !l.started && len(l.bulk) > 0 {
		panic("bulk frames that came before StopBulk have been left, and are overtaken")
	}
	err := l.pull()
	n := copy(views[:min(len(views), transport.MaxBatch)], l.plain)
	l.plain = l.plain[n:]
	return n, err
}

func (l *bulkLink) RecvBulk(slots []transport.BulkSlot) (int, error) {
	err := l.pull()
	n := min(len(slots), len(l.bulk), transport.MaxBatch)
	for i, f := range l.bulk[:n] {
		s := &slots[i]
		s.Size = len(f)
		f = f[copy(s.Frame[:s.At], f):]
		f = f[copy(s.Body, f):]
		copy(s.Frame[s.At+len(s.Body):], f)
	}
	for i := n; i < len(slots); i++ { // what is not filled is undefined
		for k := range slots[i].Body {
			slots[i].Body[k] ^= 0xa5
		}
	}
	l.bulk = l.bulk[n:]
	l.apart += n
	return n, err
}

func (l *bulkLink) Ready() bool { return len(l.plain) > 0 || l.Link.Ready() }

func (l *bulkLink) Wait(until int64) error {
	if len(l.plain) > 0 || len(l.bulk) > 0 {
		return nil
	}
	return l.Link.Wait(until)
}
