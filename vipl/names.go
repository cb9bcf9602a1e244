package vipl

import (
	"context"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/progress"
)

// MaxName is the longest name, in bytes, that the name service carries.
const MaxName = 200

// The name service has no server: whoever advertises a name answers for it.
// A KindQuery frame is broadcast with the name as its payload; a KindAnswer
// comes back with the port, two bytes, and the name. Both carry a random number, so
// that an answer that comes late, to one that was asked again, does not answer the
// next one about that name: its owner may have withdrawn it meanwhile. And who has not
// heard the question cannot answer it.
type nameTable struct {
	own     map[string]uint16 // name to port
	pending map[string]*lookup
	surveys map[uint64]*survey // by nonce
}

// lookup is a question under way; several callers may share it.
type lookup struct {
	nonce  uint64
	answer ethertype.Addr
	known  bool
	users  int
	gate   progress.Gate
}

func (t *nameTable) init() {
	t.own, t.pending, t.surveys = map[string]uint16{}, map[string]*lookup{}, map[uint64]*survey{}
}

// Advertise lets others on the segment find addr, an address of this NIC, by
// name until Withdraw or Close. The name must be new on this NIC; that it is
// unique on the segment is the callers' affair.
func (n *NIC) Advertise(name string, addr ethertype.Addr) error {
	n.eng.Lock()
	defer n.eng.Unlock()
	switch _, dup := n.names.own[name]; {
	case n.namesUp("advertise") != nil:
		return n.namesUp("advertise")
	case name == "" || len(name) > MaxName:
		return opError("advertise", ErrInvalidParameter, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	case addr.MAC != n.info.MAC:
		return opError("advertise", ErrInvalidParameter, "%v is not an address of this NIC (%v)", addr, n.info.MAC)
	case dup:
		return opError("advertise", ErrNameService, "%q is already advertised here", name)
	}
	n.names.own[name] = addr.Port
	return nil
}

// Withdraw undoes Advertise; an unknown name does nothing.
func (n *NIC) Withdraw(name string) {
	n.eng.Lock()
	defer n.eng.Unlock()
	delete(n.names.own, name)
}

// Lookup asks the segment for a name (VipNSGetHostByName) and returns the
// first answer. It asks again and again until ctx ends, or for
// DefaultConnectTimeout without a deadline; then the error is ErrNameService, and
// context.Canceled too if ctx was cancelled. On a link that is of no use any more it is ErrLink, at once.
func (n *NIC) Lookup(ctx context.Context, name string) (ethertype.Addr, error) {
	if name == "" || len(name) > MaxName {
		return ethertype.Addr{}, opError("look up", ErrInvalidParameter, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	}
	n.eng.Lock()
	defer n.eng.Unlock()
	if err := n.namesUp("look up"); err != nil {
		return ethertype.Addr{}, err
	}
	if port, ok := n.names.own[name]; ok {
		return ethertype.Addr{MAC: n.info.MAC, Port: port}, nil
	}
	l := n.names.pending[name]
	if l == nil {
		l = &lookup{nonce: n.random.uint64()}
		n.names.pending[name] = l
	}
	l.users++
	defer func() {
		if l.users--; l.users == 0 {
			delete(n.names.pending, name)
		}
	}()
	return n.ask(ctx, name, l)
}

const (
	askFirst = int64(10 * time.Millisecond)
	askMax   = int64(400 * time.Millisecond)
)

// ask broadcasts the question with growing intervals until it is answered.
func (n *NIC) ask(ctx context.Context, name string, l *lookup) (ethertype.Addr, error) {
	end := n.link.Now() + int64(n.eng.Left(ctx, DefaultConnectTimeout))
	for interval := askFirst; ; interval = min(2*interval, askMax) {
		n.sendControl(ethertype.Header{Dst: ethertype.Broadcast, Kind: ethertype.KindQuery, SrcPort: n.addr.Port, Sack: l.nonce}, []byte(name))
		n.tx.flush(n)
		w := n.eng.Begin(ctx)
		w.Until(min(n.link.Now()+interval, end))
		var err error
		for !l.known && err == nil && n.namesUp("look up") == nil {
			err = n.wait(&w, &l.gate)
		}
		n.eng.End(&w)
		switch {
		case l.known:
			return l.answer, nil
		case n.namesUp("look up") != nil:
			return ethertype.Addr{}, n.namesUp("look up")
		case n.dead != nil: // wait neither waits nor gives up the lock then
			return ethertype.Addr{}, opError("look up", linkCause(n.dead), "open the NIC again to ask for %q", name)
		case n.eng.Ended(ctx) == context.Canceled:
			err = fmt.Errorf("%w: %w", ErrNameService, context.Canceled)
			return ethertype.Addr{}, opError("look up", err, "the question for %q was given up: %v", name, context.Cause(ctx))
		case n.eng.Ended(ctx) != nil || n.now >= end:
			return ethertype.Addr{}, opError("look up", ErrNameService, "nobody on the segment of %s answers to %q: is its owner running?", n.info.Interface, name)
		}
	}
}

func (n *NIC) receiveName(h *ethertype.Header, payload []byte) {
	if h.Tag != 0 {
		if h.Kind == ethertype.KindQuery {
			n.receiveInquiry(h, payload)
		} else {
			n.receiveStation(h, payload)
		}
		return
	}
	if h.Kind == ethertype.KindQuery {
		if port, ok := n.names.own[string(payload)]; ok && !h.Src.IsGroup() && n.mayAnswer(answerQuery) {
			n.sendControl(ethertype.Header{Dst: h.Src, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: n.addr.Port, Sack: h.Sack},
				[]byte{byte(port >> 8), byte(port)}, payload)
		}
		return
	}
	if len(payload) > 2 {
		addr := ethertype.Addr{MAC: h.Src, Port: uint16(payload[0])<<8 | uint16(payload[1])}
		if n.names.answered(h.Sack, string(payload[2:]), addr, n) {
			return
		}
		if l := n.names.pending[string(payload[2:])]; l != nil && l.nonce == h.Sack {
			l.answer = addr
			l.known = true
			l.gate.Open(&n.eng)
			return
		}
	}
	n.stats.drop(DropUnknown)
}
