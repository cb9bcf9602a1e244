package directory

import (
	"cmp"
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

// MaxName is the longest name of the name service, in bytes.
const MaxName = 200

// nameTable is the state of the name service. The service has no server: the NIC that advertises a name answers for
// it.
//
// A KindQuery frame with the name as its payload is broadcast, or sent to the NIC that must own the name. A
// KindAnswer returns the port, two bytes, and the name. Both carry a random number. So a late answer to a repeated
// query cannot answer the next query for that name, whose owner may have withdrawn it meanwhile. And a station that
// has not received the query cannot answer it.
//
// An owner may also broadcast a KindAnswer without having been asked (Announce), with the number 0. It counts for those
// that wait for it (Await).
type nameTable struct {
	own     map[string]uint16 // name to port
	pending map[question]*lookup
	surveys map[uint64]*survey // by nonce
}

// Errors of the name service, in addition to an unknown name. All are of the class ErrNameService.
var (
	errTaken   = errclass.New(code.ErrNameService, "name is taken")
	errStopped = errclass.New(code.ErrNameService, "name service was stopped")
	errEthers  = errclass.New(code.ErrNameService, "wrong file")
)

// question is the name and the NIC of a query; the zero address stands for all NICs.
type question struct {
	name string
	at   ethertype.Addr
}

// to returns the destination of the query.
func (q *question) to() ethertype.Addr {
	if q.at == (ethertype.Addr{}) {
		return ethertype.Addr{MAC: ethertype.Broadcast}
	}
	return q.at
}

// lookup is a query in progress; several callers may share it.
type lookup struct {
	nonce  uint64
	answer ethertype.Addr
	known  bool
	awaits bool // an announcement counts
	users  int
	gate   progress.Gate
}

func (t *nameTable) init() {
	t.own, t.pending, t.surveys = map[string]uint16{}, map[question]*lookup{}, map[uint64]*survey{}
}

// Advertise makes the NIC answer queries for a name with addr, one of its own addresses, until
// Withdraw. The name must be new on this NIC.
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

// Names returns the advertised names, sorted.
func (d *Directory) Names() []string { return slices.Sorted(maps.Keys(d.names.own)) }

// WithdrawAll undoes every Advertise.
func (d *Directory) WithdrawAll() { clear(d.names.own) }

// Withdraw undoes Advertise. It ignores unknown names.
func (d *Directory) Withdraw(name string) {
	delete(d.names.own, name)
}

// Lookup queries the NIC at an address for a name, or the segment if the address is zero, and returns the first
// answer. It repeats the query until ctx ends, or for timeout without a deadline. Then the error is ErrNameService,
// and also context.Canceled if ctx was cancelled. If the link has failed permanently, it returns NIC.Dead at once.
func (d *Directory) Lookup(ctx context.Context, at ethertype.Addr, name string, timeout time.Duration) (ethertype.Addr, error) {
	return d.lookup(ctx, question{name, at}, 0, timeout)
}

// Announce sends the address of a name's owner, on this NIC, to all NICs that wait for
// it.
func (d *Directory) Announce(name string) {
	if port, ok := d.names.own[name]; ok {
		d.nic.Send(ethertype.Header{Dst: ethertype.Broadcast, Kind: ethertype.KindAnswer, SrcPort: d.self.Addr.Port},
			[]byte{byte(port >> 8), byte(port)}, []byte(name))
		d.nic.Flush()
	}
}

// Await is Lookup on the whole segment for a name that its owner announces. It queries the segment only after about the
// given time.
func (d *Directory) Await(ctx context.Context, name string, quiet, timeout time.Duration) (ethertype.Addr, error) {
	return d.lookup(ctx, question{name, announced}, quiet, timeout)
}

// announced is question.at of a name that is announced.
var announced = ethertype.Addr{MAC: ethertype.Broadcast}

func (d *Directory) lookup(ctx context.Context, q question, quiet, timeout time.Duration) (ethertype.Addr, error) {
	name := q.name
	if name == "" || len(name) > MaxName {
		return ethertype.Addr{}, code.Error("look up", code.ErrArgument, "a name has 1..%d bytes, this one has %d", MaxName, len(name))
	}
	if err := d.up("look up"); err != nil {
		return ethertype.Addr{}, err
	}
	if port, ok := d.names.own[name]; ok {
		return ethertype.Addr{MAC: d.self.Addr.MAC, Port: port}, nil
	}
	l := d.names.pending[q]
	if l == nil {
		l = &lookup{nonce: d.random.Uint64(), awaits: q.at == announced}
		d.names.pending[q] = l
	}
	l.users++
	defer func() {
		if l.users--; l.users == 0 {
			delete(d.names.pending, q)
		}
	}()
	return d.ask(ctx, q, l, int64(quiet), timeout)
}

const (
	askFirst = int64(10 * time.Millisecond)
	askMax   = int64(400 * time.Millisecond)
)

// ask sends the query at increasing intervals until it is answered. The intervals are random, between half of the
// nominal one and one and a half: queries of many NICs that were lost because they were sent at the same instant
// would be lost together again.
func (d *Directory) ask(ctx context.Context, q question, l *lookup, quiet int64, timeout time.Duration) (ethertype.Addr, error) {
	to, end := q.to(), d.nic.Now()+int64(d.eng.Left(ctx, timeout))
	for interval := cmp.Or(quiet, askFirst); ; interval = max(min(2*interval, askMax), askFirst) {
		if quiet == 0 {
			d.nic.Send(ethertype.Header{Dst: to.MAC, DstPort: to.Port, Kind: ethertype.KindQuery, SrcPort: d.self.Addr.Port, Sack: l.nonce}, []byte(q.name))
			d.nic.Flush()
		}
		quiet = 0
		w := d.eng.Begin(ctx)
		w.Until(min(d.nic.Now()+interval/2+int64(d.random.Uint64()%uint64(interval)), end))
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
		case d.nic.Dead() != nil: // wait then neither waits nor releases the lock
			return ethertype.Addr{}, code.Error("look up", d.nic.Dead(), "open the NIC again to look up %q", q.name)
		case d.eng.Ended(ctx) == context.Canceled:
			err = fmt.Errorf("%w: %w", code.ErrNameService, context.Canceled)
			return ethertype.Addr{}, code.Error("look up", err, "the query for %q was cancelled: %v", q.name, context.Cause(ctx))
		case d.eng.Ended(ctx) != nil || d.nic.Now() >= end:
			return ethertype.Addr{}, d.silence("look up", code.ErrNameService, "no reply from %s for %q: is the program that advertises it running? (to see whether frames pass between two hosts: bobnet doctor --host HOST,HOST)", d.nobody(q.at), q.name)
		}
	}
}

