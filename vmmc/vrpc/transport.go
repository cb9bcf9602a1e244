package vrpc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// Transport brings the calls of clients to one server, and its replies back. Clients of
// several programs may share one (Client.Program), and goroutines call it at once.
//
// The transports of this package are made by Dial and DialVMMC. Another one carries whole messages
// and needs to know of them only that a call and its reply begin with the same four bytes.
type Transport interface {
	// RoundTrip sends x.Message and sets x.Reply to the reply that begins with the same
	// transaction id. It ends when the reply is there, with ctx, at x.Deadline (ErrTimeout),
	// or with an error that is or wraps a *TransportError, ErrTooLarge or ErrClosed.
	RoundTrip(ctx context.Context, x *Exchange) error
	// Release says that x.Reply is not used any more. It is called once for each RoundTrip
	// that succeeded.
	Release(x *Exchange)
	// Send sends x.Message, to which no reply is expected. It returns when the message is
	// the transport's; a later RoundTrip pushes out what the transport keeps back.
	Send(ctx context.Context, x *Exchange) error
	// Close ends all calls with ErrClosed.
	Close() error
}

// starter is a Transport that can send calls without waiting for their replies. After a Start
// that succeeds there is one Finish.
type starter interface {
	Start(ctx context.Context, x *Exchange) error
	Finish(ctx context.Context, x *Exchange) error
}

// headroom is how many bytes before a message are the transport's: the record mark.
const headroom = 4

// Exchange is one call on its way through a Transport.
type Exchange struct {
	XID      uint32
	Message  []byte    // the call, unchanged until RoundTrip or Send returns
	Deadline time.Time // zero for none
	Reply    []byte    // valid until Release; its capacity may be used for the reply

	stream clientConn // that it was started on
	heard  uint64     // by that, before
	room   []byte     // headroom, and Message behind it
	record []byte     // headroom, and Reply behind it, if it came by a stream
	done   chan error
	timer  *time.Timer
	far          // over VMMC
	aside  aside // by a Transport that is no starter
	enc    xdr.Encoder
	dec    xdr.Decoder
}

var exchanges = sync.Pool{New: func() any {
	x := &Exchange{done: make(chan error, 1), timer: time.NewTimer(time.Hour), room: make([]byte, headroom, 512)}
	x.timer.Stop()
	return x
}}

// lastXID is the transaction id drawn last by this process. It begins at random, so that
// a server does not take the calls of a restarted client for those before.
var lastXID = func() *atomic.Uint32 {
	var seed [4]byte
	rand.Read(seed[:])
	n := new(atomic.Uint32)
	n.Store(binary.BigEndian.Uint32(seed[:]))
	return n
}()
