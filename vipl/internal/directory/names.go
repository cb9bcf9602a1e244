package directory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/guard"
)

// MaxName is the longest name, in bytes, that the name service carries.
const MaxName = 200

// The name service has no server: whoever advertises a name answers for it.
// A KindQuery frame with the name as its payload is broadcast, or goes to the NIC that is
// known to be the owner; a KindAnswer comes back with the port, two bytes, and the name. Both carry a random number, so
// that an answer that comes late, to one that was asked again, does not answer the
// next one about that name: its owner may have withdrawn it meanwhile. And who has not
// heard the question cannot answer it.
type nameTable struct {
	own     map[string]uint16 // name to port
	pending map[question]*lookup
	surveys map[uint64]*survey // by nonce
}

// What the name service reports but a name that nobody has. All are of the class ErrNameService.
var (
	errTaken   = errclass.New(code.ErrNameService, "name is taken")
	errStopped = errclass.New(code.ErrNameService, "name service was stopped")
	errEthers  = errclass.New(code.ErrNameService, "wrong file")
)

// question is what is asked, and which NIC; the zero address stands for all.
type question struct {
	name string
	at   ethertype.Addr
}

// to returns where the question goes.
func (q *question) to() ethertype.Addr {
	if q.at == (ethertype.Addr{}) {
		return ethertype.Addr{MAC: ethertype.Broadcast}
	}
	return q.at
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
	t.own, t.pending, t.surveys = map[string]uint16{}, map[question]*lookup{}, map[uint64]*survey{}
}

// Advertise has the NIC answer to a name with addr, an address of its own, until Withdraw.
// The name must be new here.
func (d *Directory) Advertise(name string, addr ethertype.Addr) error {
	switch _, dup := d.names.own[name]; {
	case d.up("advertise") != nil:
		return d.up("advertise")
	case name == "" || len(name) > MaxName:
		return code.Error("advertise", code.ErrArgument, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	case addr.MAC != d.self.Addr.MAC:
		return code.Error("advertise", code.ErrArgument, "%v is not an address of this NIC (%v)", addr, d.self.Addr.MAC)
	case dup:
		return code.Error("advertise", errTaken, "%q is already advertised on this NIC", name)
	}
	d.names.own[name] = addr.Port
	return nil
}

// Names returns the names that the NIC answers for, in order.
func (d *Directory) Names() []string { return slices.Sorted(maps.Keys(d.names.own)) }

// WithdrawAll undoes every Advertise.
func (d *Directory) WithdrawAll() { clear(d.names.own) }

// Withdraw undoes Advertise; an unknown name does nothing.
func (d *Directory) Withdraw(name string) {
	delete(d.names.own, name)
}

// Lookup asks the NIC at an address for a name, or the segment if that is zero, and returns the
// first answer. It asks again and again until ctx ends, or for timeout without a deadline; then the error is ErrNameService, and
// context.Canceled too if ctx was cancelled. On a link that is of no use any more it is
// what NIC.Dead returns, at once.
func (d *Directory) Lookup(ctx context.Context, at ethertype.Addr, name string, timeout time.Duration) (ethertype.Addr, error) {
	if name == "" || len(name) > MaxName {
		return ethertype.Addr{}, code.Error("look up", code.ErrArgument, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	}
	if err := d.up("look up"); err != nil {
		return ethertype.Addr{}, err
	}
	if port, ok := d.names.own[name]; ok {
		return ethertype.Addr{MAC: d.self.Addr.MAC, Port: port}, nil
	}
	q := question{name, at}
	l := d.names.pending[q]
	if l == nil {
		l = &lookup{nonce: d.random.Uint64()}
		d.names.pending[q] = l
	}
	l.users++
	defer func() {
		if l.users--; l.users == 0 {
			delete(d.names.pending, q)
		}
	}()
	return d.ask(ctx, q, l, timeout)
}

const (
	askFirst = int64(10 * time.Millisecond)
	askMax   = int64(400 * time.Millisecond)
)

// ask sends the question with growing intervals until it is answered.
func (d *Directory) ask(ctx context.Context, q question, l *lookup, timeout time.Duration) (ethertype.Addr, error) {
	to, end := q.to(), d.nic.Now()+int64(d.eng.Left(ctx, timeout))
	for interval := askFirst; ; interval = min(2*interval, askMax) {
		d.nic.Send(ethertype.Header{Dst: to.MAC, DstPort: to.Port, Kind: ethertype.KindQuery, SrcPort: d.self.Addr.Port, Sack: l.nonce}, []byte(q.name))
		d.nic.Flush()
		w := d.eng.Begin(ctx)
		w.Until(min(d.nic.Now()+interval, end))
		var err error
		for !l.known && err == nil && d.up("look up") == nil {
			err = d.nic.Wait(&w, &l.gate)
		}
		d.eng.End(&w)
		switch {
		case l.known:
			return l.answer, nil
		case d.up("look up") != nil:
			return ethertype.Addr{}, d.up("look up")
		case d.nic.Dead() != nil: // wait neither waits nor gives up the lock then
			return ethertype.Addr{}, code.Error("look up", d.nic.Dead(), "open the NIC again to look up %q", q.name)
		case d.eng.Ended(ctx) == context.Canceled:
			err = fmt.Errorf("%w: %w", code.ErrNameService, context.Canceled)
			return ethertype.Addr{}, code.Error("look up", err, "the query for %q was cancelled: %v", q.name, context.Cause(ctx))
		case d.eng.Ended(ctx) != nil || d.nic.Now() >= end:
			return ethertype.Addr{}, d.silence("look up", code.ErrNameService, "%s answers to %q: is its owner running? (to see whether frames pass between two hosts: bobnet doctor --host HOST,HOST)", d.nobody(q.at), q.name)
		}
	}
}

// nobody says who does not answer.
func (d *Directory) nobody(at ethertype.Addr) string {
	if at == (ethertype.Addr{}) {
		return "nobody on the segment of " + d.self.Interface
	}
	return fmt.Sprintf("no NIC at %v", at)
}

// receiveQuestion answers for a name of this NIC.
func (d *Directory) receiveQuestion(h *ethertype.Header, payload []byte) {
	if port, ok := d.names.own[string(payload)]; ok && !h.Src.IsGroup() && d.nic.MayAnswer(guard.Query) {
		d.nic.Send(ethertype.Header{Dst: h.Src, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: d.self.Addr.Port, Sack: h.Sack},
			[]byte{byte(port >> 8), byte(port)}, payload)
	}
}

// receiveName takes the answer to a question.
func (d *Directory) receiveName(h *ethertype.Header, payload []byte) {
	if len(payload) <= 2 {
		d.nic.Unknown()
		return
	}
	addr := ethertype.Addr{MAC: h.Src, Port: uint16(payload[0])<<8 | uint16(payload[1])}
	name := string(payload[2:])
	if d.answered(h.Sack, name, addr) {
		return
	}
	for q, l := range d.names.pending { // few
		if l.nonce == h.Sack && q.name == name && (q.at.MAC == addr.MAC || q.at == (ethertype.Addr{})) {
			l.answer, l.known = addr, true
			l.gate.Open(d.eng)
			return
		}
	}
	d.nic.Unknown()
}