// nobody describes the NICs that do not answer.
func (d *Directory) nobody(at ethertype.Addr) string {
	if at == (ethertype.Addr{}) || at == announced {
		return "any host on the segment of " + d.self.Interface
	}
	return fmt.Sprintf("the NIC at %v", at)
}

// receiveQuestion answers a query for a name of this NIC.
func (d *Directory) receiveQuestion(h *ethertype.Header, payload []byte) {
	if port, ok := d.names.own[string(payload)]; ok && !h.Src.IsGroup() && d.nic.MayAnswer(guard.Query) {
		d.nic.Send(ethertype.Header{Dst: h.Src, Kind: ethertype.KindAnswer, DstPort: h.SrcPort, SrcPort: d.self.Addr.Port, Sack: h.Sack},
			[]byte{byte(port >> 8), byte(port)}, payload)
	}
}

// receiveName processes the answer to a query.
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
		if (l.nonce == h.Sack || l.awaits && h.Sack == 0) && q.name == name && (q.at.MAC == addr.MAC || q.at == (ethertype.Addr{}) || l.awaits) {
			l.answer, l.known = addr, true
			l.gate.Open(d.eng)
			return
		}
	}
	if h.Sack != 0 { // else it is an announcement for others
		d.nic.Unknown()
	}
}
